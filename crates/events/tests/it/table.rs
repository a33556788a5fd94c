//! The table says what generic append, hooks and the engine rely on.

use std::collections::BTreeSet;

use weir_events::*;
use weir_types::Kind;

fn names_of(is_meant: impl Fn(&KindEntry) -> bool) -> Vec<&'static str> {
    KINDS.iter().filter(|entry| is_meant(entry)).map(|entry| entry.name).collect()
}

#[test]
fn each_kind_is_there_once_with_a_payload_of_its_own() {
    let names: BTreeSet<&str> = KINDS.iter().map(|entry| entry.name).collect();
    let payloads: BTreeSet<&str> = KINDS.iter().map(|entry| entry.payload).collect();
    assert_eq!((names.len(), payloads.len()), (KINDS.len(), KINDS.len()));
    for entry in KINDS {
        assert_eq!(entry.name.parse::<Kind>().unwrap().as_str(), entry.name);
    }
}

#[test]
fn what_a_state_is_folded_from_is_reserved_and_nothing_else() {
    assert_eq!(names_of(|entry| entry.writer != Writer::Anyone), Body::KINDS);
    for entry in KINDS {
        let is_body = Body::KINDS.contains(&entry.name);
        assert_eq!(is_reserved_kind(&entry.name.parse().unwrap()), is_body, "{}", entry.name);
    }
    assert!(!is_reserved_kind(&"acme.custom".parse().unwrap()));
}

#[test]
fn these_kinds_come_from_those_who_speak_to_a_session() {
    let inputs = [
        "session.halted",
        "session.closed",
        "user.message",
        "external.signal",
        "run.cancel_requested",
        "approval.granted",
        "approval.denied",
        "approval.expired",
    ];
    assert_eq!(names_of(|entry| is_input_kind(entry.name)), inputs);
    assert!(!is_input_kind("acme.custom"));
}

#[test]
fn a_hook_may_refuse_what_comes_from_outside() {
    let refusable = [
        "session.created",
        "session.updated",
        "user.message",
        "external.signal",
        "approval.granted",
        "file.written",
        "file.deleted",
    ];
    assert_eq!(refusable_kinds().collect::<Vec<_>>(), refusable);
    for kind in Body::KINDS {
        assert_eq!(is_refusable_kind(kind), refusable.contains(kind), "{kind}");
    }
    assert!(is_refusable_kind("acme.custom") && is_refusable_kind("ingested.text"));
}
