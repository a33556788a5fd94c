//! Projects that differ in their rules, and calls that differ in everything else.

use weir_tools::Live;

/// Who holds every role and grant.
pub(super) const ADMIN: &str = "user:root";

pub(super) const AGENTS: &[&str] = &["full", "limited", "bare"];

/// An admin by name and one by group; who may write, read, or nothing; a member of a group; accounts, one called like a user.
const PRINCIPALS: &[&str] = &[
    ADMIN,
    "user:chief",
    "user:writer",
    "user:reader",
    "user:member",
    "serviceaccount:bot",
    "serviceaccount:writer",
    "user:nobody",
];

/// Tools and arguments.
const CALLS: &[(&str, &str)] = &[
    ("fs_read", r#"{"path":"a"}"#),
    ("bash", r#"{"command":"ls"}"#),
    ("http", r#"{"url":"https://good.example/"}"#),
    ("http", r#"{"url":"https://evil.example/"}"#),
    ("http", r#"{"url":"https://good.example/","method":"POST"}"#),
    ("note", r#"{"text":"x"}"#),
    ("look", r#"{"text":"x"}"#),
    ("clerk", r#"{"message":"x"}"#),
    ("clerk", r#"{"message":5}"#),
    ("nothing", "{}"),
];

/// Which writes happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writes {
    None,
    All,
    Scripts,
}

pub(super) const LIVE: &[Writes] = &[Writes::None, Writes::All, Writes::Scripts];

impl Writes {
    pub(super) fn live(self) -> Live {
        match self {
            Self::None => Live::Nothing,
            Self::All => Live::Everything,
            Self::Scripts => Live::Matching(vec!["tools/*".to_owned()]),
        }
    }
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) agent: &'static str,
    pub(super) tool: &'static str,
    pub(super) input: &'static str,
    pub(super) principal: &'static str,
    pub(super) approved: bool,
    pub(super) live: Writes,
}

pub(super) fn of(agent: &'static str, live: Writes) -> impl Iterator<Item = Case> {
    CALLS.iter().flat_map(move |(tool, input)| {
        PRINCIPALS.iter().flat_map(move |principal| {
            [false, true].map(|approved| Case { agent, tool, input, principal, approved, live })
        })
    })
}

/// The rules there are: id, `when`, `then`, and whether it is only tried out.
pub(super) const RULES: &[(&str, &str, &str, bool)] = &[
    ("shell", "{ tool: bash }", "deny", false),
    ("risky", "{ risk_at_least: high }", "require_approval", false),
    ("writes", "{ effect: write }", "deny", false),
    ("careful", "{ risk_at_least: medium }", "require_approval", false),
    ("team", "{ group: team }", "require_approval", false),
    ("scripts", "{ principal: \"user:writer\", source: \"tools/*\" }", "allow", false),
    ("limited", "{ agent: limited }", "deny", false),
    ("files", "{ tool: fs }", "require_approval", false),
    ("evil", "{ input: { url: { matches: evil } } }", "deny", false),
    ("tried", "{ not: { any: [{ tool: http }, { tool: \"fs_*\" }] } }", "deny", true),
    ("all", "{}", "allow", false),
    ("bot", "{ principal: \"serviceaccount:bot\" }", "deny", false),
    ("clerk", "{ tool: \"weir://clerk\" }", "require_approval", false),
    (
        "notes",
        "{ all: [{ tool: note }, { effect: write }], any: [{ group: team }, { group: admin }] }",
        "deny",
        true,
    ),
];

/// One project.
#[derive(Clone, Debug)]
pub(super) struct Build {
    /// Which rules it has, in their order.
    pub(super) rules: Vec<usize>,
    /// Whether two of its entries say `approval: always`.
    pub(super) always: bool,
    /// Whether it has policies written by hand.
    pub(super) written: bool,
}

/// Each rule alone, and some of them together.
pub(super) fn builds() -> Vec<Build> {
    let build = |rules: Vec<usize>, always, written| Build { rules, always, written };
    let mut builds =
        vec![build(vec![], false, false), build(vec![], true, false), build(vec![], false, true)];
    builds.extend((0..RULES.len()).map(|rule| build(vec![rule], false, false)));
    let mut state = 0x2545_f491_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    for number in 0..16 {
        let mut rules: Vec<usize> = Vec::new();
        while rules.len() < 2 + number % 4 {
            let rule = random(RULES.len());
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
        builds.push(build(rules, number % 2 == 0, number % 3 == 0));
    }
    builds
}

impl Build {
    pub(super) fn files(&self) -> Vec<(&'static str, String)> {
        let ask = if self.always { ", approval: always" } else { "" };
        let full = format!(
            "name: full\nmodel: offline/echo\ntools:\n  - {{ name: fs, access: read }}\n  - {{ name: bash, access: write }}\n  \
             - {{ name: http, access: write, hosts: [good.example]{ask} }}\n  - {{ name: tools/note, access: write{ask} }}\n  \
             - {{ name: tools/look, access: read }}\n  - {{ server: \"weir://clerk\", access: write }}\n"
        );
        let limited = "name: limited\nmodel: offline/echo\ntools:\n  - { name: fs, access: read }\n  \
                       - { name: http, access: read, hosts: [good.example] }\n  - { name: tools/note, access: read }\n  \
                       - { server: \"weir://clerk\", access: read }\n";
        let clerk = "name: clerk\nmodel: offline/echo\nacl:\n  - { principal: \"user:writer\", role: execute }\n  \
                     - { principal: \"group:team\", role: execute }\n  - { principal: \"serviceaccount:bot\", role: execute }\n";
        let mut files = vec![
            ("weir.yaml", self.project()),
            ("agents/full/spec.yaml", full),
            ("agents/limited/spec.yaml", limited.to_owned()),
            (
                "agents/bare/spec.yaml",
                "name: bare\nmodel: offline/echo\ntools: [{ name: get_time }]\n".to_owned(),
            ),
            ("agents/clerk/spec.yaml", clerk.to_owned()),
            ("tools/note.ts", script("note")),
            ("tools/look.ts", script("look")),
        ];
        if self.written {
            let text = "@id(\"no-look\")\nforbid (principal in Group::\"team\", action == Action::\"call\", resource == Tool::\"look\");\n\
                        @id(\"no-clerk\")\nforbid (principal == User::\"writer\", action == Action::\"execute\", resource == Agent::\"clerk\");\n";
            files.push(("policies/own.cedar", text.to_owned()));
        }
        files
    }

    fn project(&self) -> String {
        let everything = ["fs", "bash", "http", "tools/note", "tools/look"];
        let mut text = "project: truth\nservice_accounts: [{ name: bot }, { name: writer }]\n\
                        groups: { team: [\"user:member\"], admin: [\"user:chief\"] }\ntool_grants:\n"
            .to_owned();
        for tool in everything {
            text += &format!(
                "  - tool: {tool}\n    grants:\n      - {{ principal: \"user:writer\", access: write }}\n"
            );
            text += "      - { principal: \"user:reader\", access: read }\n";
            match tool {
                "http" => text += "      - { principal: \"serviceaccount:bot\", access: write }\n",
                "tools/note" => text += "      - { principal: \"group:team\", access: write }\n",
                "tools/look" => text += "      - { principal: \"group:team\", access: read }\n",
                _ => {}
            }
        }
        if !self.rules.is_empty() {
            text += "rules:\n";
        }
        for rule in &self.rules {
            let (id, when, then, observe) = RULES[*rule];
            let mode = if observe { ", mode: observe" } else { "" };
            text += &format!("  - {{ id: {id}, when: {when}, then: {then}{mode} }}\n");
        }
        text
    }
}

fn script(name: &str) -> String {
    format!(
        "import {{ defineTool }} from 'weir';\n\nexport default defineTool({{\n  name: '{name}',\n  description: '{name}',\n  \
         parameters: {{ text: {{ type: 'string', description: 'The text' }} }},\n  \
         execute: async ({{ text }}: {{ text: string }}) => text,\n}});\n"
    )
}
