//! The prompt is always valid: random histories with crashes, cancels, forks, trims and compactions lead to requests
//! that no provider rejects, that fit, that show the latest message, and that another process would make just so.

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::runner;
use crate::sim::{Sim, ops, settings};

#[test]
fn every_request_is_valid_and_can_be_made_again() {
    let seen = RefCell::new(BTreeSet::new());
    let outcome = runner(250).run(&(settings(), ops()), |(settings, ops)| {
        let mut sim = Sim::new(settings.agent());
        ops.iter().for_each(|op| sim.happen(op));
        assert_eq!(sim.fold(sim.events.len()), sim.session);
        seen.borrow_mut().extend(sim.seen);
        Ok(())
    });
    outcome.unwrap();
    // A test that never gets there shows nothing.
    let reached = [
        "asked again",
        "compacted",
        "crash",
        "crashes",
        "cut more",
        "does not fit",
        "errand",
        "errored",
        "failed",
        "finished",
        "fork",
        "halted",
        "late",
        "limit",
        "prefix",
        "trimmed",
        "unknown",
    ];
    assert_eq!(seen.into_inner().into_iter().collect::<Vec<_>>(), reached);
}
