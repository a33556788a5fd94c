//! What is kept: snapshots that change nothing, requests that can be made again, and no memory of idle sessions.

use std::sync::Arc;
use std::time::Duration;

use weir_engine::{Address, StopReason};
use weir_journal_sqlite::{Options, SqliteJournal};
use weir_kernel::Session;
use weir_models::scripted::{Reply, When};
use weir_types::{Purpose, Seq};

use crate::kit::*;

/// An agent with a small window, so that old things become summaries.
fn chatty() -> World {
    let world = World::new();
    let when = Some(When { summarize: true, ..When::default() });
    let summary = Reply { when, say: Some("They talked.".to_owned()), ..Reply::default() };
    let look = calling(on_user("look", "looking"), &[("look", "{}"), ("look", r#"{"b":1,"a":2}"#)]);
    let replies = vec![summary, look, on_tool("look", "seen"), on_user("", "yes")];
    world.agent_with("chatty", replies, &["look"], |agent| {
        agent.card.context_window = 1_500;
        agent.limits.output_tokens = Some(100);
    });
    world
}

async fn talk(process: &Process, address: &Address, turns: usize) {
    for n in 0..turns {
        let word = if n % 3 == 0 { "look" } else { "tell" };
        let message = said(&format!("{word} {n} {}", "word ".repeat(60)));
        match n {
            0 => process.engine.begin(address, new("chatty"), message).await.unwrap(),
            _ => process.engine.say(address, message).await.unwrap(),
        };
        assert_eq!(process.engine.settle(address).await.unwrap().stop, StopReason::End);
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_resumed_from_a_snapshot_is_the_same() {
    let world = chatty();
    let process = world.start_with(Fuse::default(), |options| options.snapshot_every = 7).await;
    let address = process.engine.new_address();
    talk(&process, &address, 20).await;
    let with: Session = process.engine.state(&address, None).await.unwrap();
    assert_eq!(with, world.state(&address).await);
    assert!(with.transcript.summary.is_some(), "old turns were summarised");
    let fold = weir_journal::FoldVersion { fold: "session".into(), version: weir_kernel::FOLD_VERSION };
    let snapshot = world.journal.snapshot(&address.branch_id(), &fold).await.unwrap().unwrap();
    assert!(with.seq.0 - snapshot.seq.0 < 7 + 20, "{} {}", with.seq, snapshot.seq);
    // Both go on in the same way: the next request is the same, byte for byte.
    let plain = World { journal: copy(&world).await, ..world.clone() };
    let (one, two) = (world.start().await, plain.start().await);
    let mut hashes = Vec::new();
    for process in [&one, &two] {
        process.engine.say(&address, said("and now?")).await.unwrap();
        process.engine.settle(&address).await.unwrap();
        let requests = requests(process, &address).await;
        hashes.push(requests.last().unwrap().hash);
    }
    assert_eq!(hashes[0], hashes[1]);
}

/// The same events in a journal that has no snapshots.
async fn copy(world: &World) -> Arc<dyn weir_journal::Journal> {
    let copy = weir_journal::MemoryJournal::new(Arc::clone(&world.blobs));
    let events =
        weir_journal::Journal::read_all(&*world.journal, weir_types::Position(0), 1_000).await.unwrap();
    assert!(events.len() < 1_000);
    for event in events {
        let branch = event.branch_id();
        let new = weir_journal::NewEvent::new(event.kind, event.payload)
            .with_meta(event.meta)
            .with_refs(event.refs)
            .with_identity(event.id, event.ts);
        weir_journal::Journal::append(&copy, vec![weir_journal::Part::new(branch, vec![new])]).await.unwrap();
    }
    Arc::new(copy)
}

async fn requests(process: &Process, address: &Address) -> Vec<weir_engine::Rebuilt> {
    let mut found = Vec::new();
    while let Ok(rebuilt) = process.engine.request(address, found.len() + 1).await {
        found.push(rebuilt);
    }
    found
}

#[tokio::test(start_paused = true)]
async fn every_request_can_be_made_again_and_its_hash_checked() {
    let world = chatty();
    let process = world.start().await;
    let address = process.engine.new_address();
    talk(&process, &address, 12).await;
    let rebuilt = requests(&process, &address).await;
    let asked = world.kinds(&address).await.into_iter().filter(|kind| kind == "model.requested").count();
    assert_eq!(rebuilt.len(), asked);
    for (index, request) in rebuilt.iter().enumerate() {
        assert_eq!(request.hash, request.requested.request_hash, "request {}", index + 1);
    }
    let summaries = rebuilt.iter().filter(|request| request.request.purpose == Purpose::Summary).count();
    assert!(summaries > 0 && summaries < asked);
    let missing = process.engine.request(&address, asked + 1).await.unwrap_err();
    assert_eq!(
        missing.to_string(),
        format!("session {address} has made {asked} model requests; there is no request {}", asked + 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_fork_shares_the_past_and_its_requests_begin_with_the_same_bytes() {
    let world = chatty();
    let process = world.start().await;
    let address = process.engine.new_address();
    talk(&process, &address, 2).await;
    let kinds = world.kinds(&address).await;
    // At every event: the fork answers, its parent is not touched.
    for at in 1..=kinds.len() as u64 {
        let name = format!("from-{at}").parse().unwrap();
        let (fork, _) = process.engine.fork(&address, Seq(at), name).await.unwrap();
        assert_eq!(world.kinds(&fork).await[at as usize..], ["branch.forked"], "at {at}");
        assert!(world.state(&fork).await.run.is_none(), "what was open is closed, at {at}");
        process.engine.say(&fork, said("and now?")).await.unwrap();
        let outcome = process.engine.settle(&fork).await.unwrap();
        assert_eq!(outcome.stop, StopReason::End, "at {at}: {outcome:?}");
        let (parents, forks) = (requests(&process, &address).await, requests(&process, &fork).await);
        let shared = kinds[..at as usize].iter().filter(|kind| *kind == "model.requested").count();
        assert!(
            forks[..shared].iter().zip(&parents).all(|(fork, parent)| fork.bytes == parent.bytes),
            "at {at}"
        );
        // The new request begins with the messages of the last shared one.
        if let Some(before) = shared.checked_sub(1).map(|last| &parents[last].request.messages) {
            let after = &forks.last().unwrap().request.messages;
            let told = before.len() - 1;
            assert_eq!(after[..told], before[..told], "at {at}");
            assert_eq!(after[told].content[..before[told].content.len()], before[told].content, "at {at}");
        }
    }
    assert_eq!(world.kinds(&address).await, kinds);
}

#[tokio::test(start_paused = true)]
async fn idle_sessions_leave_memory() {
    let world = chatty();
    let process =
        world.start_with(Fuse::default(), |options| options.idle_after = Duration::from_secs(5)).await;
    let addresses: Vec<Address> = (0..50).map(|_| process.engine.new_address()).collect();
    for address in &addresses {
        process.engine.begin(address, new("chatty"), said("hello")).await.unwrap();
        process.engine.settle(address).await.unwrap();
    }
    assert_eq!(process.engine.active(), 50);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(process.engine.active(), 0);
    process.engine.say(&addresses[0], said("still there?")).await.unwrap();
    assert_eq!(process.engine.settle(&addresses[0]).await.unwrap().answer.as_deref(), Some("yes"));
}

/// Memory of this process, in bytes, without what is mapped from files.
pub(crate) fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[tokio::test]
async fn ten_thousand_waiting_sessions_cost_little() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::new();
    let options =
        Options { path: directory.path().join("journal.db"), blobs: Arc::clone(&world.blobs), vfs: None };
    let world = World { journal: Arc::new(SqliteJournal::open(options).await.unwrap()), ..world };
    let ask = calling(on_user("", "May I?"), &[("ask", "{}")]);
    let script = weir_models::scripted::Script { replies: vec![ask, on_tool("ask", "done")] };
    world.add("careful", Arc::new(weir_models::Scripted::new(script).unwrap()), &["ask"], |_| {});
    let process =
        world.start_with(Fuse::default(), |options| options.idle_after = Duration::from_millis(1)).await;
    let wait = |_| async {
        let address = process.engine.new_address();
        process.engine.begin(&address, new("careful"), said("do it")).await.unwrap();
        assert_eq!(process.engine.settle(&address).await.unwrap().stop, StopReason::Approval);
    };
    use futures_util::StreamExt;
    futures_util::stream::iter(0..10_000).for_each_concurrent(32, wait).await;
    let gone = async {
        while process.engine.active() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.unwrap();
    let waiting =
        weir_journal::ListFilter { status: Some(weir_journal::Status::Waiting), ..Default::default() };
    assert_eq!(world.journal.list(waiting, None, 1_000).await.unwrap().len(), 1_000);
    let bytes = resident();
    assert!(bytes <= 60 * 1024 * 1024, "{bytes} bytes are in use");
}

/// Words that do not compress like a repeated one does.
fn prose(seed: u64, words: usize) -> String {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut word = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        format!("{:x} ", state & 0xF_FFFF)
    };
    (0..words).map(|_| word()).collect()
}

#[tokio::test]
async fn a_hundred_calls_of_a_long_chat_cost_little_more_than_the_chat() {
    let directory = tempfile::tempdir().unwrap();
    let blobs: Arc<dyn weir_blobs::Blobs> =
        Arc::new(weir_blobs::DirBlobs::open(directory.path().join("blobs")).unwrap());
    let options = Options { path: directory.path().join("journal.db"), blobs: Arc::clone(&blobs), vfs: None };
    let journal = Arc::new(SqliteJournal::open(options).await.unwrap());
    let world = World { journal: Arc::clone(&journal) as _, blobs, ..World::new() };
    world.agent_with("writer", vec![on_user("", &prose(7, 650))], &[], |agent| {
        agent.card.context_window = 250_000;
    });
    let process = world.start().await;
    let address = process.engine.new_address();
    for n in 0..100 {
        let message = said(&prose(n + 1_000, 650));
        match n {
            0 => process.engine.begin(&address, new("writer"), message).await.unwrap(),
            _ => process.engine.say(&address, message).await.unwrap(),
        };
        assert_eq!(process.engine.settle(&address).await.unwrap().stop, StopReason::End);
    }
    let last = process.engine.request(&address, 100).await.unwrap();
    assert_eq!(last.hash, last.requested.request_hash);
    let tokens = weir_kernel::tokens::of_request(&last.request);
    assert!(tokens > 190_000, "the last request has {tokens} tokens");
    process.engine.stop(Duration::from_secs(10)).await;
    journal.close().await;
    let bytes = size(directory.path());
    assert!(bytes <= 5 * 1024 * 1024, "{bytes} bytes");
}

fn size(path: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    let of = |entry: std::fs::DirEntry| match entry.metadata().unwrap() {
        metadata if metadata.is_dir() => size(&entry.path()),
        metadata => metadata.len(),
    };
    entries.map(of).sum()
}

/// For a collector, no event refers to any blob.
struct Unused;

impl weir_blobs::Live for Unused {
    fn is_live(
        &self,
        _hash: weir_types::Hash,
    ) -> futures_util::future::BoxFuture<'_, Result<bool, Box<dyn std::error::Error + Send + Sync>>> {
        Box::pin(async { Ok(false) })
    }
}

/// A process that has stored a prompt once does not store it again. If it was collected meanwhile, it does.
#[tokio::test(start_paused = true)]
async fn a_prompt_that_was_collected_is_stored_again() {
    let world = chatty();
    let process = world.start().await;
    let address = process.engine.new_address();
    talk(&process, &address, 1).await;
    let all = weir_blobs::Sweep { grace: Duration::ZERO, dry_run: false };
    let swept = world.blobs.sweep(&Unused, all).await.unwrap();
    assert!(swept.removed > 0, "{swept:?}");
    process.engine.say(&address, said("and now?")).await.unwrap();
    assert_eq!(process.engine.settle(&address).await.unwrap().stop, StopReason::End);
    let events = world.events(&address).await;
    let asked = events.iter().rfind(|event| event.kind.as_str() == "model.requested").unwrap();
    assert!(!asked.refs.is_empty());
    for hash in &asked.refs {
        assert!(world.blobs.stat(*hash).await.unwrap().is_some(), "{hash}");
    }
}
