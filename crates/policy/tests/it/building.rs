//! What is wrong with policies is found while building, with its place.

use std::collections::BTreeMap;

use serde_json::json;
use weir_policy::{Condition, Example, Kind, Outcome, Place, Problem, Sample, Source, Test, compile};
use weir_types::{Effect, Risk};

use crate::support::{problems, rule, source, text, tool};

fn written(text: &str) -> Source {
    Source { written: BTreeMap::from([("policies/own.cedar".to_owned(), text.to_owned())]), ..source() }
}

/// Kind, the text at its place, and the message.
fn told(text: &str) -> Vec<(Kind, String, String)> {
    let at = |problem: Problem| match problem.place {
        Place::Written { start, end, .. } => (problem.kind, text[start..end].to_owned(), problem.message),
        other => panic!("{other:?}"),
    };
    problems(&written(text)).into_iter().map(at).collect()
}

#[test]
fn policies_by_hand_are_checked_for_types() {
    let permit = "permit (principal, action == Action::\"call\", resource) when";
    for (text, kind, at, message) in [
        ("permit (principal", Kind::Syntax, "", "unexpected end of input"),
        (
            "permit (principal, action, resource) when { principal.age > 3 };",
            Kind::Type,
            "principal.age",
            "attribute `age`",
        ),
        (&format!("{permit} {{ context.tol == \"x\" }};"), Kind::Type, "context.tol", "attribute `tol`"),
        (&format!("{permit} {{ context.tool > 3 }};"), Kind::Type, "context.tool", "unexpected type"),
        (
            &format!("{permit} {{ context.effect == \"write\" }};"),
            Kind::Type,
            "context.effect == \"write\"",
            "not compatible",
        ),
        (&format!("{permit} {{ context.risk == Risk::\"huge\" }};"), Kind::Type, "Risk::\"huge\"", "huge"),
        (
            "permit (principal, action == Action::\"fly\", resource);",
            Kind::Type,
            "Action::\"fly\"",
            "unrecognized action",
        ),
        (
            "permit (principal == Person::\"x\", action, resource);",
            Kind::Type,
            "Person",
            "unrecognized entity type",
        ),
        (
            &format!("{permit} {{ context.arguments.getTag(\"n\") == \"1\" }};"),
            Kind::Type,
            "context.arguments.getTag(\"n\")",
            "tag",
        ),
        ("permit (principal == ?principal, action, resource);", Kind::Type, "", "template"),
        (
            "@outcome(\"no\") permit (principal, action == Action::\"call\", resource);",
            Kind::Annotation,
            "@outcome",
            "`@outcome` is `no`",
        ),
        (
            "@outcome(\"deny\") forbid (principal, action == Action::\"call\", resource);",
            Kind::Annotation,
            "@outcome",
            "always denies",
        ),
        (
            "@outcome(\"deny\") permit (principal, action, resource);",
            Kind::Annotation,
            "@outcome",
            "for calls",
        ),
        ("@mode(\"observe\") permit (principal, action, resource);", Kind::Annotation, "@mode", "only rules"),
        (
            "permit (principal, action == Action::\"call\", resource is Agent);",
            Kind::Never,
            "permit",
            "unable to find",
        ),
    ] {
        let found = told(text);
        let fits = found.iter().any(|(k, t, m)| *k == kind && t.starts_with(at) && m.contains(message));
        assert!(fits, "{text}\n{found:#?}");
    }
}

#[test]
fn every_problem_is_told_at_once() {
    let text = "permit (principal, action, resource) when { context.a };\n\n\
                // between\npermit (principal, action == Action::\"call\", resource) when { context.b };";
    let mut source = written(text);
    source.rules = vec![
        rule("twice", tool("a"), Outcome::Deny),
        rule("twice", tool("b"), Outcome::Deny),
        rule(
            "regex",
            Condition {
                input: BTreeMap::from([("x".to_owned(), Test::Matches("(".to_owned()))]),
                ..Condition::default()
            },
            Outcome::Deny,
        ),
        rule("who", Condition { principal: Some("ada".to_owned()), ..Condition::default() }, Outcome::Deny),
    ];
    source.grants.entry("send".to_owned()).or_default().insert("ada".to_owned(), weir_policy::Level::Read);
    let found = problems(&source);
    let places: Vec<&Place> = found.iter().map(|problem| &problem.place).collect();
    let grant = Place::Grant { tool: "send".to_owned(), principal: "ada".to_owned() };
    for expected in [&grant, &Place::Rule(1), &Place::Rule(2), &Place::Rule(3)] {
        assert!(places.contains(&expected), "{expected:?} in {found:#?}");
    }
    let lines: Vec<usize> = found
        .iter()
        .filter_map(|problem| match problem.place {
            Place::Written { start, .. } => Some(text[..start].lines().count()),
            _ => None,
        })
        .collect();
    assert!(lines.contains(&1) && lines.contains(&4), "{lines:?} {found:#?}");
}

fn sample(principal: &str, tool: &str, input: &serde_json::Value) -> Example {
    let sample = Sample {
        principal: principal.to_owned(),
        agent: "writer".to_owned(),
        tool: tool.to_owned(),
        source: tool.to_owned(),
        input: text(input),
        effect: Effect::Write,
        risk: Risk::High,
    };
    Example { calls: vec![sample] }
}

#[test]
fn examples_are_held_against_their_rule_alone() {
    let mut mail = rule(
        "mail",
        Condition {
            input: BTreeMap::from([("to".to_owned(), Test::Matches("@evil".to_owned()))]),
            group: Some("engineers".to_owned()),
            ..tool("send")
        },
        Outcome::Deny,
    );
    mail.matches = vec![
        sample("user:grace", "send", &json!({"to": "x@evil.com"})),
        sample("group:engineers", "send", &json!({"to": "x@evil.com"})),
        sample("user:eve", "send", &json!({"to": "x@evil.com"})),
    ];
    mail.not = vec![
        sample("user:grace", "send", &json!({"to": "x@good.com"})),
        sample("user:grace", "send", &json!({"to": "x@evil.com"})),
    ];
    // What comes before a rule is not what its examples are about.
    let rules = vec![rule("all", Condition::default(), Outcome::Deny), mail];
    let found = problems(&Source { rules, ..source() });
    let places: Vec<Place> = found.iter().map(|problem| problem.place.clone()).collect();
    assert_eq!(
        places,
        [
            Place::Example { rule: 1, matches: false, index: 1 },
            Place::Example { rule: 1, matches: true, index: 2 },
        ]
    );
    assert_eq!(found[1].message, "the rule `mail` is not about this call of `send`");
    assert!(found.iter().all(|problem| problem.kind == Kind::Example && problem.is_error()));
}

#[test]
fn an_example_that_leaves_something_open_may_be_several_calls() {
    let both = |agents: [&str; 2]| {
        let mut calls = Vec::new();
        for agent in agents {
            let mut one = sample("user:grace", "send", &json!({})).calls;
            one[0].agent = agent.to_owned();
            calls.extend(one);
        }
        Example { calls }
    };
    let mut by_writer =
        rule("w", Condition { agent: Some("writer".to_owned()), ..tool("send") }, Outcome::Deny);
    by_writer.matches = vec![both(["other", "writer"])];
    by_writer.not = vec![both(["other", "another"]), both(["other", "writer"])];
    let found = problems(&Source { rules: vec![by_writer], ..source() });
    let places: Vec<Place> = found.into_iter().map(|problem| problem.place).collect();
    assert_eq!(places, [Place::Example { rule: 0, matches: false, index: 1 }]);
}

#[test]
fn one_bad_rule_in_a_thousand_is_found() {
    let mut rules: Vec<_> =
        (0..1000).map(|n| rule(&format!("r{n}"), tool(&format!("t{n}*")), Outcome::Deny)).collect();
    rules[999].matches = vec![sample("user:grace", "send", &json!({}))];
    let found = problems(&Source { rules: rules.clone(), ..source() });
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].place, Place::Example { rule: 999, matches: true, index: 0 });
    rules[999].matches.clear();
    assert_eq!(compile(&Source { rules, ..source() }).unwrap().text.matches("\npermit").count(), 1000 + 12);
}

#[test]
fn the_text_is_for_people_too() {
    let mut ask = rule(
        "ask-first",
        Condition {
            risk_at_least: Some(Risk::Medium),
            not: Some(Box::new(Condition { group: Some("engineers".to_owned()), ..Condition::default() })),
            ..Condition::default()
        },
        Outcome::RequireApproval,
    );
    ask.why = Some("a \"person\" looks at it".to_owned());
    let mut mail = rule(
        "mail",
        Condition {
            input: BTreeMap::from([("to.0".to_owned(), Test::Matches("@evil\\.com$".to_owned()))]),
            any: vec![Condition { agent: Some("writer".to_owned()), ..Condition::default() }, tool("se*d")],
            ..tool("send")
        },
        Outcome::Deny,
    );
    mail.observe = true;
    let compiled = compile(&Source { rules: vec![ask, mail], ..source() }).unwrap();
    insta::assert_snapshot!(compiled.text);
}
