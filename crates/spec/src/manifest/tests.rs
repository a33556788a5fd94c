//! Round trips, and what is refused.

use weir_types::{Explain, Json, Stop};

use super::*;
use crate::rules::{Condition, Test};
use crate::sample;
use crate::script::{Call, Reply, When};

/// The sample, with what only tests of the format care for.
fn full() -> Manifest {
    let mut manifest = sample::manifest();
    manifest.project = Some("acme".to_owned());
    let call = Call { tool: "t".to_owned(), input: Json::parse(r#"{"b":1.50,"a":[null]}"#).unwrap() };
    let reply = Reply {
        when: Some(When { user: Some("hi".to_owned()), summarize: true, ..When::default() }),
        call: vec![call],
        delay: Some(std::time::Duration::from_millis(50)),
        stop: Some(Stop::MaxTokens),
        ..Reply::default()
    };
    manifest.scripts.insert("demo".to_owned(), Script { replies: vec![reply] });
    let when = &mut manifest.rules[0].when;
    when.input.insert("total".to_owned(), Test::Above(Json::parse("99.50").unwrap()));
    when.not = Some(Box::new(Condition { agent: Some("x".to_owned()), ..Condition::default() }));
    when.any = vec![Condition { group: Some("ops".to_owned()), ..Condition::default() }];
    manifest
}

#[test]
fn manifests_round_trip_as_canonical_json() {
    for manifest in [Manifest::default(), sample::manifest()] {
        let bytes = manifest.to_bytes().unwrap();
        assert_eq!(Manifest::from_bytes(&bytes).unwrap(), manifest);
        assert_eq!(manifest.hash().unwrap(), Hash::of(&bytes));
        assert_eq!(canonical::text(std::str::from_utf8(&bytes).unwrap()).unwrap().as_bytes(), bytes);
    }
    // What is kept word for word is spelled canonically too, and so it stays.
    let bytes = full().to_bytes().unwrap();
    assert_eq!(Manifest::from_bytes(&bytes).unwrap().to_bytes().unwrap(), bytes);
}

/// The bytes are a promise: they are the name under which a build is known.
#[test]
fn the_format_stays() {
    insta::assert_snapshot!(String::from_utf8(full().to_bytes().unwrap()).unwrap());
}

#[test]
fn what_is_no_manifest_is_refused_with_the_reason() {
    let code = |bytes: &[u8]| Manifest::from_bytes(bytes).unwrap_err().code();
    assert_eq!(code(b""), "manifest::unreadable");
    assert_eq!(code(b"\xff"), "manifest::unreadable");
    assert_eq!(code(b"[]"), "manifest::unreadable");
    assert_eq!(code(br#"{"version":1}"#), "manifest::unreadable");
    assert_eq!(code(br#"{"version":2,"anything":[]}"#), "manifest::version");
    assert_eq!(code(br#"{"version":0}"#), "manifest::version");
    let text = String::from_utf8(Manifest::default().to_bytes().unwrap()).unwrap();
    assert_eq!(code(text.replacen('{', r#"{"extra":1,"#, 1).as_bytes()), "manifest::unreadable");
    assert_eq!(code(format!("{text} {text}").as_bytes()), "manifest::unreadable");
    let deep = format!("{{\"version\":1,\"agents\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(code(deep.as_bytes()), "manifest::unreadable");
    let text = String::from_utf8(full().to_bytes().unwrap()).unwrap();
    let deep =
        text.replace("\"parameters\":{}", &format!("\"parameters\":{}{}", "[".repeat(500), "]".repeat(500)));
    assert_eq!(code(deep.as_bytes()), "manifest::unreadable");
    assert_eq!(code(&vec![b' '; BYTES_MAX + 1]), "manifest::too-large");
    for error in [ManifestError::Version { found: 0 }, ManifestError::Version { found: 9 }] {
        assert!(error.help().contains("weir build"), "{error}");
    }
}

#[test]
fn a_schema_that_is_too_deep_has_no_bytes() {
    let mut manifest = sample::manifest();
    let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
    manifest.agents.get_mut("helper").unwrap().tools[0].parameters = Json::parse(&deep).unwrap();
    assert_eq!(manifest.to_bytes().unwrap_err().code(), "manifest::unwritable");
}
