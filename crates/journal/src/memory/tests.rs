//! What only this engine can show: damage, made by reaching into its state. The port is tested by the suite.

use weir_blobs::MemoryBlobs;
use weir_types::{BranchName, PAYLOAD_INLINE_MAX};

use super::*;
use crate::append::NewEvent;
use crate::verify::{Problem, silent};

fn main_of(stream: &str) -> BranchId {
    BranchId::main(stream.parse().unwrap())
}

/// A stream of five events, the third of them large and the fourth with another blob, with a fork at 4 that has one
/// event of its own.
async fn sample() -> MemoryJournal {
    let blobs: Arc<dyn Blobs> = Arc::new(MemoryBlobs::new());
    let other = blobs.put_bytes("other".into()).await.unwrap().hash;
    let journal = MemoryJournal::new(blobs);
    let kind: Kind = "note.made".parse().unwrap();
    let events = (1..=5_usize)
        .map(|n| match n {
            3 => NewEvent::new(kind.clone(), vec![b'x'; PAYLOAD_INLINE_MAX + 1]),
            4 => NewEvent::new(kind.clone(), "4").with_refs(vec![other]),
            _ => NewEvent::new(kind.clone(), n.to_string()),
        })
        .collect();
    journal.append(vec![Part::new(main_of("s"), events)]).await.unwrap();
    let name: BranchName = "side".parse().unwrap();
    journal.fork(Fork { from: main_of("s"), at: Seq(4), name: name.clone() }).await.unwrap();
    let side = BranchId { branch: name, ..main_of("s") };
    journal.append(vec![Part::new(side, vec![NewEvent::new(kind, "side")])]).await.unwrap();
    journal
}

#[tokio::test]
async fn a_sound_journal_is_counted() {
    let journal = sample().await;
    let report = journal.verify(None, silent()).await.unwrap();
    assert_eq!(report, Report { streams: 1, branches: 2, events: 6, blobs: 2, ..Report::default() });
}

#[tokio::test]
async fn damage_is_named() {
    type Damage = fn(&mut State);
    fn event(state: &mut State, position: u64) -> &mut Event {
        &mut state.events.get_mut(&Position(position)).unwrap().event
    }
    fn side(state: &mut State) -> &mut state::BranchState {
        let stream = state.streams.get_mut(&"s".parse().unwrap()).unwrap();
        stream.branches.get_mut(&"side".parse().unwrap()).unwrap()
    }
    #[rustfmt::skip]
    let cases: [(Damage, &str, u64, &str); 6] = [
        (|state| event(state, 2).payload = "flipped".into(), "main", 2, "the payload does not match its hash"),
        (|state| event(state, 2).kind = "note.forged".parse().unwrap(), "main", 2, "the chain does not match"),
        (|state| event(state, 3).payload_hash = Hash::ZERO, "main", 3, "the chain does not match"),
        (|state| {
            let second = event(state, 2).clone();
            let first = std::mem::replace(event(state, 1), second);
            *event(state, 2) = first;
        }, "main", 1, "the chain does not match"),
        (|state| { state.events.remove(&Position(5)); }, "main", 5, "the event is missing"),
        (|state| side(state).parent.as_mut().unwrap().chain = Hash::ZERO, "side", 4, "the fork point is not the parent's event"),
    ];
    for (damage, branch, seq, what) in cases {
        let journal = sample().await;
        damage(&mut journal.shared.state());
        let report = journal.verify(Some("s".parse().unwrap()), silent()).await.unwrap();
        let id = BranchId { stream: "s".parse().unwrap(), branch: branch.parse().unwrap() };
        let expected = Problem::at_event(&id, Seq(seq), what);
        assert_eq!(report.problems, [expected]);
    }
}
