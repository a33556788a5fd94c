//! A snapshot is as good as the events behind it, and no history, however odd, leads to an invalid request.

use proptest::collection::vec;
use proptest::strategy::{Strategy, Union};
use weir_events::Body;
use weir_kernel::render::{self, Frame};
use weir_kernel::{At, Session, decide, window};
use weir_types::{EventId, Seq, Timestamp};

use crate::sim::{Sim, ops, settings};
use crate::{bodies, check, runner};

fn through_a_snapshot(session: &Session) -> Session {
    serde_json::from_slice(&serde_json::to_vec(session).unwrap()).unwrap()
}

#[test]
fn a_fold_that_goes_on_from_a_snapshot_is_the_fold_of_all() {
    let outcome = runner(30).run(&(settings(), ops()), |(settings, ops)| {
        let mut sim = Sim::new(settings.agent());
        ops.iter().for_each(|op| sim.happen(op));
        let mut session = Session::default();
        for (at, body) in &sim.events {
            session = through_a_snapshot(&session);
            session.apply_body(*at, body);
        }
        assert_eq!(session, sim.session);
        Ok(())
    });
    outcome.unwrap();
}

/// Payloads of any kind in any order, such as no engine writes: nothing panics, snapshots hold, requests are valid.
#[test]
fn no_history_is_too_odd() {
    let outcome = runner(100).run(&(settings(), vec(any_body(), 0..60)), |(settings, bodies)| {
        let agent = settings.agent();
        let mut session = Session::default();
        for (seq, body) in (1u64..).zip(&bodies) {
            let ts = Timestamp::from_micros(i64::try_from(seq).unwrap() * 1_000_000).unwrap();
            session.apply_body(
                At { seq: Seq(seq), ts, id: EventId::from_u128(u128::from(seq)), held_us: None },
                body,
            );
            assert_eq!(through_a_snapshot(&session), session);
            let _ = decide(&session, &agent, ts);
            if let Some(window) = window::select(&session, &agent) {
                let frame =
                    Frame { api_name: "m".into(), system: "".into(), tools: vec![], output_tokens_max: 1 };
                check::assert_valid(&render::request(&session, frame, &window.ranges, window.cut));
            }
        }
        Ok(())
    });
    outcome.unwrap();
}

/// A payload of any kind, more often of one that a conversation is made of.
fn any_body() -> impl Strategy<Value = Body> {
    let weight = |kind: &str| match kind {
        "user.message" | "run.started" | "model.requested" | "assistant.message" => 10,
        "tool.requested" | "tool.completed" | "context.compacted" => 5,
        _ => 1,
    };
    let weights = Body::KINDS.iter().map(|kind| weight(kind));
    Union::new_weighted(weights.zip(bodies::of_every_kind()).collect())
}
