//! Owners of streams.

use weir_types::{OwnerId, StreamName};

use super::Make;
use super::kit::*;
use crate::append::{Ownership, Part};
use crate::mint::mint_owner;
use crate::port::Journal;

async fn append_as(journal: &dyn Journal, to: &str, owner: Ownership) -> Result<(), String> {
    let part = Part { owner, ..Part::new(at(to), notes(1, 1)) };
    journal.append(vec![part]).await.map(drop).map_err(|error| error.to_string())
}

async fn owner_of(journal: &dyn Journal, stream: &str) -> Option<OwnerId> {
    let stream: StreamName = stream.parse().unwrap();
    let streams = journal.streams(None, 100).await.unwrap();
    streams.into_iter().find(|summary| summary.stream == stream).and_then(|summary| summary.owner)
}

/// Claimed when there is none or a dead one is named, held until released, fenced otherwise.
pub async fn owners_claim_hold_and_release(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    let [one, two, three] = [(); 3].map(|()| mint_owner());
    let claim = |by, replacing| Ownership::Claim { by, replacing };
    let by_nobody = Err("stream `a` is owned by nobody".to_owned());
    let by_one = Err(format!("stream `a` is owned by {one}"));
    let by_two = Err(format!("stream `a` is owned by {two}"));
    #[rustfmt::skip]
    let steps = [
        (Ownership::Held(one), by_nobody.clone(), None),
        (Ownership::Release(one), by_nobody.clone(), None),
        (Ownership::Unchecked, Ok(()), None),
        (claim(one, None), Ok(()), Some(one)),
        (claim(one, None), Ok(()), Some(one)),
        (Ownership::Held(one), Ok(()), Some(one)),
        (Ownership::Unchecked, Ok(()), Some(one)),
        (Ownership::Held(two), by_one.clone(), Some(one)),
        (claim(two, None), by_one.clone(), Some(one)),
        (claim(two, Some(three)), by_one.clone(), Some(one)),
        (Ownership::Release(two), by_one, Some(one)),
        (claim(two, Some(one)), Ok(()), Some(two)),
        (Ownership::Held(one), by_two.clone(), Some(two)),
        (Ownership::Release(one), by_two, Some(two)),
        (Ownership::Release(two), Ok(()), None),
        (Ownership::Held(two), by_nobody, None),
        (claim(three, Some(two)), Ok(()), Some(three)),
    ];
    let mut events = 0;
    for (n, (ownership, outcome, owner)) in steps.into_iter().enumerate() {
        events += usize::from(outcome.is_ok());
        assert_eq!(append_as(journal, "a", ownership).await, outcome, "step {n}");
        assert_eq!(owner_of(journal, "a").await, owner, "step {n}");
        assert_eq!(everything(journal).await.len(), events, "step {n}");
    }
}

/// One owner for a stream and all its branches, and none for other streams; parts see earlier parts' owners.
pub async fn an_owner_holds_all_branches(make: Make) {
    let fixture = make().await;
    let journal = &*fixture.journal;
    let [one, two] = [(); 2].map(|()| mint_owner());
    let claim = |by| Ownership::Claim { by, replacing: None };
    append_as(journal, "a", claim(one)).await.unwrap();
    fork(journal, &at("a"), 1, "side").await;
    let fenced = Err(format!("stream `a` is owned by {one}"));
    assert_eq!(append_as(journal, "a@side", Ownership::Held(two)).await, fenced);
    append_as(journal, "a@side", Ownership::Held(one)).await.unwrap();
    append_as(journal, "b", claim(two)).await.unwrap();
    append_as(journal, "a@side", Ownership::Release(one)).await.unwrap();
    assert_eq!((owner_of(journal, "a").await, owner_of(journal, "b").await), (None, Some(two)));

    let part = |to: &str, owner| Part { owner, ..Part::new(at(to), notes(1, 1)) };
    journal.append(vec![part("a", claim(one)), part("a@side", Ownership::Held(one))]).await.unwrap();
    let stolen = vec![part("a", Ownership::Release(one)), part("a@side", Ownership::Held(one))];
    assert_eq!(refusal(journal.append(stolen).await), "stream `a` is owned by nobody");
    assert_eq!(owner_of(journal, "a").await, Some(one), "the release did not happen either");
}
