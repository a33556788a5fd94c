//! Who may do what: service accounts, groups, grants and credentials of a project.

use std::collections::BTreeMap;

use super::{Group, ServerCredentials, ToolGrant};
use crate::agent::AclEntry;
use crate::diagnostic::{Findings, Span, Spanned};
use crate::fields::Fields;
use crate::format;
use crate::node::{Entry, Value};
use crate::shape::{Choice, Kind, Shape, optional, required, words};
use crate::{Access, Credential, CredentialKind, Principal};

pub(super) static SERVICE_ACCOUNT: Shape = Shape {
    what: "a service account",
    doc: "An identity that is nobody's.",
    fields: &[required("name", "name: digest-bot", Kind::Format(&format::NAME), "Its name.")],
    choice: Choice::Free,
    instead: &[],
};

pub(super) static TOOL_GRANT: Shape = Shape {
    what: "a tool grant",
    doc: "Who may use a tool.",
    fields: &[
        required(
            "tool",
            "tool: mcp://integrations.example.com/slack",
            Kind::Format(&format::ANY_TOOL),
            "The tool, as agents list it.",
        ),
        required(
            "grants",
            "grants: [{ principal: \"group:engineering\", access: read }]",
            Kind::List(&Kind::Shape(&GRANT)),
            "Who may use it.",
        ),
    ],
    choice: Choice::Free,
    instead: &[("name", "write `tool`"), ("server", "write `tool`")],
};

static GRANT: Shape = Shape {
    what: "a grant",
    doc: "Who may use a tool, and how.",
    fields: &[
        required("principal", "principal: group:engineering", Kind::Format(&format::PRINCIPAL), "Who."),
        required("access", "access: read", Kind::Word(|| words(Access::WORDS)), "Up to which level."),
    ],
    choice: Choice::Free,
    instead: &[("role", "write `access`")],
};

pub(super) static CREDENTIAL: Shape = Shape {
    what: "a credential",
    doc: "How a server is convinced of who is asking.",
    fields: &[
        required("type", "type: bearer", Kind::Word(|| words(KINDS)), "What is sent."),
        optional(
            "from",
            Kind::Format(&format::SECRET),
            "Where the secret is, once `weir auth add SERVER --from …` has approved it; what `weir auth add` stored, if absent. \
             Never the secret itself.",
        ),
        optional("header", Kind::Format(&format::HEADER), "The header that carries it."),
    ],
    choice: Choice::Free,
    instead: &[
        ("token", "write `from`, with where the token is: `env:NAME`, `file:PATH` or `exec:PROGRAM`"),
        ("value", "write `from`, with where the secret is: `env:NAME`, `file:PATH` or `exec:PROGRAM`"),
        ("secret", "write `from`, with where the secret is: `env:NAME`, `file:PATH` or `exec:PROGRAM`"),
    ],
};

const KINDS: &[(&str, CredentialKind)] = &[
    ("bearer", CredentialKind::Bearer),
    ("oauth", CredentialKind::Oauth),
    ("basic", CredentialKind::Basic),
    ("header", CredentialKind::Header),
];

pub(super) fn service_accounts(fields: &Fields<'_>, findings: &mut Findings) -> Vec<Spanned<String>> {
    let mut seen: BTreeMap<String, Span> = BTreeMap::new();
    let mut accounts = Vec::new();
    for name in fields.each("service_accounts").filter_map(|account| account.text("name")) {
        if let Some(first) = seen.insert(name.value.clone(), name.span) {
            let message = format!("the service account `{}` is here twice", name.value);
            findings.twice("spec::duplicate", [first, name.span], message, "keep one of them");
            continue;
        }
        accounts.push(name);
    }
    accounts
}

pub(super) fn groups(fields: &Fields<'_>) -> Vec<Group> {
    let group = |entry: &Entry| {
        let Value::List(items) = &entry.value.value else { return None };
        let members = items.iter().filter_map(|node| {
            Some(Spanned { value: node.as_text()?.parse::<Principal>().ok()?, span: node.span })
        });
        Some(Group { name: entry.key.clone(), members: members.collect() })
    };
    fields.entries("groups").iter().filter_map(group).collect()
}

pub(super) fn tool_grants(fields: &Fields<'_>, findings: &mut Findings) -> Vec<ToolGrant> {
    let mut seen: BTreeMap<(String, Principal), Span> = BTreeMap::new();
    let mut all = Vec::new();
    for outer in fields.each("tool_grants") {
        let Some(tool) = outer.text("tool") else { continue };
        let mut grants = Vec::new();
        for inner in outer.each("grants") {
            let principal: Option<Spanned<Principal>> = inner.parsed("principal");
            let (Some(principal), Some(role)) = (principal, inner.word("access", Access::WORDS)) else {
                continue;
            };
            let key = (tool.value.clone(), principal.value.clone());
            if let Some(first) = seen.insert(key, principal.span) {
                let message = format!("`{}` has a grant for this tool already", principal.value);
                let help = "keep the one with the access that is meant";
                findings.twice("spec::duplicate", [first, principal.span], message, help);
                continue;
            }
            grants.push(AclEntry { principal, role });
        }
        all.push(ToolGrant { tool, grants });
    }
    all
}

pub(super) fn credentials(fields: &Fields<'_>, findings: &mut Findings) -> Vec<ServerCredentials> {
    let mut all = Vec::new();
    for server in fields.entries("mcp_credentials") {
        let Value::Map(entries) = &server.value.value else { continue };
        let mut credentials = Vec::new();
        for entry in entries {
            let Some(inner) = Fields::of(&entry.value, &CREDENTIAL) else { continue };
            let Ok(principal) = entry.key.value.parse::<Principal>() else { continue };
            let Some(credential) = credential(&inner, findings) else { continue };
            credentials.push((Spanned { value: principal, span: entry.key.span }, credential));
        }
        all.push(ServerCredentials { server: server.key.clone(), credentials });
    }
    all
}

fn credential(fields: &Fields<'_>, findings: &mut Findings) -> Option<Credential> {
    let kind = fields.word("type", KINDS)?;
    // Without `from`, what `weir auth add` stored is sent.
    if kind == CredentialKind::Header && !fields.has("header") {
        let help = "add it, for example `header: X-Api-Key`";
        findings.add("spec::missing", fields.place, "this type of credential needs `header`", help);
    }
    if fields.has("header") && kind != CredentialKind::Header {
        let message = "`header` has no effect here: it is for `type: header`";
        findings.add(
            "spec::contradiction",
            fields.place_of("header"),
            message,
            "remove it, or write `type: header`",
        );
    }
    let from = fields.parsed("from").map(|from| from.value);
    Some(Credential { kind, from, header: fields.words("header") })
}
