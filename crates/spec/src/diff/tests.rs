//! Each kind of change, in both directions.

use weir_types::{Effect, Hash, Json, NanoUsd, OnInterrupt, Price, Risk};

use super::*;
use crate::manifest::{Agent, Limits, Loop, McpSource, Source, Tool, Transport};
use crate::rules::{Budget, Lane, Mode, Scope, Verdict};
use crate::sample::{manifest, principal, rule, script};
use crate::{Access, Approval, Credential, CredentialKind, Missed, Role, SecretRef, WhenFull};

/// What a change and its reverse look like: `+` widens, `-` does not.
fn shown(change: impl FnOnce(&mut Manifest)) -> [String; 2] {
    let before = manifest();
    let mut after = before.clone();
    change(&mut after);
    let line = |change: &Change| {
        let sign = if change.widens { '+' } else { '-' };
        let [before, after] = [&change.before, &change.after].map(|side| side.as_deref().unwrap_or("∅"));
        format!("{sign} {} / {}: {before} → {after}", change.subject, change.what)
    };
    let all = |changes: Vec<Change>| changes.iter().map(line).collect::<Vec<_>>().join("\n");
    [all(diff(&before, &after)), all(diff(&after, &before))]
}

#[track_caller]
fn check(change: impl FnOnce(&mut Manifest), there: &str, back: &str) {
    assert_eq!(shown(change), [there, back]);
}

fn helper(manifest: &mut Manifest) -> &mut Agent {
    manifest.agents.get_mut("helper").unwrap()
}

fn bash(manifest: &mut Manifest) -> &mut Tool {
    &mut helper(manifest).tools[0]
}

fn daily(manifest: &mut Manifest) -> &mut Loop {
    manifest.loops.get_mut("daily").unwrap()
}

#[test]
fn the_same_is_no_change() {
    check(|_| (), "", "");
    // What it was made of is not what it does.
    check(|m| m.input = Hash::of(b"other"), "", "");
    // What nothing else explains is told: another version may compile policies differently.
    check(|m| m.policy.clear(), "+ policy / compiled text: ∅ → ∅", "+ policy / compiled text: ∅ → ∅");
    let with_rule = |m: &mut Manifest| {
        m.policy.clear();
        m.four_eyes = false;
    };
    check(with_rule, "+ project / four_eyes: true → false", "- project / four_eyes: false → true");
}

#[test]
fn agents_come_and_go() {
    check(
        |m| drop(m.agents.remove("helper")),
        "- agent helper / : acme/fast, tools: bash → ∅",
        "+ agent helper / : ∅ → acme/fast, tools: bash",
    );
}

#[test]
fn models_and_instructions() {
    check(
        |m| helper(m).model = "acme/smart".to_owned(),
        "+ agent helper / model: acme/fast → acme/smart",
        "+ agent helper / model: acme/smart → acme/fast",
    );
    check(
        |m| helper(m).description.clear(),
        "- agent helper / instructions: ∅ → ∅",
        "- agent helper / instructions: ∅ → ∅",
    );
    check(
        |m| helper(m).skills.clear(),
        "- agent helper / skill ./skills/a: yes → ∅",
        "+ agent helper / skill ./skills/a: ∅ → yes",
    );
    check(
        |m| helper(m).region = None,
        "+ agent helper / region: eu → anywhere",
        "- agent helper / region: anywhere → eu",
    );
    check(
        |m| m.models.get_mut("acme/fast").unwrap().base_url = Some("http://x".to_owned()),
        "+ model acme/fast / where it is: ∅ → ∅",
        "+ model acme/fast / where it is: ∅ → ∅",
    );
    let price = |m: &mut Manifest| {
        let free = NanoUsd(0);
        let price = Price { input: free, output: free, cache_read: free, cache_write: free };
        m.models.get_mut("acme/fast").unwrap().price = Some(price);
    };
    check(price, "- model acme/fast / price: ∅ → ∅", "- model acme/fast / price: ∅ → ∅");
    check(
        |m| m.models.get_mut("acme/fast").unwrap().output_max = 20,
        "- model acme/fast / size: ∅ → ∅",
        "- model acme/fast / size: ∅ → ∅",
    );
}

#[test]
fn tools_of_an_agent() {
    check(
        |m| helper(m).tools.clear(),
        "- agent helper / tool bash: read from bash → ∅",
        "+ agent helper / tool bash: ∅ → read from bash",
    );
    check(
        |m| bash(m).source = "mcp://x".to_owned(),
        "+ agent helper / tool bash: source: bash → mcp://x",
        "+ agent helper / tool bash: source: mcp://x → bash",
    );
    check(
        |m| bash(m).remote_name = Some("sh".to_owned()),
        "+ agent helper / tool bash: name at its server: ∅ → ∅",
        "+ agent helper / tool bash: name at its server: ∅ → ∅",
    );
    check(
        |m| bash(m).access = Access::Write,
        "+ agent helper / tool bash: access: read → write",
        "- agent helper / tool bash: access: write → read",
    );
    check(
        |m| bash(m).effect = Effect::Read,
        "+ agent helper / tool bash: effect: idempotent → read",
        "- agent helper / tool bash: effect: read → idempotent",
    );
    check(
        |m| bash(m).risk = Risk::Low,
        "+ agent helper / tool bash: risk: medium → low",
        "- agent helper / tool bash: risk: low → medium",
    );
    check(
        |m| bash(m).on_interrupt = OnInterrupt::Retry,
        "+ agent helper / tool bash: on_interrupt: ask → retry",
        "- agent helper / tool bash: on_interrupt: retry → ask",
    );
    check(
        |m| bash(m).approval = Some(Approval::Always),
        "- agent helper / tool bash: approval: ∅ → always",
        "+ agent helper / tool bash: approval: always → ∅",
    );
    check(
        |m| bash(m).approval_terms.within_ms = Some(1_000),
        "- agent helper / tool bash: within: ∅ → 1000 ms",
        "+ agent helper / tool bash: within: 1000 ms → ∅",
    );
    check(
        |m| {
            let to = "group:boss".to_owned();
            bash(m).approval_terms.escalate = Some(weir_types::Escalate { to, after_ms: 5 });
        },
        "+ agent helper / tool bash: escalate: ∅ → group:boss after 5 ms",
        "- agent helper / tool bash: escalate: group:boss after 5 ms → ∅",
    );
    check(
        |m| bash(m).parameters = Json::null(),
        "+ agent helper / tool bash: parameters: ∅ → ∅",
        "+ agent helper / tool bash: parameters: ∅ → ∅",
    );
    check(
        |m| bash(m).description = "x".to_owned(),
        "- agent helper / tool bash: description: ∅ → ∅",
        "- agent helper / tool bash: description: ∅ → ∅",
    );
    check(
        |m| bash(m).hosts.clear(),
        "- agent helper / tool bash: host a.example: yes → ∅",
        "+ agent helper / tool bash: host a.example: ∅ → yes",
    );
    check(
        |m| bash(m).env.clear(),
        "- agent helper / tool bash: env A: env:A → ∅",
        "+ agent helper / tool bash: env A: ∅ → env:A",
    );
}

#[test]
fn limits_and_access_of_an_agent() {
    check(
        |m| helper(m).limits.iterations = 20,
        "+ agent helper / limit iterations: 10 → 20",
        "- agent helper / limit iterations: 20 → 10",
    );
    check(
        |m| helper(m).limits.usd = None,
        "+ agent helper / limit usd: $1.00 → no limit",
        "- agent helper / limit usd: no limit → $1.00",
    );
    check(
        |m| helper(m).limits.tokens = Some(50),
        "- agent helper / limit tokens: 100 → 50",
        "+ agent helper / limit tokens: 50 → 100",
    );
    for (change, name) in [
        ((|limits| limits.wall_clock_ms = Some(60_000)) as fn(&mut Limits), "wall_clock: no limit → 1m"),
        (|limits| limits.output_tokens = Some(5), "output_tokens: no limit → 5"),
        (|limits| limits.context_tokens = Some(5), "context_tokens: no limit → 5"),
        (|limits| limits.model_calls = Some(5), "model_calls: no limit → 5"),
    ] {
        let [there, back] = shown(|m| change(&mut helper(m).limits));
        assert_eq!(there, format!("- agent helper / limit {name}"));
        assert!(back.starts_with("+ "), "{back}");
    }
    check(
        |m| helper(m).acl.clear(),
        "- agent helper / access of user:ada: execute → ∅",
        "+ agent helper / access of user:ada: ∅ → execute",
    );
    check(
        |m| helper(m).approvers.clear(),
        "- agent helper / approver user:boss: yes → ∅",
        "+ agent helper / approver user:boss: ∅ → yes",
    );
}

#[test]
fn loops() {
    check(
        |m| drop(m.loops.remove("daily")),
        "- loop daily / : helper as serviceaccount:bot at `0 9 * * *` → ∅",
        "+ loop daily / : ∅ → helper as serviceaccount:bot at `0 9 * * *`",
    );
    for (change, name) in [
        ((|spec| spec.agent = "x".to_owned()) as fn(&mut Loop), "agent: helper → x"),
        (|spec| spec.run_as = principal("serviceaccount:x"), "run_as: serviceaccount:bot → serviceaccount:x"),
        (|spec| spec.schedule = "* * * * *".to_owned(), "schedule: 0 9 * * * → * * * * *"),
        (|spec| spec.timezone = "Asia/Tokyo".to_owned(), "timezone: UTC → Asia/Tokyo"),
        (|spec| spec.instruction.clear(), "instruction: ∅ → ∅"),
        (|spec| spec.missed = Missed::Skip, "missed: all → skip"),
    ] {
        let [there, back] = shown(|m| change(daily(m)));
        assert_eq!(there, format!("+ loop daily / {name}"));
        assert!(back.starts_with("+ "), "{back}");
    }
    for (change, name) in [
        ((|spec| spec.concurrency.max = 2) as fn(&mut Loop), "concurrency: 1 → 2"),
        (|spec| spec.timeout_ms = Some(61_000), "timeout: 1m → 61s"),
        (|spec| spec.retries = 2, "retries: 1 → 2"),
        (
            |spec| spec.acl = BTreeMap::from([(principal("user:ada"), Role::Execute)]),
            "access of user:ada: read → execute",
        ),
    ] {
        let [there, back] = shown(|m| change(daily(m)));
        assert_eq!(there, format!("+ loop daily / {name}"));
        assert!(back.starts_with("- "), "{back}");
    }
    check(
        |m| daily(m).concurrency.when_full = WhenFull::Skip,
        "- loop daily / when full: queue → skip",
        "+ loop daily / when full: skip → queue",
    );
}

#[test]
fn sources_and_skills() {
    let code = |m: &mut Manifest| {
        let mut changed = script();
        changed.modules.get_mut("tools/x.ts").unwrap().code = "2".to_owned();
        m.sources.insert("tools/x".to_owned(), Source::Script(changed));
    };
    check(code, "+ source tools/x / code: ∅ → ∅", "+ source tools/x / code: ∅ → ∅");
    let server = |change: fn(&mut McpSource)| {
        move |m: &mut Manifest| {
            if let Some(Source::Mcp(server)) = m.sources.get_mut("mcp://x") {
                change(server);
            }
        }
    };
    let transport = server(|server| server.transport = Transport::Stdio(vec![]));
    check(transport, "+ source mcp://x / transport: ∅ → ∅", "+ source mcp://x / transport: ∅ → ∅");
    let definition = server(|server| server.tools.get_mut("t").unwrap().hash = Hash::of(b""));
    check(
        definition,
        "+ source mcp://x / definition of t: ∅ → ∅",
        "+ source mcp://x / definition of t: ∅ → ∅",
    );
    check(
        |m| drop(m.sources.insert("mcp://x".to_owned(), Source::Script(script()))),
        "+ source mcp://x / kind: ∅ → ∅",
        "+ source mcp://x / kind: ∅ → ∅",
    );
    check(
        |m| m.skills.get_mut("./skills/a").unwrap().digest = Hash::of(b""),
        "+ skill ./skills/a / content: ∅ → ∅",
        "+ skill ./skills/a / content: ∅ → ∅",
    );
}

#[test]
fn grants_groups_and_credentials() {
    check(
        |m| *m.grants.get_mut("bash").unwrap() = BTreeMap::from([(principal("user:ada"), Access::Write)]),
        "+ grant bash / user:ada: read → write",
        "- grant bash / user:ada: write → read",
    );
    check(|m| m.grants.clear(), "- grant bash / user:ada: read → ∅", "+ grant bash / user:ada: ∅ → read");
    check(
        |m| m.groups.as_mut().unwrap().clear(),
        "- group ops / member user:ada: yes → ∅",
        "+ group ops / member user:ada: ∅ → yes",
    );
    check(
        |m| m.groups = None,
        "+ groups / who says who is in which: ∅ → ∅",
        "+ groups / who says who is in which: ∅ → ∅",
    );
    check(
        |m| m.credentials.clear(),
        "- credential mcp://x / user:ada: oauth → ∅",
        "+ credential mcp://x / user:ada: ∅ → oauth",
    );
    let other = |m: &mut Manifest| {
        let from = Some(SecretRef::Env("X".to_owned()));
        let credential = Credential { kind: CredentialKind::Header, from, header: Some("X-Key".to_owned()) };
        m.credentials.get_mut("mcp://x").unwrap().insert(principal("user:ada"), credential);
    };
    check(
        other,
        "+ credential mcp://x / user:ada: oauth → header from env:X in X-Key",
        "+ credential mcp://x / user:ada: header from env:X in X-Key → oauth",
    );
    check(
        |m| m.service_accounts.clear(),
        "- project / service account bot: yes → ∅",
        "- project / service account bot: ∅ → yes",
    );
}

#[test]
fn rules() {
    check(|m| drop(m.rules.pop()), "+ rule b / : deny (enforce) → ∅", "- rule b / : ∅ → deny (enforce)");
    // A rule that only asks and comes before one that denies takes calls from it.
    check(
        |m| drop(m.rules.remove(0)),
        "+ rule a / : require_approval (enforce) → ∅",
        "+ rule a / : ∅ → require_approval (enforce)",
    );
    check(
        |m| m.rules.push(rule("c", Verdict::Allow)),
        "+ rule c / : ∅ → allow (enforce)",
        "- rule c / : allow (enforce) → ∅",
    );
    check(
        |m| m.rules[1].then = Verdict::RequireApproval,
        "+ rule b / then: deny (enforce) → require_approval (enforce)",
        "- rule b / then: require_approval (enforce) → deny (enforce)",
    );
    check(
        |m| m.rules[0].approval_terms.within_ms = Some(1_000),
        "- rule a / within: ∅ → 1000 ms",
        "+ rule a / within: 1000 ms → ∅",
    );
    check(
        |m| m.rules[1].mode = Mode::Observe,
        "+ rule b / then: deny (enforce) → deny (observe)",
        "- rule b / then: deny (observe) → deny (enforce)",
    );
    check(|m| m.rules[1].when.tool = None, "+ rule b / when: ∅ → ∅", "+ rule b / when: ∅ → ∅");
    check(|m| m.rules.swap(0, 1), "+ rules / order: a, b → b, a", "+ rules / order: b, a → a, b");
    check(|m| m.rules[0].why = Some("because".to_owned()), "", "");
}

#[test]
fn budgets_and_settings() {
    check(
        |m| m.budgets.clear(),
        "+ budget per_day / usd: $20.00 → no limit",
        "- budget per_day / usd: no limit → $20.00",
    );
    for (change, name) in [
        ((|budget| budget.tokens = Some(5)) as fn(&mut Budget), "tokens: no limit → 5"),
        (|budget| budget.model_calls = Some(5), "model_calls: no limit → 5"),
        (|budget| budget.wall_clock_ms = Some(50), "wall_clock: no limit → 50ms"),
    ] {
        let [there, back] = shown(|m| change(m.budgets.get_mut(&Scope::PerDay).unwrap()));
        assert_eq!(there, format!("- budget per_day / {name}"));
        assert!(back.starts_with("+ "), "{back}");
    }
    check(
        |m| m.four_eyes = false,
        "+ project / four_eyes: true → false",
        "- project / four_eyes: false → true",
    );
    check(
        |m| m.knowledge.clear(),
        "- project / knowledge docs: yes → ∅",
        "+ project / knowledge docs: ∅ → yes",
    );
    check(
        |m| m.hooks.pre_append.clear(),
        "+ project / hooks pre_append: {\"run\":[\"x\"]} → none",
        "+ project / hooks pre_append: none → {\"run\":[\"x\"]}",
    );
    check(
        |m| drop(m.policies.insert("policies/a.cedar".to_owned(), "forbid".to_owned())),
        "+ policy policies/a.cedar / text: ∅ → ∅",
        "+ policy policies/a.cedar / text: ∅ → ∅",
    );
}

#[test]
fn routing() {
    check(
        |m| m.routing.default = Lane::Managed,
        "+ routing / default: direct → managed",
        "- routing / default: managed → direct",
    );
    check(|m| m.routing.canary_pct = None, "- routing / canary_pct: 5 → 0", "+ routing / canary_pct: 0 → 5");
    check(
        |m| m.routing.allow.push(principal("user:bob")),
        "+ routing / allow user:bob: ∅ → yes",
        "- routing / allow user:bob: yes → ∅",
    );
    check(
        |m| m.routing.deny.clear(),
        "+ routing / deny user:ada: yes → ∅",
        "- routing / deny user:ada: ∅ → yes",
    );
    check(
        |m| m.routing.hold = Some(crate::Hold::default()),
        "+ routing / hold: ∅ → ∅",
        "+ routing / hold: ∅ → ∅",
    );
    check(
        |m| m.routing.rollback = Some(crate::Rollback::default()),
        "+ routing / rollback: ∅ → ∅",
        "+ routing / rollback: ∅ → ∅",
    );
}
