//! The operations, and how they are made at random. Names, keys, owners and contents come from small sets, so that
//! they meet.

use proptest::prelude::*;
use weir_types::{BranchId, OwnerId, PAYLOAD_INLINE_MAX, Seq};

use super::reference::Model;
use crate::append::{Expected, NewEvent, Ownership, Part};
use crate::conformance::kit::{at, event, key};
use crate::listing::{Attrs, Fork, Status};

pub(super) const KINDS: [&str; 2] = ["note.made", "note.lost"];

const BRANCHES: [&str; 6] = ["a", "a@side", "a@b", "b", "b@side", "c"];

#[derive(Clone, Debug)]
pub(super) enum Op {
    Append(Vec<PartSpec>),
    /// The same request as an earlier one, as a caller would repeat it.
    Repeat(usize),
    Fork {
        from: BranchId,
        at: At,
        name: BranchId,
    },
    Read {
        branch: BranchId,
        place: u64,
        limit: usize,
    },
}

#[derive(Clone, Debug)]
pub(super) struct PartSpec {
    branch: BranchId,
    expected: At,
    key: Option<usize>,
    owner: Ownership,
    /// Kind and content of each event.
    events: Vec<(usize, usize)>,
    attrs: Option<Status>,
}

/// A place on a branch, right or wrong.
#[derive(Clone, Copy, Debug)]
pub(super) enum At {
    Any,
    Nothing,
    Head,
    Off(u64),
}

pub(super) fn ops() -> impl Strategy<Value = Vec<Op>> {
    proptest::collection::vec(op(), 1..40)
}

fn branch() -> impl Strategy<Value = BranchId> {
    prop_oneof![3 => Just(at("a")), 2 => proptest::sample::select(&BRANCHES[..]).prop_map(at)]
}

fn op() -> impl Strategy<Value = Op> {
    let place = prop_oneof![3 => Just(At::Head), 2 => (0..12_u64).prop_map(At::Off)];
    prop_oneof![
        8 => proptest::collection::vec(part_spec(), 1..4).prop_map(Op::Append),
        3 => (0..100_usize).prop_map(Op::Repeat),
        4 => (branch(), place, branch()).prop_map(|(from, at, name)| Op::Fork { from, at, name }),
        2 => (branch(), 0..20_u64, 0..8_usize).prop_map(|(branch, place, limit)| Op::Read { branch, place, limit }),
    ]
}

fn part_spec() -> impl Strategy<Value = PartSpec> {
    let expected = prop_oneof![
        6 => Just(At::Any), 1 => Just(At::Nothing), 3 => Just(At::Head), 1 => (0..6_u64).prop_map(At::Off)
    ];
    let owner = (1..3_u128).prop_map(OwnerId::from_u128);
    let owner =
        (owner.clone(), proptest::option::of(owner), 0..12_u8).prop_map(|(by, replacing, what)| match what {
            0 => Ownership::Held(by),
            1 | 2 => Ownership::Claim { by, replacing },
            3 => Ownership::Release(by),
            _ => Ownership::Unchecked,
        });
    let events = proptest::collection::vec((0..KINDS.len(), 0..3_usize), 1..4);
    let events = prop_oneof![40 => events, 1 => Just(vec![(0, 9)])];
    let status = proptest::option::of(proptest::sample::select(&Status::ALL[..]));
    let key = proptest::option::weighted(0.3, 0..3_usize);
    (branch(), expected, key, owner, events, status).prop_map(
        |(branch, expected, key, owner, events, attrs)| PartSpec {
            branch,
            expected,
            key,
            owner,
            events,
            attrs,
        },
    )
}

/// The request, with fresh ids; `Head` means the head as it is now.
pub(super) fn part(spec: &PartSpec, model: &Model) -> Part {
    let expected = match spec.expected {
        At::Any => Expected::Any,
        At::Nothing => Expected::NoStream,
        At::Head => Expected::Exactly(Seq(model.head(&spec.branch))),
        At::Off(by) => Expected::Exactly(Seq(by)),
    };
    Part {
        branch: spec.branch.clone(),
        expected,
        key: spec.key.map(|n| key(&format!("key {n}"))),
        owner: spec.owner,
        events: spec.events.iter().map(|(kind, content)| new_event(*kind, *content)).collect(),
        attrs: spec.attrs.map(Attrs::new),
    }
}

fn new_event(kind: usize, content: usize) -> NewEvent {
    match content {
        0 => event(KINDS[kind], ""),
        9 => event(KINDS[kind], vec![b'x'; PAYLOAD_INLINE_MAX + 1]),
        n => event(KINDS[kind], n.to_string()),
    }
}

pub(super) fn fork(from: &BranchId, name: &BranchId, head: u64, place: At) -> Fork {
    let seq = match place {
        At::Any | At::Head => head,
        At::Nothing => 0,
        At::Off(by) => by,
    };
    Fork { from: from.clone(), at: Seq(seq), name: name.branch.clone() }
}
