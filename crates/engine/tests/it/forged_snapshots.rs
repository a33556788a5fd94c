//! Snapshots that someone else made: whatever they say, and however they are sealed, they open nothing.

use weir_engine::{
    Address, Approval, Pretence, SnapshotError, SnapshotSeal, StopReason, audit, balances, check_snapshot,
    day,
};
use weir_events::{Amount, ApprovalGranted, Body, Scope};
use weir_journal::{FoldVersion, Problem, Report, Snapshot};
use weir_kernel::{Call, CallState, Entry, FOLD_VERSION, Lifecycle, Run, Session, Spent, StandingApproval};
use weir_types::{BranchId, Hash, NanoUsd, Seq};

use crate::approving::yes;
use crate::budgets::{a_dollar_a_million, usd};
use crate::kit::*;

/// How a forged snapshot is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sealed {
    /// As an older version left it.
    Not,
    /// With a key of the forger's own.
    ByOther,
    /// With the key of the data directory: the forger could read it.
    ByUs,
}

const SEALS: [Sealed; 3] = [Sealed::Not, Sealed::ByOther, Sealed::ByUs];

/// Stores a state as the snapshot at the newest event of a branch.
async fn forge(world: &World, branch: &BranchId, fold: &str, state: Vec<u8>, sealed: Sealed) -> Snapshot {
    let head = world.journal.head(branch).await.unwrap().unwrap();
    let version = if fold == "session" { FOLD_VERSION } else { 1 };
    let plain = Snapshot {
        branch: branch.clone(),
        seq: head.seq,
        chain: head.chain,
        fold: FoldVersion { fold: fold.to_owned(), version },
        state: state.into(),
    };
    let stored = match sealed {
        Sealed::Not => plain,
        Sealed::ByOther => SnapshotSeal::in_memory().unwrap().sealed(plain),
        Sealed::ByUs => world.seal.sealed(plain),
    };
    world.journal.put_snapshot(stored.clone()).await.unwrap();
    stored
}

fn open_calls(session: &mut Session) -> impl Iterator<Item = &mut Call> {
    let entries = session.transcript.entries.iter_mut();
    let calls = entries.filter_map(|entry| match entry {
        Entry::Assistant(entry) => Some(&mut entry.calls),
        Entry::User(_) => None,
    });
    calls.flatten().filter(|call| !matches!(call.state, CallState::Done(_)))
}

/// Every state of a session that would let something happen that must not, as a change of the true one.
fn doors(truth: &Session) -> Vec<(String, Session)> {
    let mut doors: Vec<(String, Session)> = Vec::new();
    let mut door = |name: &str, change: &dyn Fn(&mut Session)| {
        let mut forged = truth.clone();
        change(&mut forged);
        if forged != *truth {
            doors.push((name.to_owned(), forged));
        }
    };
    let by = || "user:boss".to_owned();
    door("granted", &|session| {
        open_calls(session).for_each(|call| {
            call.state = CallState::Granted { by: by(), input_hash: call.input_hash() };
        });
    });
    door("allowed", &|session| open_calls(session).for_each(|call| call.state = CallState::Allowed));
    door("allowed, approved", &|session| {
        open_calls(session).for_each(|call| {
            (call.state, call.approved_by) = (CallState::Allowed, Some(by()));
        });
    });
    door("interrupted, approved", &|session| {
        open_calls(session).for_each(|call| {
            (call.state, call.approved_by, call.attempt) = (CallState::Interrupted, Some(by()), 1);
        });
    });
    door("open", &|session| session.lifecycle = Lifecycle::Open);
    door("another owner", &|session| {
        session.created.iter_mut().for_each(|created| created.principal = "user:eve".to_owned());
    });
    door("more groups", &|session| {
        session.created.iter_mut().for_each(|created| created.groups = vec!["group:admin".to_owned()]);
    });
    door("another build", &|session| {
        session.created.iter_mut().for_each(|created| created.manifest = weir_types::Hash::ZERO);
    });
    door("never begun", &|session| session.created = None);
    door("the run is over", &|session| {
        if session.run.take().is_some() {
            // An open call would tell.
            session.transcript.entries.retain(|entry| matches!(entry, Entry::User(_)));
        }
    });
    let run = |change: fn(&mut Run)| move |session: &mut Session| session.run.iter_mut().for_each(change);
    door("the run spent nothing", &run(|run| run.spent = Spent::default()));
    door("all was given again", &run(|run| run.excused = run.spent));
    door("the run was given more", &run(|run| run.granted.model_calls = Some(100)));
    door("the run goes on", &run(|run| run.parked = None));
    door(
        "the run goes on, and spent nothing",
        &run(|run| (run.parked, run.spent) = (None, Spent::default())),
    );
    door("all work was told to purses", &|session| session.settled_micros = session.totals.micros);
    door("more work was told to purses", &|session| session.settled_micros = session.totals.micros + 1_000);
    // Whatever event is named as the one that gave it.
    for granted in std::iter::once(None).chain((0..=truth.seq.0 + 1).map(|seq| Some(Seq(seq)))) {
        for rule in ["ask", "gate", "always", "ask-first"] {
            door(&format!("standing approval by event {granted:?} of rule {rule}"), &|session| {
                let standing = StandingApproval {
                    tool: "ask".to_owned(),
                    rule: rule.to_owned(),
                    by: by(),
                    runs: None,
                    granted,
                };
                session.standing.push(standing);
            });
        }
    }
    doors
}

async fn deeds(world: &World) -> usize {
    world.deeds.lock().unwrap().len()
}

/// Forges every door of a session in every way, and expects the engine to see the events alone.
async fn expect_closed(world: &World, address: &Address) -> usize {
    let (truth, branch) = (world.state(address).await, address.branch_id());
    let (before, doors) = (deeds(world).await, doors(&truth));
    for (name, forged) in &doors {
        for sealed in SEALS {
            let context = format!("{name}, sealed: {sealed:?}");
            let state = serde_json::to_vec(forged).unwrap();
            let stored = forge(world, &branch, "session", state, sealed).await;
            let process = world.start().await;
            assert_eq!(process.engine.state(address, None).await.unwrap(), truth, "{context}");
            let settled = process.engine.settle(address).await;
            assert_eq!(deeds(world).await, before, "{context}: {settled:?}");
            assert_eq!(world.state(address).await, truth, "{context}: nothing was written down");
            let checked = check_snapshot(&*world.journal, &world.seal, &stored).await.unwrap_err();
            let fits = match sealed {
                Sealed::Not => matches!(checked, SnapshotError::Unsealed),
                Sealed::ByOther => matches!(checked, SnapshotError::Seal),
                Sealed::ByUs => matches!(checked, SnapshotError::Contradicts),
            };
            assert!(fits, "{context}: {checked:?}");
        }
    }
    doors.len()
}

fn careful() -> World {
    let world = World::new();
    let one = calling(on_user("^do", "May I?"), &[("ask", r#"{"n":1}"#)]);
    world.agent("careful", vec![one, on_tool("ask", "result: {{result}}")], &["ask"]);
    world
}

async fn asking(world: &World) -> (Process, Address, Approval) {
    let process = world.start().await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("careful"), said("do it")).await.unwrap();
    let outcome = process.engine.settle(&address).await.unwrap();
    assert_eq!(outcome.stop, StopReason::Approval, "{outcome:?}");
    let approval = outcome.approvals[0].clone();
    (process, address, approval)
}

#[tokio::test(start_paused = true)]
async fn a_forged_snapshot_approves_nothing() {
    let world = careful();
    let (_process, address, _) = asking(&world).await;
    assert!(expect_closed(&world, &address).await > 40);
}

#[tokio::test(start_paused = true)]
async fn a_forged_snapshot_resumes_no_session_that_was_stopped() {
    for ends in ["halt", "close", "halt again"] {
        let world = careful();
        let (process, address, _) = asking(&world).await;
        let halt = async || process.engine.halt(&address, "enough", "user:boss").await.unwrap();
        match ends {
            "close" => _ = process.engine.close(&address, "over", "user:boss").await.unwrap(),
            "halt" => _ = halt().await,
            _ => {
                halt().await;
                process.engine.settle(&address).await.unwrap();
                process.engine.resume_for(&address, "user:test").await.unwrap();
                process.engine.settle(&address).await.unwrap();
                halt().await;
            }
        }
        process.engine.settle(&address).await.unwrap();
        assert!(expect_closed(&world, &address).await > 0, "{ends}");
    }
}

/// A yes for the whole session counts from a snapshot as long as it counts in the events, and no longer.
#[tokio::test(start_paused = true)]
async fn an_approval_for_the_session_is_looked_up() {
    let world = careful();
    let (process, address, approval) = asking(&world).await;
    let granted = ApprovalGranted { scope: Scope::Session, ..yes(&approval, "user:boss") };
    process.engine.approve(&address, granted, Pretence::Allowed).await.unwrap();
    process.engine.settle(&address).await.unwrap();
    process.engine.stop(std::time::Duration::from_secs(5)).await;
    assert_eq!(deeds(&world).await, 1);
    let truth = world.state(&address).await;
    assert_eq!(truth.standing.len(), 1);
    let state = serde_json::to_vec(&truth).unwrap();
    let stored = forge(&world, &address.branch_id(), "session", state.clone(), Sealed::ByUs).await;
    check_snapshot(&*world.journal, &world.seal, &stored).await.unwrap();
    // Believed, and used.
    let other = world.start().await;
    other.engine.say(&address, said("do it again")).await.unwrap();
    assert_eq!(other.engine.settle(&address).await.unwrap().stop, StopReason::End);
    assert_eq!(deeds(&world).await, 2);
    // What a halt has ended, no snapshot brings back.
    other.engine.halt(&address, "enough", "user:boss").await.unwrap();
    other.engine.resume_for(&address, "user:test").await.unwrap();
    other.engine.settle(&address).await.unwrap();
    let mut forged = world.state(&address).await;
    assert_eq!(forged.standing, []);
    forged.standing = truth.standing;
    forge(&world, &address.branch_id(), "session", serde_json::to_vec(&forged).unwrap(), Sealed::ByUs).await;
    other.die();
    let last = world.start().await;
    last.engine.say(&address, said("do it once more")).await.unwrap();
    assert_eq!(last.engine.settle(&address).await.unwrap().stop, StopReason::Approval);
    assert_eq!(deeds(&world).await, 2);
}

/// The groups that someone had when they approved something are looked up: calls under a standing approval are judged by them.
#[tokio::test(start_paused = true)]
async fn a_forged_snapshot_gives_an_approver_no_groups() {
    let world = careful();
    let (process, address, approval) = asking(&world).await;
    let groups = |names: &[&str]| names.iter().map(|name| format!("group:{name}")).collect::<Vec<_>>();
    let granted =
        ApprovalGranted { scope: Scope::Session, groups: groups(&["clerks"]), ..yes(&approval, "user:boss") };
    process.engine.approve(&address, granted, Pretence::Allowed).await.unwrap();
    process.engine.settle(&address).await.unwrap();
    process.engine.stop(std::time::Duration::from_secs(5)).await;
    let truth = world.state(&address).await;
    assert_eq!(truth.approvers.get("user:boss"), Some(&groups(&["clerks"])));
    for (by, claimed) in [
        ("user:boss", groups(&["admin"])),
        ("user:boss", groups(&["clerks", "admin"])),
        ("user:eve", groups(&["clerks"])),
    ] {
        let mut forged = truth.clone();
        forged.approvers.insert(by.to_owned(), claimed);
        let state = serde_json::to_vec(&forged).unwrap();
        forge(&world, &address.branch_id(), "session", state, Sealed::ByUs).await;
        let process = world.start().await;
        assert_eq!(process.engine.state(&address, None).await.unwrap(), truth, "{by}");
        process.die();
    }
    // Fewer groups are believed, which shows that the snapshot was used at all.
    let mut fewer = truth.clone();
    fewer.approvers.clear();
    let state = serde_json::to_vec(&fewer).unwrap();
    forge(&world, &address.branch_id(), "session", state, Sealed::ByUs).await;
    let process = world.start().await;
    assert_eq!(process.engine.state(&address, None).await.unwrap(), fewer);
}

/// What a run that stopped at a limit has spent is folded from its events.
#[tokio::test(start_paused = true)]
async fn a_forged_snapshot_gives_a_run_nothing() {
    let world = World::new();
    let more = |reply| calling(reply, &[("tick", "{}")]);
    world.agent_with("a", vec![more(on_user("", "")), more(on_tool("tick", ""))], &["tick"], |agent| {
        agent.limits.model_calls = Some(3);
    });
    let process = world.start_with(Fuse::default(), |options| options.snapshot_every = 1).await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("a"), said("go")).await.unwrap();
    let stopped = process.engine.settle(&address).await.unwrap();
    let message = stopped.message.as_deref();
    assert_eq!(message, Some("the run reached its limit of 3 model calls"));
    process.engine.stop(std::time::Duration::from_secs(5)).await;
    assert_eq!(snapshots(&world, &address).await, [], "there is no snapshot of an unfinished run");
    let truth = world.state(&address).await;
    for (what, forged) in doors(&truth) {
        for sealed in SEALS {
            let context = format!("{what}, sealed: {sealed:?}");
            let state = serde_json::to_vec(&forged).unwrap();
            forge(&world, &address.branch_id(), "session", state, sealed).await;
            let other = world.start().await;
            assert_eq!(other.engine.state(&address, None).await.unwrap(), truth, "{context}");
            let settled = other.engine.settle(&address).await.unwrap();
            assert_eq!(settled.message.as_deref(), message, "{context}");
            let resumed = other.engine.resume(&address).await.unwrap_err();
            assert_eq!(weir_types::Explain::code(&resumed), "engine::needs-budget", "{context}");
            assert_eq!(world.state(&address).await, truth, "{context}");
        }
    }
    assert_eq!((deeds(&world).await, truth.totals.model_calls), (3, 3));
}

/// How long a session has worked since its purses were told the last time is looked up: a snapshot does not
/// shorten it.
#[tokio::test(start_paused = true)]
async fn a_forged_snapshot_hides_no_work_from_a_purse() {
    let world = World::new();
    world.agent("a", vec![calling(on_user("", ""), &[("slow", "{}")]), on_tool("slow", "done")], &["slow"]);
    let day = weir_events::Allowance { wall_clock_ms: Some(60_000), ..usd(1_000_000_000) };
    world.allow("a", weir_engine::Budgets { day, ..weir_engine::Budgets::default() });
    let process = world.start_with(Fuse::default(), |options| options.snapshot_every = 1).await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("a"), said("go")).await.unwrap();
    world.until(&address, "tool.started").await;
    process.engine.cancel(&address, "user:test").await.unwrap();
    assert_eq!(process.engine.settle(&address).await.unwrap().stop, StopReason::Cancelled);
    process.engine.stop(std::time::Duration::from_secs(5)).await;
    let truth = world.state(&address).await;
    assert!(truth.run.is_none() && truth.totals.micros > truth.settled_micros, "{truth:?}");
    assert_eq!(snapshots(&world, &address).await, [truth.seq], "what is true is stored");
    assert_eq!(world.start().await.engine.state(&address, None).await.unwrap(), truth, "and believed");
    assert!(expect_closed(&world, &address).await > 2);
}

/// Where the newest snapshot of a session is, if there is one.
async fn snapshots(world: &World, address: &Address) -> Vec<Seq> {
    let fold = FoldVersion { fold: "session".to_owned(), version: FOLD_VERSION };
    let stored = world.journal.snapshot(&address.branch_id(), &fold).await.unwrap();
    stored.iter().map(|snapshot| snapshot.seq).collect()
}

/// A purse that a snapshot shows as full, or a limit as raised, is neither: purses have no snapshots, and
/// whoever has the key has nothing from it.
#[tokio::test(start_paused = true)]
async fn a_forged_snapshot_puts_nothing_into_a_purse() {
    let world = World::new();
    let usage =
        Some(weir_types::Usage { input_tokens: 80, output_tokens: 20, ..weir_types::Usage::default() });
    let reply = weir_models::scripted::Reply { usage, ..on_user("", "yes") };
    world.agent_with("a", vec![reply], &[], |agent| {
        agent.limits.output_tokens = Some(1_000);
        agent.card.price = a_dollar_a_million();
    });
    // There is room for one call.
    let budgets = weir_engine::Budgets { day: usd(1_100_000), ..weir_engine::Budgets::default() };
    world.allow("a", budgets);
    let process = world.start().await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("a"), said("one")).await.unwrap();
    assert_eq!(process.engine.settle(&address).await.unwrap().stop, StopReason::End);
    process.die();
    let today = format!("budget:day:{}", day(weir_journal::now()));
    let branch = BranchId::main(today.parse().unwrap());
    let truth = balances(&*world.journal, |_| true).await.unwrap();
    let purse = &truth[0].purse;
    assert!(purse.settled.nano > NanoUsd(0));
    // As versions that kept snapshots of purses wrote them.
    let state = |settled: Amount, raised: Amount| {
        let void: [u8; 0] = [];
        let state = serde_json::json!({
            "seq": purse.seq, "scope": purse.scope, "settled": settled, "raised": raised,
            "limit": purse.limit, "held": {}, "void": void,
        });
        serde_json::to_vec(&state).unwrap()
    };
    let dollar = Amount { nano: NanoUsd(NanoUsd::PER_USD), ..Amount::default() };
    for (what, forged) in [
        ("spent nothing", state(Amount::default(), Amount::default())),
        ("has more", state(purse.settled, dollar)),
    ] {
        for sealed in SEALS {
            let context = format!("{what}, sealed: {sealed:?}");
            let stored = forge(&world, &branch, "purse", forged.clone(), sealed).await;
            let checked = check_snapshot(&*world.journal, &world.seal, &stored).await;
            assert!(matches!(checked, Err(SnapshotError::Unknown(_))), "{context}: {checked:?}");
            let found = balances(&*world.journal, |_| true).await.unwrap();
            assert_eq!(found, truth, "{context}");
        }
        let other = world.start().await;
        let second = other.engine.new_address();
        other.engine.begin(&second, new("a"), said("two")).await.unwrap();
        let outcome = other.engine.settle(&second).await.unwrap();
        assert_eq!((outcome.stop, outcome.usage.total()), (StopReason::Budget, 0), "{what}");
        other.die();
    }
}

/// Snapshots that the engine makes are sealed, fit the events, and are of no session with an unfinished run.
#[tokio::test(start_paused = true)]
async fn the_snapshots_of_the_engine_are_true() {
    let world = careful();
    let process = world.start_with(Fuse::default(), |options| options.snapshot_every = 1).await;
    let fold = FoldVersion { fold: "session".to_owned(), version: FOLD_VERSION };
    let address = process.engine.new_address();
    process.engine.begin(&address, new("careful"), said("do it")).await.unwrap();
    let asked = process.engine.settle(&address).await.unwrap();
    assert_eq!(
        snapshots(&world, &address).await,
        [],
        "what a run and its calls may do is only in the events"
    );
    let body: Body = yes(&asked.approvals[0], "user:boss").into();
    let Body::ApprovalGranted(granted) = body else { unreachable!() };
    process.engine.approve(&address, granted, Pretence::Allowed).await.unwrap();
    process.engine.settle(&address).await.unwrap();
    let stored = world.journal.snapshot(&address.branch_id(), &fold).await.unwrap().unwrap();
    check_snapshot(&*world.journal, &world.seal, &stored).await.unwrap();
    assert_eq!(stored.seq, world.state(&address).await.seq);
}

async fn audited(world: &World) -> Vec<Problem> {
    let mut report = Report::default();
    audit(&*world.journal, &world.seal, None, &mut report).await.unwrap();
    report.problems
}

/// A snapshot that contradicts the events is named, also if it is sealed with our key. One without our seal is never used.
#[tokio::test(start_paused = true)]
async fn an_audit_names_the_snapshots_that_contradict_the_events() {
    let world = careful();
    let (process, address, _) = asking(&world).await;
    process.engine.stop(std::time::Duration::from_secs(5)).await;
    assert_eq!(audited(&world).await, vec![]);
    let (branch, truth) = (address.branch_id(), world.state(&address).await);
    for (what, forged) in doors(&truth) {
        let state = serde_json::to_vec(&forged).unwrap();
        for sealed in [Sealed::Not, Sealed::ByOther] {
            forge(&world, &branch, "session", state.clone(), sealed).await;
            assert_eq!(audited(&world).await, vec![], "{what}, {sealed:?}");
        }
        let stored = forge(&world, &branch, "session", state, Sealed::ByUs).await;
        let found = audited(&world).await;
        let places: Vec<_> = found.iter().map(|one| (one.place.as_deref(), one.seq)).collect();
        assert_eq!(places, [(Some("table `snapshots`"), Some(stored.seq))], "{what}: {found:?}");
    }
    let stored = forge(&world, &branch, "session", serde_json::to_vec(&truth).unwrap(), Sealed::ByUs).await;
    assert_eq!(audited(&world).await, vec![]);
    // The same state, said to be of other events.
    let other = world.seal.sealed(Snapshot {
        chain: Hash::of(b"other events"),
        state: serde_json::to_vec(&truth).unwrap().into(),
        ..stored
    });
    let error = check_snapshot(&*world.journal, &world.seal, &other).await.unwrap_err();
    assert!(matches!(error, SnapshotError::OtherEvents), "{error}");
}
