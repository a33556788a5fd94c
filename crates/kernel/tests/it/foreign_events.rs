//! Events that the fold does not know, and events that it cannot read.

use bytes::Bytes;
use weir_events::{RunStarted, Trigger};
use weir_kernel::{At, Session};
use weir_types::{
    BranchName, Event, EventId, Explain, Fault, Hash, Meta, Position, RunId, Seq, StreamName, Timestamp,
};

fn event(seq: u64, micros: i64, kind: &str, payload: &str) -> Event {
    let payload = Bytes::copy_from_slice(payload.as_bytes());
    Event {
        position: Position(seq),
        stream: "session:1".parse::<StreamName>().unwrap(),
        branch: "main".parse::<BranchName>().unwrap(),
        seq: Seq(seq),
        id: EventId::from_u128(u128::from(seq)),
        ts: Timestamp::from_micros(micros).unwrap(),
        kind: kind.parse().unwrap(),
        payload_hash: Hash::of(&payload),
        payload,
        meta: Meta::default(),
        refs: Vec::new(),
        chain: Hash::ZERO,
    }
}

#[test]
fn a_foreign_kind_only_moves_the_place() {
    let mut session = Session::default();
    session.apply(&event(1, 1_000, "user.message", r#"{"content":[{"type":"text","text":"hi"}]}"#)).unwrap();
    let before = session.clone();
    session.apply(&event(2, 5_000, "acme.custom", "not even json")).unwrap();
    let moved = Session { seq: Seq(2), ts: Timestamp::from_micros(5_000).unwrap(), ..before };
    assert_eq!(session, moved);

    // During a run, the time until it is time of the run.
    let at = At { seq: Seq(3), ts: session.ts, id: EventId::from_u128(3), held_us: None };
    let started = RunStarted { run: RunId::from_u128(1), trigger: Trigger::Input, lane: "direct".into() };
    session.apply_body(at, &started.into());
    let mut expected = session.clone();
    session.apply(&event(4, 9_000, "acme.custom", "{}")).unwrap();
    (expected.seq, expected.ts) = (Seq(4), Timestamp::from_micros(9_000).unwrap());
    expected.totals.micros = 4_000;
    expected.run.as_mut().unwrap().spent.micros = 4_000;
    assert_eq!(session, expected);
}

#[test]
fn a_payload_that_cannot_be_read_leaves_the_state_as_it_was() {
    let mut session = Session::default();
    session.apply(&event(1, 1_000, "external.signal", r#"{"name":"tick","data":null}"#)).unwrap();
    let before = session.clone();
    let error = session.apply(&event(2, 2_000, "user.message", "[]")).unwrap_err();
    assert_eq!(error.to_string(), "event 2 (user.message) cannot be read");
    assert_eq!((error.code(), error.fault()), ("kernel::unreadable-event", Fault::Damaged));
    assert!(error.help().contains("weir verify"));
    assert_eq!(session, before);
}
