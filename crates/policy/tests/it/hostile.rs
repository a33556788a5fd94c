//! Names that would like to be policies.

use std::collections::BTreeMap;

use cedar_policy::PolicySet;
use proptest::prelude::*;
use serde_json::{Value, json};
use weir_policy::{Agent, AgentRole, Condition, Level, LoopRole, Outcome, Source, Test, compile};
use weir_types::Verdict;

use crate::support::{Owned, call, policies, rule, set, text};

const NASTY: &[&str] = &[
    "\"",
    "\\",
    "\\\"",
    "x\"); permit(principal, action, resource); //",
    "\"}; permit (principal, action, resource) when { \"\" == \"",
    "\n// comment",
    "\r\n",
    "\u{0}",
    "\u{2028}",
    "\u{202e}evil",
    "é😀",
    "\\u{22}",
    "\\*",
    "*",
    "a\\*b",
    "${x}",
    "'",
    "@id(\"x\")",
    " ",
];

fn nasty() -> impl Strategy<Value = String> {
    let pieces =
        prop_oneof![proptest::sample::select(NASTY).prop_map(str::to_owned), any::<String>(), "[a-z]{1,3}",];
    prop::collection::vec(pieces, 1..4)
        .prop_map(|pieces| pieces.concat())
        .prop_filter("not empty", |text| !text.is_empty())
}

/// A source in which this name stands wherever a name can.
fn named(name: &str) -> Source {
    let who = format!("user:{name}");
    let agent = Agent { acl: vec![(who.clone(), AgentRole::Execute)], always_ask: set(&[name]) };
    let when = Condition {
        tool: Some(name.to_owned()),
        source: Some(name.to_owned()),
        principal: Some(who.clone()),
        agent: Some(name.to_owned()),
        input: BTreeMap::from([(name.to_owned(), Test::Equals(text(&Value::String(name.to_owned()))))]),
        not: Some(Box::new(Condition { group: Some(name.to_owned()), ..Condition::default() })),
        ..Condition::default()
    };
    let mut own = rule(name, when, Outcome::Deny);
    own.why = Some(name.to_owned());
    Source {
        agents: BTreeMap::from([(name.to_owned(), agent)]),
        loops: BTreeMap::from([(name.to_owned(), vec![(who.clone(), LoopRole::Execute)])]),
        grants: BTreeMap::from([(name.to_owned(), BTreeMap::from([(who, Level::Write)]))]),
        rules: vec![own],
        ..Source::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, ..ProptestConfig::default() })]

    #[test]
    fn no_name_leaves_its_literal(name in nasty()) {
        let source = named(&name);
        let compiled = compile(&source).unwrap();
        let set: PolicySet = compiled.text.parse().unwrap();
        // Six that always hold, two roles, a grant, an approval, a rule.
        prop_assert_eq!(set.num_of_policies(), 6 + 2 + 1 + 1 + 1);
        let annotated = |key: &str| set.policies().any(|policy| policy.annotation(key) == Some(&name));
        prop_assert!(annotated("id") && annotated("why"));

        let policies = policies(&source);
        let who = format!("user:{name}");
        prop_assert!(policies.admit(&who, &name).allowed);
        prop_assert!(!policies.admit("user:eve", &name).allowed);
        prop_assert!(!policies.admit(&who, "other").allowed);

        // The name means itself, in the whole rule, with the key of its argument as long as that is no path.
        let own = Owned {
            principal: who,
            agent: name.clone(),
            tool: name.clone(),
            source: name.clone(),
            input: json!({name.as_str(): name}),
            ..call("")
        };
        let verdict = |call: &Owned| call.decide(&policies).verdict;
        if !name.contains('.') {
            let answer = own.decide(&policies);
            prop_assert_eq!((answer.verdict, answer.rule.as_deref()), (Verdict::Deny, Some(name.as_str())));
        }
        prop_assert_eq!(verdict(&Owned { input: json!({}), ..own.clone() }), Verdict::Ask);
        let stranger = Owned { principal: "user:eve".to_owned(), ..own };
        prop_assert_eq!(stranger.decide(&policies).rule, Some("grant".to_owned()));
    }
}
