//! Every kind's payload: written and read back unchanged, with the fields that the design promises.

use std::collections::BTreeSet;
use std::fmt::Debug;

use proptest::option;
use proptest::prelude::any;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use weir_events::*;
use weir_types::{GateStep, Hash, Kind, Meta};

use crate::{bodies, runner};

/// The fields of each kind. Beyond page 6: `usage` and `cost` of `model.failed` and `context.compacted`, because failed
/// attempts and summaries are paid for too, and `on_interrupt` of `tool.requested`, because only the spec knows it. Purses count
/// more than money, so what is about them names the rest; `purses` of `model.requested` says where its reservation has to be settled, and `context` what of the conversation it leaves out. `history` of
/// `user.message` marks what a client says was said before the session began. `said` of `run.cancelled` is the beginning of an answer that was cut off. `session.released` is let go of by a process that stops.
#[rustfmt::skip]
const FIELDS: [(&str, &str); 47] = [
    ("session.created", "agent manifest principal groups title labels parent lane"),
    ("session.updated", "title labels"),
    ("session.resumed", "reason owner budget keeps_limits"),
    ("session.released", "reason"),
    ("session.halted", "reason imported"),
    ("session.closed", "reason"),
    ("branch.forked", "from at name"),
    ("branch.merged", "from at tree conflicts"),
    ("user.message", "content runtime history"),
    ("external.signal", "name data"),
    ("run.started", "run trigger lane"),
    ("iteration.started", "n"),
    ("model.requested", "model attempt prompt tools window params request_hash reserve purses context"),
    ("model.failed", "class attempt delay_ms message usage cost"),
    ("text.delta", "channel block attempt offset delta"),
    ("assistant.message", "content stop usage cost model provider_id"),
    ("state.patched", "patch"),
    ("context.compacted", "through summary tokens_before tokens_after files failures model usage cost"),
    ("run.finished", "stop answer usage cost"),
    ("run.errored", "class message"),
    ("run.cancel_requested", ""),
    ("run.cancelled", "said"),
    ("run.parked", "why"),
    ("tool.requested", "call provider_id tool source input effect risk on_interrupt key"),
    ("tool.decided", "call outcome rule step because stub saw"),
    ("tool.started", "call attempt key input_hash child"),
    ("tool.completed", "call content changed_files stub whole log bill"),
    ("tool.failed", "call class message outcome log bill"),
    ("approval.requested", "call input_hash rule expires because escalates"),
    ("approval.granted", "call by groups input_hash input scope runs"),
    ("approval.denied", "call by groups message"),
    ("approval.expired", "call"),
    ("memory.stored", "doc title tags hash"),
    ("memory.retrieved", "query docs"),
    ("file.written", "path hash mode size"),
    ("file.deleted", "path"),
    ("snapshot.taken", "name tree"),
    ("budget.reserved", "scope call nano tokens model_calls limit"),
    ("budget.settled", "scope call nano tokens model_calls micros"),
    ("budget.released", "scope call nano tokens model_calls micros raises"),
    ("budget.carried", "version scope through settled raised limit held void"),
    ("budget.exceeded", "scope limit spent which need call waits_ms"),
    ("lane.chosen", "lane why"),
    ("lane.rolled_back", "lane why"),
    ("loop.fired", "loop scheduled_for session"),
    ("loop.skipped", "loop scheduled_for why"),
    ("loop.finished", "run status"),
];

#[test]
fn every_payload_reads_back_as_it_was_written() {
    let strategies = bodies::of_every_kind();
    assert_eq!(strategies.len(), Body::KINDS.len());
    for (kind, strategy) in Body::KINDS.iter().zip(&strategies) {
        let name = kind.parse::<Kind>().unwrap();
        let outcome = runner(32).run(strategy, |body| {
            assert_eq!(body.kind_str(), *kind);
            let read = Body::decode(&name, &body.encode().unwrap()).unwrap();
            assert_eq!(read.as_ref(), Some(&body));
            Ok(())
        });
        outcome.unwrap_or_else(|failed| panic!("{kind}: {failed}"));
    }
}

#[test]
fn payloads_have_the_fields_of_the_design() {
    let mut runner = runner(1);
    for ((kind, fields), strategy) in FIELDS.iter().zip(bodies::of_every_kind()) {
        let mut seen: BTreeSet<String> = BTreeSet::new();
        for _ in 0..40 {
            let body = sample(&strategy, &mut runner);
            assert_eq!(body.kind_str(), *kind);
            let payload: serde_json::Value = serde_json::from_slice(&body.encode().unwrap()).unwrap();
            seen.extend(payload.as_object().unwrap().keys().cloned());
        }
        let promised: BTreeSet<String> = fields.split_whitespace().map(str::to_owned).collect();
        assert_eq!(seen, promised, "{kind}");
    }
}

/// A value that a strategy makes, to look at.
fn sample<T: Debug>(strategy: &impl Strategy<Value = T>, runner: &mut TestRunner) -> T {
    strategy.new_tree(runner).unwrap().current()
}

fn about() -> impl Strategy<Value = About> {
    let fields = (
        option::of(bodies::text()),
        option::of(bodies::run()),
        option::of(any::<u32>()),
        option::of(bodies::event()),
    );
    let times = (option::of(any::<u64>()), option::of(any::<u64>()));
    (fields, option::of(bodies::text()), times).prop_map(|(fields, trace, (duration_ms, held_us))| {
        let (actor, run, iteration, causation) = fields;
        About { actor, run, iteration, causation, trace, duration_ms, held_us }
    })
}

#[test]
fn what_surrounds_an_event_reads_back_too() {
    let outcome = runner(256).run(&about(), |about| {
        assert_eq!(About::decode(&about.encode().unwrap()), about);
        Ok(())
    });
    outcome.unwrap();
    assert_eq!(About::default().encode().unwrap().as_str(), "{}");
    let long = About { actor: Some("a".repeat(Meta::BYTES_MAX)), ..About::default() };
    assert!(long.encode().is_err());
    // Meta is a label: what someone else wrote there does not stop a fold.
    let foreign = Meta::new(r#"{"actor":7,"x":[]}"#).unwrap();
    assert_eq!(About::decode(&foreign), About::default());
}

#[test]
fn fields_of_a_later_version_are_ignored() {
    let kind: Kind = "tool.failed".parse().unwrap();
    let payload =
        br#"{"call":"00000000000000000000000001","class":"x","message":"m","outcome":"denied","new":1}"#;
    let body = Body::decode(&kind, payload).unwrap().unwrap();
    assert_eq!(
        String::from_utf8(body.encode().unwrap()).unwrap(),
        r#"{"call":"00000000000000000000000001","class":"x","message":"m","outcome":"denied"}"#
    );
}

#[test]
fn decisions_from_before_they_said_what_they_saw_are_read() {
    let kind: Kind = "tool.decided".parse().unwrap();
    let payload =
        br#"{"call":"00000000000000000000000001","outcome":"ask","rule":"r","because":"b","stub":true}"#;
    let body = Body::decode(&kind, payload).unwrap().unwrap();
    assert!(matches!(&body, Body::ToolDecided(decided) if decided.saw.is_none()), "{body:?}");
    assert_eq!(body.encode().unwrap(), payload);
}

#[test]
fn decisions_from_before_their_step_was_recorded_tell_it_by_their_words() {
    let decided = |rule: Option<&str>, because: &str| -> Option<GateStep> {
        let payload = serde_json::json!({
            "call": "00000000000000000000000001", "outcome": "deny", "rule": rule, "because": because, "stub": false,
        });
        serde_json::from_value::<ToolDecided>(payload).unwrap().decided_by()
    };
    assert_eq!(
        decided(Some("schema"), "schema: the arguments do not fit: x; call it again"),
        Some(GateStep::Schema)
    );
    assert_eq!(decided(Some("grant"), "grant: `user:eve` holds no grant; …"), Some(GateStep::Grant));
    assert_eq!(decided(Some("stub"), "stub: it was cut off while writes were live"), Some(GateStep::Stub));
    // Rules may be called like steps.
    for id in ["schema", "grant", "child", "rules", "budget", "no-shell"] {
        let because = format!("rules: the rule `{id}` denies it; …");
        assert_eq!(decided(Some(id), &because), Some(GateStep::Rules), "{id}");
    }
    assert_eq!(decided(None, "`user:ada` holds `read` on `fs`"), None);
    let asked = |rule: &str, because: Option<&str>| {
        let payload = serde_json::json!({
            "call": "00000000000000000000000001", "input_hash": Hash::ZERO, "rule": rule, "because": because,
        });
        serde_json::from_value::<ApprovalRequested>(payload).unwrap().asked_because()
    };
    use AskedBecause::{Child, Interrupted, Rule};
    assert_eq!(
        ["child", "on_interrupt: ask", "boss"].map(|rule| asked(rule, None)),
        [Child, Interrupted, Rule]
    );
    assert_eq!([asked("child", Some("rule")), asked("x", Some("child"))], [Rule, Child]);
}
