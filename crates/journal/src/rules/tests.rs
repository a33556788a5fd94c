//! The rules, one table each.

use super::*;
use crate::listing::Status;

fn branch(stream: &str, branch: &str) -> BranchId {
    BranchId { stream: stream.parse().unwrap(), branch: branch.parse().unwrap() }
}

fn events(count: usize) -> Vec<NewEvent> {
    (0..count).map(|n| NewEvent::new("note.made".parse().unwrap(), n.to_string())).collect()
}

fn part(to: &BranchId, key: Option<&str>, count: usize) -> Part {
    Part { key: key.map(|key| key.parse().unwrap()), ..Part::new(to.clone(), events(count)) }
}

fn show<T: std::fmt::Debug>(result: Result<T, impl std::fmt::Display>) -> String {
    result.map_or_else(|error| error.to_string(), |value| format!("{value:?}"))
}

#[test]
fn limits_hold_to_the_byte() {
    let a = branch("a", "main");
    let with_event = |event| vec![Part::new(a.clone(), vec![event])];
    let payload = |bytes| with_event(NewEvent::new("k".parse().unwrap(), vec![0; bytes]));
    let refs = |count| with_event(events(1).remove(0).with_refs(vec![Hash::ZERO; count]));
    let title = |bytes| {
        let attrs = Some(Attrs { title: Some("t".repeat(bytes)), ..Attrs::new(Status::Idle) });
        vec![Part { attrs, ..part(&a, None, 1) }]
    };
    let twice = events(1).remove(0);
    let id = twice.id();
    let same_key = |other: &str| vec![part(&a, Some("k"), 1), part(&branch(other, "main"), Some("k"), 1)];
    #[rustfmt::skip]
    let cases = [
        (vec![], "an append needs at least one part".to_owned()),
        (vec![part(&a, None, 1), part(&a, None, 0)], "the part for a@main has no events".into()),
        (vec![part(&a, None, EVENTS_MAX - 1), part(&a, None, 1)], "()".into()),
        (vec![part(&a, None, EVENTS_MAX), part(&a, None, 1)], "an append has at most 10000 events, this one 10001".into()),
        (payload(PAYLOAD_MAX), "()".into()),
        (payload(PAYLOAD_MAX + 1), "a payload has at most 16777216 bytes, this one 16777217".into()),
        (refs(REFS_MAX), "()".into()),
        (refs(REFS_MAX + 1), "an event names at most 1024 blobs, this one 1025".into()),
        (title(Attrs::TEXT_MAX), "()".into()),
        (title(Attrs::TEXT_MAX + 1), "the title has at most 1024 bytes, this one 1025".into()),
        (same_key("b"), "()".into()),
        (same_key("a"), "key `k` was already used on a@main for other content".into()),
        (vec![Part::new(a.clone(), vec![twice.clone()]), Part::new(branch("b", "main"), vec![twice])], format!("an event with id {id} already exists")),
    ];
    for (parts, expected) in cases {
        assert_eq!(show(check_limits(&parts)), expected);
    }
}

#[test]
fn expectations() {
    let (main, side) = (branch("s", "main"), branch("s", "side"));
    let (none, five) = (None, Some(Seq(5)));
    #[rustfmt::skip]
    let cases = [
        (&main, Expected::Any, none, "()"),
        (&main, Expected::Any, five, "()"),
        (&main, Expected::NoStream, none, "()"),
        (&main, Expected::NoStream, five, "s@main is at seq 5, not at 0"),
        (&main, Expected::Exactly(Seq(0)), none, "()"),
        (&main, Expected::Exactly(Seq(0)), five, "s@main is at seq 5, not at 0"),
        (&main, Expected::Exactly(Seq(5)), five, "()"),
        (&main, Expected::Exactly(Seq(4)), five, "s@main is at seq 5, not at 4"),
        (&main, Expected::Exactly(Seq(6)), five, "s@main is at seq 5, not at 6"),
        (&main, Expected::Exactly(Seq(5)), none, "s@main is at seq 0, not at 5"),
        (&side, Expected::Any, none, "stream `s` has no branch `side`"),
        (&side, Expected::NoStream, none, "stream `s` has no branch `side`"),
        (&side, Expected::NoStream, five, "s@side is at seq 5, not at 0"),
        (&side, Expected::Exactly(Seq(5)), five, "()"),
    ];
    for (branch, expected, head, outcome) in cases {
        assert_eq!(show(check_expected(expected, head, branch)), outcome, "{branch} {expected:?} {head:?}");
    }
}

#[test]
fn owners() {
    let [a, b] = [1, 2].map(OwnerId::from_u128);
    let stream = "s".parse().unwrap();
    let claim = |by, replacing| Ownership::Claim { by, replacing };
    #[rustfmt::skip]
    let cases = [
        (None, Ownership::Unchecked, Ok(None)),
        (Some(a), Ownership::Unchecked, Ok(Some(a))),
        (None, Ownership::Held(a), Err(None)),
        (Some(a), Ownership::Held(a), Ok(Some(a))),
        (Some(b), Ownership::Held(a), Err(Some(b))),
        (None, claim(a, None), Ok(Some(a))),
        (None, claim(a, Some(b)), Ok(Some(a))),
        (Some(a), claim(a, None), Ok(Some(a))),
        (Some(b), claim(a, None), Err(Some(b))),
        (Some(b), claim(a, Some(b)), Ok(Some(a))),
        (Some(b), claim(a, Some(a)), Err(Some(b))),
        (None, Ownership::Release(a), Err(None)),
        (Some(a), Ownership::Release(a), Ok(None)),
        (Some(b), Ownership::Release(a), Err(Some(b))),
    ];
    for (current, ownership, expected) in cases {
        let outcome = next_owner(current, ownership, &stream).map_err(|error| match error {
            AppendError::Fenced { owner, .. } => owner,
            other => panic!("{other}"),
        });
        assert_eq!(outcome, expected, "{current:?} {ownership:?}");
    }
}

#[test]
fn time_never_runs_backwards() {
    let at = |micros| Timestamp::from_micros(micros).unwrap();
    let cases = [
        (None, 5, None, 5),
        (None, 5, Some(4), 5),
        (None, 5, Some(6), 6),
        (Some(3), 5, None, 3),
        (Some(3), 5, Some(4), 4),
        (Some(9), 5, Some(4), 9),
    ];
    for (given, now, previous, expected) in cases {
        assert_eq!(stamp(given.map(at), at(now), previous.map(at)), at(expected));
    }
}

#[test]
fn forks() {
    let fork = Fork { from: branch("s", "main"), at: Seq(3), name: "side".parse().unwrap() };
    let ground = ForkGround { stream_exists: true, parent_head: Some(Seq(3)), name_taken: false };
    let at = |seq| Fork { at: Seq(seq), ..fork.clone() };
    #[rustfmt::skip]
    let cases = [
        (at(3), ground, "()"),
        (at(1), ground, "()"),
        (at(0), ground, "s@main has no event 0; its newest is 3"),
        (at(4), ground, "s@main has no event 4; its newest is 3"),
        (at(4), ForkGround { name_taken: true, ..ground }, "stream `s` already has a branch `side`"),
        (at(4), ForkGround { name_taken: true, parent_head: None, ..ground }, "stream `s` has no branch `main`"),
        (at(4), ForkGround { stream_exists: false, name_taken: true, parent_head: None }, "there is no stream `s`"),
    ];
    for (fork, ground, expected) in cases {
        assert_eq!(show(check_fork(&fork, ground)), expected);
    }
}

/// The first append: two events without a key, then one with key `k`, then two with key `l`.
#[test]
fn a_repetition_lines_up_with_the_first_append() {
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|stream| branch(stream, "main"));
    let known = |count: usize, first, position| {
        let (content, last) = (part(&a, None, count).content(), Seq(first + count as u64 - 1));
        Some(KnownPart { content, first: Seq(first), last, position: Position(position) })
    };
    let place = |position: Position| -> Result<_, AppendError> {
        Ok(match position.0 {
            11 => Some((a.clone(), Seq(5))),
            12 => Some((a.clone(), Seq(6))),
            13 => Some((b.clone(), Seq(1))),
            14 | 15 => Some((c.clone(), Seq(position.0 - 10))),
            16 => Some((b.clone(), Seq(2))),
            _ => None,
        })
    };
    let (k, l, m) = (known(1, 1, 13), known(2, 4, 14), known(1, 1, 17));
    let whole = || vec![part(&a, None, 2), part(&b, Some("k"), 1), part(&c, Some("l"), 2)];
    let at = |first, last, position| {
        let (first, last, position) = (Seq(first), Seq(last), Position(position));
        Appended { first, last, position, replayed: true }
    };
    let (k_reused, l_reused) = (
        "key `k` was already used on b@main for other content".to_owned(),
        "key `l` was already used on c@main for other content".to_owned(),
    );
    let m_reused = "key `m` was already used on d@main for other content".to_owned();
    let all = format!("{:?}", Some([at(5, 6, 12), at(1, 1, 13), at(4, 5, 15)]));
    #[rustfmt::skip]
    let cases = [
        ("new", whole(), vec![None, None, None], "None".into()),
        ("the same", whole(), vec![None, k, l], all),
        ("a key alone", vec![part(&b, Some("k"), 1)], vec![k], format!("{:?}", Some([at(1, 1, 13)]))),
        ("other content", vec![part(&a, None, 2), part(&b, Some("k"), 2)], vec![None, k], k_reused.clone()),
        ("other content of the second key", vec![part(&b, Some("k"), 1), part(&c, Some("l"), 1)], vec![k, l], l_reused.clone()),
        ("an unknown key beside a known one", whole(), vec![None, None, l], l_reused.clone()),
        ("keys in another order", vec![part(&c, Some("l"), 2), part(&b, Some("k"), 1)], vec![l, k], l_reused),
        ("a sibling of another count", vec![part(&a, None, 1), part(&b, Some("k"), 1)], vec![None, k], format!("{:?}", Some([at(6, 6, 12), at(1, 1, 13)]))),
        ("a sibling that is too long", vec![part(&a, None, 3), part(&b, Some("k"), 1)], vec![None, k], k_reused.clone()),
        ("a sibling on another branch", vec![part(&c, None, 2), part(&b, Some("k"), 1)], vec![None, k], k_reused.clone()),
        ("a sibling across branches", vec![part(&b, Some("k"), 1), part(&c, None, 3)], vec![k, None], k_reused.clone()),
        ("a sibling of which only the ends are there", vec![part(&b, None, 4), part(&d, Some("m"), 1)], vec![None, m], m_reused),
        ("a sibling before the first event", vec![part(&a, None, 20), part(&b, Some("k"), 1)], vec![None, k], k_reused),
    ];
    for (name, parts, known, expected) in cases {
        assert_eq!(show(replay(&parts, &known, place)), expected, "{name}");
    }
}
