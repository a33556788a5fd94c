//! What is to be decided, in plain code that shares nothing with the gate.

use weir_types::Verdict;

use super::cases::{Build, Case, RULES, Writes};

/// What is to be decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) verdict: Verdict,
    pub(super) rule: Option<String>,
    pub(super) stub: bool,
    pub(super) observed: Vec<String>,
}

fn no(rule: &str) -> Expected {
    Expected { verdict: Verdict::Deny, rule: Some(rule.to_owned()), stub: false, observed: Vec::new() }
}

/// What a tool of an agent is, for one call.
struct Tool {
    source: &'static str,
    /// Whether its entry offers writing.
    writable: bool,
    /// `read`, `idempotent` or `write`.
    effect: &'static str,
    /// 0 low, 1 medium, 2 high.
    risk: u8,
    /// Whether it changes only its session.
    contained: bool,
}

fn tool(case: &Case) -> Option<Tool> {
    let make = |source, writable, effect, risk, contained| Tool { source, writable, effect, risk, contained };
    let posts = case.input.contains("POST");
    let found = match (case.agent, case.tool) {
        ("full" | "limited", "fs_read") => make("fs", false, "read", 0, true),
        ("full", "bash") => make("bash", true, "idempotent", 2, true),
        ("full", "http") if posts => make("http", true, "write", 1, false),
        ("full", "http") => make("http", true, "read", 0, false),
        ("limited", "http") if posts => make("http", false, "write", 0, false),
        ("limited", "http") => make("http", false, "read", 0, false),
        ("full", "note") => make("tools/note", true, "write", 2, false),
        ("limited", "note") => make("tools/note", false, "read", 0, false),
        ("full", "look") => make("tools/look", false, "read", 0, false),
        ("full", "clerk") => make("weir://clerk", true, "write", 2, true),
        ("limited", "clerk") => make("weir://clerk", false, "read", 0, true),
        _ => return None,
    };
    Some(found)
}

fn is_admin(case: &Case) -> bool {
    ["user:root", "user:chief"].contains(&case.principal)
}

fn in_team(case: &Case) -> bool {
    case.principal == "user:member"
}

/// 0 nothing, 1 read, 2 write.
fn grant(case: &Case, source: &str) -> u8 {
    if is_admin(case) {
        return 2;
    }
    match (case.principal, source) {
        ("user:writer", _) => 2,
        ("user:reader", _) => 1,
        ("user:member", "tools/note") => 2,
        ("user:member", "tools/look") => 1,
        ("serviceaccount:bot", "http") => 2,
        _ => 0,
    }
}

fn matches(id: &str, case: &Case, tool: &Tool) -> bool {
    match id {
        "shell" => case.tool == "bash",
        "risky" => tool.risk == 2,
        "writes" => tool.effect == "write",
        "careful" => tool.risk >= 1,
        "team" => in_team(case),
        "scripts" => case.principal == "user:writer" && tool.source.starts_with("tools/"),
        "limited" => case.agent == "limited",
        "files" => tool.source == "fs",
        "evil" => case.input.contains("evil"),
        "tried" => case.tool != "http" && case.tool != "fs_read",
        "all" => true,
        "bot" => case.principal == "serviceaccount:bot",
        "clerk" => case.tool == "clerk",
        "notes" => case.tool == "note" && tool.effect == "write" && (in_team(case) || is_admin(case)),
        other => panic!("no such rule: {other}"),
    }
}

pub(super) fn decide(build: &Build, case: &Case) -> Expected {
    let Some(tool) = tool(case) else { return no("allowlist") };
    if case.input.contains('5') {
        return no("schema");
    }
    let writes = tool.effect != "read";
    if writes && !tool.writable {
        return no("grant");
    }
    if case.tool == "clerk" {
        if build.written && case.principal == "user:writer" {
            return no("no-clerk");
        }
        let listed = ["user:writer", "user:member", "serviceaccount:bot"].contains(&case.principal);
        if !listed && !is_admin(case) {
            return no("grant");
        }
    } else {
        if build.written && case.tool == "look" && in_team(case) {
            return no("no-look");
        }
        if grant(case, tool.source) < if writes { 2 } else { 1 } {
            return no("grant");
        }
    }
    by_rules(build, case, &tool)
}

fn by_rules(build: &Build, case: &Case, tool: &Tool) -> Expected {
    let live = match case.live {
        Writes::None => false,
        Writes::All => true,
        Writes::Scripts => tool.source.starts_with("tools/"),
    };
    let stub = tool.effect != "read" && !tool.contained && !live;
    let mut observed = Vec::new();
    let mut said = None;
    for (id, _, then, observe) in build.rules.iter().map(|rule| RULES[*rule]) {
        if !matches(id, case, tool) {
            continue;
        }
        if observe {
            observed.push(id.to_owned());
            continue;
        }
        said = Some((id, then));
        break;
    }
    let always = build.always && case.agent == "full" && ["http", "note"].contains(&case.tool);
    let asks = match said {
        Some((id, "deny")) => return Expected { observed, ..no(id) },
        Some((id, "require_approval")) => Some(id),
        _ if always => Some("approval: always"),
        _ => None,
    };
    let verdict = if asks.is_some() && !case.approved { Verdict::Ask } else { Verdict::Allow };
    let rule = asks.or(said.map(|(id, _)| id)).map(str::to_owned);
    Expected { verdict, rule, stub, observed }
}
