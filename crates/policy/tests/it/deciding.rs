//! What happens to calls.

use std::collections::BTreeMap;

use serde_json::json;
use weir_policy::{Condition, Outcome, Parts, Policies, Source, Test, compile};
use weir_types::Level;
use weir_types::{Effect, Risk, Verdict};

use crate::support::{Owned, call, policies, rule, source, text, tool};

fn with_rules(rules: Vec<weir_policy::Rule>) -> Source {
    Source { rules, ..source() }
}

fn with_written(text: &str) -> Source {
    Source { written: BTreeMap::from([("policies/own.cedar".to_owned(), text.to_owned())]), ..source() }
}

fn said(source: &Source, call: &Owned) -> (Verdict, Option<String>) {
    let answer = call.decide(&policies(source));
    (answer.verdict, answer.rule)
}

fn deny(rule: &str) -> (Verdict, Option<String>) {
    (Verdict::Deny, Some(rule.to_owned()))
}

const ALLOW: (Verdict, Option<String>) = (Verdict::Allow, None);

#[test]
fn the_highest_grant_of_all_names_and_groups_holds() {
    let policies = policies(&source());
    let check = |who: &str, tool: &str, expected: &[Effect]| {
        for effect in [Effect::Read, Effect::Idempotent, Effect::Write] {
            let answer = Owned { tool: tool.to_owned(), effect, ..call(who) }.decide(&policies);
            let allowed = answer.verdict == Verdict::Allow;
            assert_eq!(allowed, expected.contains(&effect), "{who} {tool} {effect:?}: {}", answer.because());
        }
    };
    let (all, read) = ([Effect::Read, Effect::Idempotent, Effect::Write], [Effect::Read]);
    check("user:ada", "send", &all);
    check("user:alan", "send", &all);
    check("user:grace", "list", &read);
    check("user:grace", "send", &all);
    check("serviceaccount:ci", "list", &all);
    check("user:ci", "list", &[]);
    check("user:eve", "list", &[]);
    check("group:engineers", "list", &read);
    check("user:engineers", "list", &[]);
    check("nobody", "list", &[]);
}

#[test]
fn refusals_say_what_lacks_and_what_would_help() {
    let policies = policies(&source());
    let because = |call: Owned| call.decide(&policies).because();
    assert_eq!(
        because(Owned { tool: "list".to_owned(), ..call("user:grace") }),
        "grant: `user:grace` holds only `read` on `mcp://mail`, and the call needs `write`; a `tool_grants` entry for \
         `mcp://mail` with `access: write` in weir.yaml would allow it"
    );
    assert_eq!(
        because(Owned { effect: Effect::Read, ..call("user:eve") }),
        "grant: `user:eve` holds no grant on `mcp://mail`, and the call needs `read`; a `tool_grants` entry for \
         `mcp://mail` with `access: read` in weir.yaml would allow it"
    );
    assert_eq!(
        because(Owned { access: Level::Read, ..call("user:ada") }),
        "grant: this call needs `access: write`, and the agent's entry `mcp://mail` offers `read`; `access: write` in \
         the agent's spec would allow it"
    );
    assert_eq!(
        because(Owned { callee: Some("other".to_owned()), ..call("user:grace") }),
        "grant: `user:grace` may not talk to agent `other`; an `acl` entry with role `execute` in \
         agents/other/spec.yaml would allow it"
    );
}

#[test]
fn an_agent_is_a_matter_of_its_acl_and_of_no_grant() {
    let of = |callee: &str| Owned { callee: Some(callee.to_owned()), ..call("user:grace") };
    assert_eq!(said(&source(), &of("writer")), ALLOW);
    assert_eq!(said(&source(), &of("other")), deny("grant"));
    let ungranted = Owned { tool: "writer".to_owned(), source: "weir://writer".to_owned(), ..of("writer") };
    assert_eq!(said(&source(), &ungranted), ALLOW);
    let ruled = with_rules(vec![rule("no-agents", tool("weir://writer"), Outcome::Deny)]);
    assert_eq!(said(&ruled, &ungranted), deny("no-agents"));
}

#[test]
fn the_first_rule_that_matches_decides() {
    let any = Condition::default;
    let rules = vec![
        rule("mail", tool("send"), Outcome::RequireApproval),
        rule("never", tool("send"), Outcome::Deny),
        rule("rest", any(), Outcome::Deny),
    ];
    let mail = with_rules(rules.clone());
    assert_eq!(said(&mail, &call("user:grace")), (Verdict::Ask, Some("mail".to_owned())));
    let reversed = with_rules(rules.into_iter().rev().collect());
    assert_eq!(said(&reversed, &call("user:grace")), deny("rest"));
    // Rules hold for admins, too; and they give nobody a grant.
    assert_eq!(said(&mail, &call("user:ada")), (Verdict::Ask, Some("mail".to_owned())));
    let open = with_rules(vec![rule("open", any(), Outcome::Allow)]);
    assert_eq!(said(&open, &call("user:eve")), deny("grant"));
    assert_eq!(said(&open, &call("user:ada")), (Verdict::Allow, Some("open".to_owned())));
}

#[test]
fn an_approval_turns_a_question_into_a_yes_and_never_a_no() {
    let approved = Owned { approved_by: Some("user:boss".to_owned()), ..call("user:grace") };
    let asking = with_rules(vec![rule("ask", tool("send"), Outcome::RequireApproval)]);
    let answer = approved.decide(&policies(&asking));
    assert_eq!((answer.verdict, answer.because().as_str()), (Verdict::Allow, "`user:boss` approved it"));
    let denying = with_rules(vec![rule("no", tool("send"), Outcome::Deny)]);
    assert_eq!(said(&denying, &approved), deny("no"));
    let stranger = Owned { principal: "user:eve".to_owned(), ..approved };
    assert_eq!(said(&asking, &stranger), deny("grant"));
}

#[test]
fn a_tool_that_always_needs_approval_is_never_just_let_through() {
    let drop = Owned { tool: "drop".to_owned(), ..call("user:ada") };
    let asks = (Verdict::Ask, Some("approval: always".to_owned()));
    assert_eq!(said(&source(), &drop), asks);
    assert_eq!(said(&with_rules(vec![rule("open", Condition::default(), Outcome::Allow)]), &drop), asks);
    assert_eq!(said(&with_rules(vec![rule("no", Condition::default(), Outcome::Deny)]), &drop), deny("no"));
    let ask = with_rules(vec![rule("ask", Condition::default(), Outcome::RequireApproval)]);
    assert_eq!(said(&ask, &drop), (Verdict::Ask, Some("ask".to_owned())));
    // It is this agent's entry that says so.
    assert_eq!(said(&source(), &Owned { agent: "other".to_owned(), ..drop.clone() }), ALLOW);
    let approved = Owned { approved_by: Some("user:boss".to_owned()), ..drop };
    assert_eq!(said(&source(), &approved).0, Verdict::Allow);
}

#[test]
fn rules_that_are_tried_out_decide_nothing_and_say_what_they_would_have() {
    let mut tried = rule("tried", tool("send"), Outcome::Deny);
    tried.observe = true;
    let mut late = rule("late", tool("send"), Outcome::RequireApproval);
    late.observe = true;
    let rules = vec![tried, rule("yes", tool("send"), Outcome::Allow), late];
    let answer = call("user:grace").decide(&policies(&with_rules(rules)));
    assert_eq!((answer.verdict, answer.rule.as_deref()), (Verdict::Allow, Some("yes")));
    let observed: Vec<(&str, Outcome)> =
        answer.observed.iter().map(|observed| (observed.rule.as_str(), observed.outcome)).collect();
    assert_eq!(observed, [("tried", Outcome::Deny)]);
}

#[test]
fn conditions_mean_what_they_say() {
    let base = || Owned { input: json!({"to": [{"address": "a@b.c"}], "n": 5}), ..call("user:grace") };
    let input = |path: &str, test: Test| Condition {
        input: BTreeMap::from([(path.to_owned(), test)]),
        ..Condition::default()
    };
    let any = Condition::default;
    let s = |text: &str| Some(text.to_owned());
    for (name, when, expected) in [
        ("name", tool("send"), true),
        ("entry", tool("mcp://mail"), true),
        ("pattern", tool("se*d"), true),
        ("pattern of names", tool("mcp*"), false),
        ("other name", tool("sen"), false),
        ("source", Condition { source: s("mcp://*"), ..any() }, true),
        ("exact source", Condition { source: s("mcp://mail"), ..any() }, true),
        ("other source", Condition { source: s("mcp://mai"), ..any() }, false),
        ("effect", Condition { effect: Some(Effect::Write), ..any() }, true),
        ("other effect", Condition { effect: Some(Effect::Idempotent), ..any() }, false),
        ("low", Condition { risk_at_least: Some(Risk::Low), ..any() }, true),
        ("high", Condition { risk_at_least: Some(Risk::High), ..any() }, true),
        ("principal", Condition { principal: s("user:grace"), ..any() }, true),
        ("other principal", Condition { principal: s("serviceaccount:grace"), ..any() }, false),
        ("group as principal", Condition { principal: s("group:engineers"), ..any() }, true),
        ("group", Condition { group: s("engineers"), ..any() }, true),
        ("other group", Condition { group: s("admin"), ..any() }, false),
        ("agent", Condition { agent: s("writer"), ..any() }, true),
        ("other agent", Condition { agent: s("writer2"), ..any() }, false),
        ("input", input("to.0.address", Test::Matches("@b".to_owned())), true),
        ("not there", input("to.1.address", Test::Matches("@b".to_owned())), false),
        ("number", input("n", Test::Equals(text(&json!(5)))), true),
        ("all", Condition { all: vec![tool("send"), tool("x")], ..any() }, false),
        ("any", Condition { any: vec![tool("send"), tool("x")], ..any() }, true),
        ("not", Condition { not: Some(Box::new(tool("x"))), ..any() }, true),
        ("not anything", Condition { not: Some(Box::new(any())), ..any() }, false),
    ] {
        let source = with_rules(vec![rule("it", when, Outcome::Deny)]);
        let expected = if expected { deny("it") } else { ALLOW };
        assert_eq!(said(&source, &base()), expected, "{name}");
    }
    let medium = Owned { risk: Risk::Medium, ..base() };
    for (at_least, expected) in [(Risk::Low, true), (Risk::Medium, true), (Risk::High, false)] {
        let when = Condition { risk_at_least: Some(at_least), ..any() };
        let source = with_rules(vec![rule("it", when, Outcome::Deny)]);
        assert_eq!(said(&source, &medium).0 == Verdict::Deny, expected, "{at_least:?}");
    }
}

#[test]
fn what_is_forbidden_by_hand_stays_so() {
    let source = with_written(
        "@id(\"night\") @why(\"not at night\")\nforbid (principal, action == Action::\"call\", resource == Tool::\"send\");",
    );
    let source = Source { rules: vec![rule("yes", Condition::default(), Outcome::Allow)], ..source };
    let answer =
        Owned { approved_by: Some("user:boss".to_owned()), ..call("user:ada") }.decide(&policies(&source));
    assert_eq!((answer.verdict, answer.rule.as_deref()), (Verdict::Deny, Some("night")));
    assert_eq!(
        answer.because(),
        "rules: the policy `night` forbids it: not at night; only a change to that policy would allow it"
    );
    let unnamed = with_written(
        "// first\n\nforbid (principal, action, resource) when { context has tool && context.tool == \"send\" };",
    );
    assert_eq!(said(&unnamed, &call("user:ada")), deny("policies/own.cedar:3"));
    let no_entry =
        with_written("forbid (principal == User::\"grace\", action == Action::\"execute\", resource);");
    assert_eq!(
        said(&no_entry, &Owned { callee: Some("writer".to_owned()), ..call("user:grace") }),
        deny("policies/own.cedar:1")
    );
}

#[test]
fn what_is_permitted_by_hand_is_access_or_a_rule() {
    let access = with_written(
        "permit (principal == User::\"eve\", action == Action::\"call\", resource == Tool::\"send\");",
    );
    assert_eq!(said(&access, &call("user:eve")), ALLOW);
    let ruled = with_written(
        "@id(\"big\") @outcome(\"require_approval\")\npermit (principal, action == Action::\"call\", resource)\n\
         when { context.numbers.hasTag(\"n\") && context.numbers.getTag(\"n\") > 10 };\n\
         @outcome(\"deny\")\npermit (principal, action == Action::\"call\", resource)\n\
         when { context.arguments.hasTag(\"to.0.address\") && context.arguments.getTag(\"to.0.address\") like \"*@evil.com\" };",
    );
    let with = |input: serde_json::Value| Owned { input, ..call("user:grace") };
    assert_eq!(said(&ruled, &with(json!({"n": 5}))), ALLOW);
    assert_eq!(said(&ruled, &with(json!({"n": 11}))), (Verdict::Ask, Some("big".to_owned())));
    let evil = json!({"to": [{"address": "a@evil.com"}]});
    assert_eq!(said(&ruled, &with(evil)), deny("policies/own.cedar:4"));
    // A key that looks like a path is none.
    assert_eq!(said(&ruled, &with(json!({"to.0.address": "a@evil.com"}))), ALLOW);
    // Rules of weir.yaml come first; and a rule gives no access.
    let first = Source { rules: vec![rule("yes", tool("send"), Outcome::Allow)], ..ruled.clone() };
    assert_eq!(said(&first, &with(json!({"n": 11}))), (Verdict::Allow, Some("yes".to_owned())));
    assert_eq!(
        said(&ruled, &Owned { principal: "user:eve".to_owned(), ..with(json!({"n": 11})) }),
        deny("grant")
    );
}

#[test]
fn what_cannot_be_evaluated_denies() {
    // Types are right, and the sum is too large.
    let source = with_written(
        "@outcome(\"allow\")\npermit (principal, action == Action::\"call\", resource)\n\
         when { context.numbers.hasTag(\"n\") && context.numbers.getTag(\"n\") + 1 > 0 };",
    );
    let answer = Owned { input: json!({"n": i64::MAX}), ..call("user:ada") }.decide(&policies(&source));
    assert_eq!((answer.verdict, answer.rule.as_deref()), (Verdict::Deny, Some("rules")));
    assert!(answer.because().contains("cannot be evaluated"), "{}", answer.because());
    let fine = Owned { input: json!({"n": 1}), ..call("user:ada") };
    assert_eq!(said(&source, &fine).0, Verdict::Allow);
}

#[test]
fn what_cannot_be_read_is_no_policy() {
    let none = BTreeMap::new();
    let read = |text: &str| {
        Policies::new(&Parts { text, written: &none, groups: &BTreeMap::new(), admins: &[] })
            .err()
            .unwrap()
            .to_string()
    };
    assert_eq!(read(" \n"), "the build has no policy");
    assert!(read("permit (").starts_with("the policy in `the build` cannot be read"));
    let permit = "permit (principal, action, resource);";
    assert!(read(&format!("@outcome(\"perhaps\") {permit}")).contains("`@outcome` is not right"));
    assert!(read(&format!("@outcome(\"deny\") {permit}")).contains("`@order` is not right"));
    assert!(read(&format!("@mode(\"observe\") {permit}")).contains("`@mode` is not right"));
    assert!(read(&format!("@outcome(\"deny\") @order(\"0\") @input(\"[]]\") {permit}")).contains("`@input`"));
    let bad = Source { written: BTreeMap::from([("p".to_owned(), "permit (".to_owned())]), ..source() };
    assert!(compile(&bad).is_err());
}

#[test]
fn a_rule_says_how_long_an_approval_is_waited_for() {
    use weir_types::{ApprovalTerms, Escalate};
    let terms = ApprovalTerms {
        within_ms: Some(3_600_000),
        escalate: Some(Escalate { to: "group:boss".to_owned(), after_ms: 1_800_000 }),
    };
    let rule = weir_policy::Rule {
        terms: terms.clone(),
        ..rule("slow", Condition::default(), Outcome::RequireApproval)
    };
    let source = with_rules(vec![rule]);
    let text = compile(&source).unwrap().text;
    let written = "@within(\"3600000ms\")\n@escalate(\"group:boss\")\n@escalate_after(\"1800000ms\")";
    assert!(text.contains(written), "{text}");
    let asked =
        |source: &Source| Owned { tool: "send".to_owned(), ..call("user:grace") }.decide(&policies(source));
    let answer = asked(&source);
    assert_eq!((answer.verdict, answer.terms), (Verdict::Ask, terms));
    let written = "@id(\"own\") @outcome(\"require_approval\") @within(\"1h30m\")\n\
                   permit (principal, action == Action::\"call\", resource);";
    let answer = asked(&with_written(written));
    assert_eq!((answer.verdict, answer.terms.within_ms), (Verdict::Ask, Some(5_400_000)));
    let wrong = [
        "@outcome(\"require_approval\") @within(\"soon\")",
        "@outcome(\"require_approval\") @escalate(\"group:boss\")",
        "@outcome(\"require_approval\") @escalate(\"user:boss\") @escalate_after(\"1m\")",
        "@outcome(\"require_approval\") @within(\"1m\") @escalate(\"group:boss\") @escalate_after(\"1m\")",
        "@outcome(\"deny\") @within(\"1h\")",
    ];
    for annotations in wrong {
        let written = format!("{annotations}\npermit (principal, action == Action::\"call\", resource);");
        let problems = crate::support::problems(&with_written(&written));
        assert!(problems.iter().any(|problem| problem.is_error()), "{annotations}: {problems:?}");
    }
}
