//! Rules through Cedar are the rules as they read.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use weir_policy::{Condition, Outcome, Rule, Source, Test, compile};
use weir_types::Level;
use weir_types::{Effect, Json, Risk, Verdict};

use crate::model;
use crate::support::{Owned, groups, policies, source};

const TOOLS: &[&str] = &["send", "fs_read", "fs_write", "list", "drop"];
const SOURCES: &[&str] = &["mcp://mail", "fs", "tools/list"];
const PRINCIPALS: &[&str] =
    &["user:ada", "user:grace", "user:eve", "serviceaccount:ci", "user:alan", "group:engineers"];
const PATHS: &[&str] = &["to", "n", "to.0", "a.b"];

fn owned(from: &'static [&'static str]) -> impl Strategy<Value = String> {
    select(from).prop_map(str::to_owned)
}

fn value() -> impl Strategy<Value = Value> {
    let values = vec![
        json!("x"),
        json!("x@evil.com"),
        json!(5),
        json!(5.0),
        json!(-1),
        json!(7.5),
        json!(true),
        json!(null),
    ];
    select(values)
}

fn input() -> impl Strategy<Value = Value> {
    let shapes = (value(), value(), any::<bool>());
    shapes.prop_map(|(a, b, list)| match list {
        true => json!({"to": [a, b], "n": b}),
        false => json!({"to": a, "n": b, "a": {"b": a}, "a.b": b}),
    })
}

fn test() -> impl Strategy<Value = Test> {
    let number = select(vec![json!(5), json!(4.5), json!(-1)]).prop_map(|number| Json::of(&number));
    prop_oneof![
        value().prop_map(|value| Test::Equals(Json::of(&value))),
        select(vec!["^x", "evil", "", "\\d"]).prop_map(|pattern| Test::Matches(pattern.to_owned())),
        prop::collection::vec(value().prop_map(|value| Json::of(&value)), 1..3).prop_map(Test::OneOf),
        number.clone().prop_map(Test::Above),
        number.prop_map(Test::Below),
    ]
}

fn effect() -> impl Strategy<Value = Effect> {
    select(vec![Effect::Read, Effect::Idempotent, Effect::Write])
}

fn risk() -> impl Strategy<Value = Risk> {
    select(vec![Risk::Low, Risk::Medium, Risk::High])
}

fn leaf() -> impl Strategy<Value = Condition> {
    let none = Condition::default;
    let names = &["send", "fs", "fs_*", "*", "s*d", "mcp://mail", "*s*", "**", "tools/list"];
    let sources = &["mcp://*", "fs", "*mail", "tools/list", "nowhere"];
    prop_oneof![
        owned(names).prop_map(move |tool| Condition { tool: Some(tool), ..none() }),
        owned(sources).prop_map(move |source| Condition { source: Some(source), ..none() }),
        effect().prop_map(move |effect| Condition { effect: Some(effect), ..none() }),
        risk().prop_map(move |risk| Condition { risk_at_least: Some(risk), ..none() }),
        owned(PRINCIPALS).prop_map(move |principal| Condition { principal: Some(principal), ..none() }),
        owned(&["engineers", "admin", "nobody"])
            .prop_map(move |group| Condition { group: Some(group), ..none() }),
        owned(&["writer", "other"]).prop_map(move |agent| Condition { agent: Some(agent), ..none() }),
        (owned(PATHS), test())
            .prop_map(move |(path, test)| Condition { input: BTreeMap::from([(path, test)]), ..none() }),
        Just(none()),
    ]
}

fn merged(mut a: Condition, b: Condition) -> Condition {
    a.tool = a.tool.or(b.tool);
    a.source = a.source.or(b.source);
    a.effect = a.effect.or(b.effect);
    a.input.extend(b.input);
    a
}

fn condition() -> impl Strategy<Value = Condition> {
    leaf().prop_recursive(3, 12, 3, |inner| {
        let some = prop::collection::vec(inner.clone(), 0..3);
        (leaf(), leaf(), some.clone(), some, prop::option::of(inner))
            .prop_map(|(a, b, all, any, not)| Condition { all, any, not: not.map(Box::new), ..merged(a, b) })
    })
}

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let outcome = select(vec![Outcome::Allow, Outcome::RequireApproval, Outcome::Deny]);
    let one = (condition(), outcome, prop::bool::weighted(0.2));
    prop::collection::vec(one, 0..6).prop_map(|rules| {
        let rule = |(n, (when, then, observe)): (usize, (Condition, Outcome, bool))| Rule {
            terms: Default::default(),
            observe,
            ..crate::support::rule(&format!("r{n}"), when, then)
        };
        rules.into_iter().enumerate().map(rule).collect()
    })
}

fn call() -> impl Strategy<Value = Owned> {
    let who = (owned(PRINCIPALS), owned(&["writer", "other"]), prop::bool::weighted(0.2));
    (who, owned(TOOLS), owned(SOURCES), input(), effect(), risk()).prop_map(
        |((principal, agent, approved), tool, source, input, effect, risk)| Owned {
            principal,
            agent,
            tool,
            source,
            callee: None,
            input,
            effect,
            risk,
            access: Level::Write,
            approved_by: approved.then(|| "user:boss".to_owned()),
        },
    )
}

/// What is to happen, as the rules read.
fn expected(rules: &[Rule], call: &Owned) -> (Verdict, Option<String>, Vec<String>) {
    let members = {
        let mut groups = groups();
        groups.entry("admin".to_owned()).or_default().insert("user:ada".to_owned());
        groups
    };
    let engineer = call.principal == "user:grace" || call.principal == "group:engineers";
    let reads = call.effect == Effect::Read;
    let held = match call.principal.as_str() {
        "user:ada" | "user:alan" => true,
        "serviceaccount:ci" => call.source == "mcp://mail",
        _ if engineer => {
            (call.source == "mcp://mail" && reads) || (call.tool == "send" && call.principal == "user:grace")
        }
        _ => false,
    };
    if !held {
        return (Verdict::Deny, Some("grant".to_owned()), Vec::new());
    }
    let mut observed = Vec::new();
    let mut first = None;
    for rule in rules.iter().filter(|rule| model::holds(&rule.when, call, &members)) {
        if rule.observe {
            observed.push(rule.id.clone());
        } else {
            first = Some((rule.then, rule.id.clone()));
            break;
        }
    }
    let always = (call.tool == "drop" && call.agent == "writer").then(|| "approval: always".to_owned());
    let asked = match (first, always) {
        (Some((Outcome::Deny, id)), _) => return (Verdict::Deny, Some(id), observed),
        (Some((Outcome::RequireApproval, id)), _) | (_, Some(id)) => id,
        (Some((Outcome::Allow, id)), None) => return (Verdict::Allow, Some(id), observed),
        (None, None) => return (Verdict::Allow, None, observed),
    };
    let verdict = if call.approved_by.is_some() { Verdict::Allow } else { Verdict::Ask };
    (verdict, Some(asked), observed)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn rules_through_cedar_are_the_rules_as_they_read(
        rules in rules(),
        calls in prop::collection::vec(call(), 1..12),
    ) {
        let source = Source { rules: rules.clone(), ..source() };
        let policies = policies(&source);
        for call in &calls {
            let answer = call.decide(&policies);
            let observed: Vec<String> = answer.observed.iter().map(|each| each.rule.clone()).collect();
            let found = (answer.verdict, answer.rule.clone(), observed);
            prop_assert_eq!(found, expected(&rules, call), "{:?}", call);
            // Whoever asks again gets the same answer.
            prop_assert_eq!(call.decide(&policies), answer);
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn the_same_source_is_the_same_text_and_the_same_answers(rules in rules(), call in call()) {
        let source = Source { rules, ..source() };
        prop_assert_eq!(compile(&source), compile(&source));
        prop_assert_eq!(call.decide(&policies(&source)), call.decide(&policies(&source)));
    }
}
