//! Ten thousand sessions that wait for people, in processes that are killed: whatever was approved starts at most once and, where
//! nobody cut it off, ran; whatever was denied never does; and however many there are, the process stays small.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use weir_blobs::DirBlobs;
use weir_engine::{
    Address, Adopt, Agents, Approval, Budgets, Engine, Explained, Function, Functions, LockFiles, Options,
    Pretence, Runnable, Setup, SnapshotSeal, StopReason, Tools,
};
use weir_events::Body;
use weir_journal::{Journal, ListFilter, Status};
use weir_journal_sqlite::SqliteJournal;
use weir_kernel::{Agent, Limits};
use weir_models::Scripted;
use weir_models::scripted::Script;
use weir_tools::{Asked, Decision, Done, Failed, NoResult, Permit};
use weir_types::{Catalog, Effect, Hash, Outcome as CallOutcome, Seq, Who};

use crate::approving::{no, yes};
use crate::kit::{calling, new, on_tool, on_user, said};
use crate::remembering::resident;

const TEST: &str = "restarts::what_ten_thousand_sessions_wait_for_is_decided_through_kills";

/// What this process is to do, if it is a child of the test, and where.
const ROLE: &str = "WEIR_ENGINE_TEST_ROLE";
const DIRECTORY: &str = "WEIR_ENGINE_TEST_DIRECTORY";

/// Marks the lines that a child says, among those that the test harness prints.
const MARK: &str = "> ";

const SESSIONS: usize = 10_000;

/// When the server is killed, and when the next one is started, counted in decisions.
const KILLED_AT: [(usize, usize); 2] = [(2_500, 3_000), (6_000, 6_200)];

/// How many sessions a server takes up at once.
const ADOPT_MAX: usize = 16;

/// The most memory of a process while sessions wait, as was promised, and while they are decided.
const WAITING_MAX: u64 = 60 << 20;
const DECIDING_MAX: u64 = 60 << 20;

/// Longest silence of a process that is not stuck.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// An agent that must ask before it leaves a mark in a file.
struct Careful(Arc<Runnable>);

impl Careful {
    fn new(ledger: PathBuf) -> Self {
        let mark = Function::new("ask", "leaves a mark", move |permit| mark(ledger.clone(), permit));
        let functions = Functions::new([mark.with(|tool| tool.effect = Effect::Write)]);
        let (model, card) = Catalog::default().find("scripted/test").unwrap();
        let ask = calling(on_user("", "May I?"), &[("ask", "{}")]);
        let script = Script { replies: vec![ask, on_tool("ask", "done")] };
        let agent = Agent {
            name: "careful".to_owned(),
            model,
            card,
            system: "You are careful.".to_owned(),
            tools: vec![functions.tool("ask").unwrap()],
            limits: Limits::default(),
        };
        let (model, tools) = (Arc::new(Scripted::new(script).unwrap()), Arc::new(Gate(functions)));
        let (manifest, budgets) = (Hash::of(b"careful"), Budgets::default());
        Self(Arc::new(Runnable { agent, model, tools, manifest, budgets }))
    }
}

impl Agents for Careful {
    fn agent<'a>(
        &'a self,
        _: &'a str,
        _build: Option<Hash>,
    ) -> BoxFuture<'a, Result<Arc<Runnable>, Explained>> {
        let runnable = Arc::clone(&self.0);
        async move { Ok(runnable) }.boxed()
    }
}

struct Gate(Functions);

impl Tools for Gate {
    fn admit(&self, who: Who<'_>, agent: &str) -> Decision {
        self.0.admit(who, agent)
    }

    fn may_approve(&self, by: Who<'_>, _: &str, _: &str) -> Decision {
        let by = by.principal;
        if by == "user:boss" { Decision::allow("the boss may") } else { Decision::deny("only the boss may") }
    }

    fn authorize(&self, asked: &Asked<'_>) -> Decision {
        match asked.approved_by {
            None => Decision::ask("ask-first", "it needs a yes"),
            Some(_) => self.0.authorize(asked),
        }
    }

    fn execute(&self, permit: Permit) -> BoxFuture<'static, Result<Done, NoResult>> {
        self.0.execute(permit)
    }
}

/// One write of one line: it is there or it is not.
async fn mark(ledger: PathBuf, permit: Permit) -> Result<Done, Failed> {
    let started = permit.into_started();
    let line = format!("{}\n", started.call);
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(ledger).unwrap();
    file.write_all(line.as_bytes()).unwrap();
    Ok(Done::text("marked"))
}

/// A process on a data directory.
async fn start(directory: &Path, options: Options) -> (Engine, Arc<SqliteJournal>) {
    let blobs = Arc::new(DirBlobs::open(directory.join("blobs")).unwrap());
    let place = weir_journal_sqlite::Options {
        path: directory.join("journal.db"),
        blobs: Arc::clone(&blobs) as _,
        vfs: None,
    };
    let journal = Arc::new(SqliteJournal::open(place).await.unwrap());
    let setup = Setup {
        journal: Arc::clone(&journal) as _,
        blobs,
        agents: Arc::new(Careful::new(directory.join("ledger"))),
        owners: Arc::new(LockFiles::register(&directory.join("owners")).unwrap()),
        seal: SnapshotSeal::open(&directory.join("key")).unwrap(),
        options,
    };
    (Engine::start(setup).await.unwrap(), journal)
}

/// Tells the test something, in one write.
fn say(line: &str) {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(format!("{MARK}{line}\n").as_bytes()).unwrap();
    stdout.flush().unwrap();
}

/// Begins all sessions, waits until they have left memory, tells how large the process is, and waits to be killed.
async fn seed(directory: &Path) {
    let options = Options { idle_after: Duration::from_millis(1), ..Options::default() };
    let (engine, _) = start(directory, options).await;
    let begin = |_| async {
        let address = engine.new_address();
        engine.begin(&address, new("careful"), said("do it")).await.unwrap();
        assert_eq!(engine.settle(&address).await.unwrap().stop, StopReason::Approval);
    };
    futures_util::stream::iter(0..SESSIONS).for_each_concurrent(32, begin).await;
    while engine.active() > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    say(&format!("waiting {}", resident()));
    std::future::pending::<()>().await;
}

/// Serves until it is killed, and tells whenever it has grown.
async fn serve(directory: &Path) {
    // As long as usual would what is adopted stay, if it did.
    let options = Options { adopt: Adopt::All, adopt_max: ADOPT_MAX, ..Options::default() };
    let (_engine, _) = start(directory, options).await;
    say("ready");
    let mut most = 0;
    loop {
        let now = resident();
        if now > most {
            most = now;
            say(&format!("grown {now}"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Another process, seen from the test. It is killed when it is dropped.
struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    fn start(role: &str, directory: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", TEST, "--nocapture"]).env(ROLE, role).env(DIRECTORY, directory);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if let Some(said) = line.strip_prefix(MARK) {
                    let _ = sender.send(said.to_owned());
                }
            }
        });
        Self { child, lines }
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(SILENCE_MAX).expect("a child process says something in time")
    }

    /// `kill -9`; the most memory it had said to use.
    fn kill(mut self) -> u64 {
        self.child.kill().unwrap();
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), None, "it was to be killed, and had ended before");
        let grown = self.lines.iter().filter_map(|line| line.strip_prefix("grown ")?.parse().ok());
        grown.max().unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serving(directory: &Path) -> Process {
    let server = Process::start("serve", directory);
    assert_eq!(server.line(), "ready");
    server
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ten_thousand_sessions_wait_for_is_decided_through_kills() {
    if let (Ok(role), Some(directory)) = (std::env::var(ROLE), std::env::var_os(DIRECTORY)) {
        println!();
        match role.as_str() {
            "seed" => seed(directory.as_ref()).await,
            _ => serve(directory.as_ref()).await,
        }
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let seeding = Process::start("seed", directory);
    let waiting: u64 = seeding.line().strip_prefix("waiting ").unwrap().parse().unwrap();
    assert!(waiting <= WAITING_MAX, "{waiting} bytes while they wait");
    seeding.kill();

    let (engine, journal) = start(directory, Options::default()).await;
    let asked = everything_asked(&engine).await;
    assert_eq!(asked.len(), SESSIONS);
    let grown = decide(&engine, &journal, &asked, directory).await;
    assert!(grown <= DECIDING_MAX, "{grown} bytes while they were decided");
    let cut_off = check(&*journal, &asked, &directory.join("ledger")).await;
    println!("waiting: {} KB; deciding: {} KB; {cut_off} were cut off", waiting >> 10, grown >> 10);
}

async fn everything_asked(engine: &Engine) -> Vec<Approval> {
    let (mut asked, mut after) = (Vec::new(), None);
    loop {
        let page = engine.all_approvals(None, after, weir_journal::PAGE_MAX).await.unwrap();
        assert!(page.damaged.is_empty(), "{:?}", page.damaged);
        asked.extend(page.approvals);
        match page.next {
            Some(next) => after = Some(next),
            None => return asked,
        }
    }
}

/// Every third call is denied.
fn is_denied(index: usize) -> bool {
    index.is_multiple_of(3)
}

/// Decides about all of them while servers come and go, and waits until nothing is left to do. The most memory of any server.
async fn decide(engine: &Engine, journal: &SqliteJournal, asked: &[Approval], directory: &Path) -> u64 {
    let server = Mutex::new(Some(serving(directory)));
    let (grown, decided) = (Mutex::new(0), AtomicUsize::new(0));
    let one = |(index, approval): (usize, &Approval)| {
        let (engine, approval) = (engine.clone(), approval.clone());
        let (server, grown, decided) = (&server, &grown, &decided);
        async move {
            match is_denied(index) {
                true => engine.deny(&approval.address, no(&approval, "user:boss", "no")).await.unwrap(),
                false => engine
                    .approve(&approval.address, yes(&approval, "user:boss"), Pretence::Allowed)
                    .await
                    .unwrap(),
            };
            let count = decided.fetch_add(1, Ordering::SeqCst) + 1;
            if KILLED_AT.iter().any(|(killed, _)| *killed == count) {
                let killed = server.lock().unwrap().take().map(Process::kill).unwrap_or_default();
                let mut grown = grown.lock().unwrap();
                *grown = killed.max(*grown);
            }
            if KILLED_AT.iter().any(|(_, started)| *started == count) {
                *server.lock().unwrap() = Some(serving(directory));
            }
        }
    };
    futures_util::stream::iter(asked.iter().enumerate())
        .map(one)
        .buffer_unordered(16)
        .collect::<Vec<_>>()
        .await;
    settled(journal).await;
    let last = server.into_inner().unwrap().map(Process::kill).unwrap_or_default();
    last.max(grown.into_inner().unwrap())
}

/// Waits until no session runs or waits.
async fn settled(journal: &SqliteJournal) {
    let began = Instant::now();
    loop {
        let mut left = 0;
        for status in [Status::Running, Status::Waiting] {
            let filter = ListFilter { status: Some(status), ..ListFilter::default() };
            left += journal.list(filter, None, 10).await.unwrap().len();
        }
        if left == 0 {
            return;
        }
        assert!(began.elapsed() < SILENCE_MAX, "some are never finished");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What became of a call.
#[derive(Debug, Default)]
struct Became {
    started: usize,
    completed: usize,
    unknown: usize,
    denied: usize,
    finished: usize,
}

async fn check(journal: &dyn Journal, asked: &[Approval], ledger: &Path) -> usize {
    let mut marks: BTreeMap<String, usize> = BTreeMap::new();
    for line in std::fs::read_to_string(ledger).unwrap().lines() {
        *marks.entry(line.to_owned()).or_default() += 1;
    }
    let mut cut_off = 0;
    for (index, approval) in asked.iter().enumerate() {
        let became = became(journal, &approval.address).await;
        let marked = marks.remove(&approval.id.to_string()).unwrap_or_default();
        assert_eq!(became.finished, 1, "{approval:?}: {became:?}");
        if is_denied(index) {
            assert_eq!((became.started, became.denied, marked), (0, 1, 0), "{approval:?}: {became:?}");
            continue;
        }
        assert_eq!((became.started, became.denied), (1, 0), "{approval:?}: {became:?}");
        assert_eq!(became.completed + became.unknown, 1, "{approval:?}: {became:?}");
        // Where a kill cut it off, nobody knows.
        assert!(
            marked == 1 || became.unknown == 1 && marked == 0,
            "{marked} marks of {approval:?}: {became:?}"
        );
        cut_off += became.unknown;
    }
    assert!(marks.is_empty(), "marks of calls that nobody made: {marks:?}");
    assert!(cut_off <= KILLED_AT.len() * ADOPT_MAX, "{cut_off} calls were cut off");
    cut_off
}

async fn became(journal: &dyn Journal, address: &Address) -> Became {
    let mut became = Became::default();
    for event in journal.read(&address.branch_id(), Seq(0), 1_000).await.unwrap() {
        match Body::decode(&event.kind, &event.payload).unwrap() {
            Some(Body::ToolStarted(_)) => became.started += 1,
            Some(Body::ToolCompleted(_)) => became.completed += 1,
            Some(Body::ToolFailed(failed)) => match failed.outcome {
                CallOutcome::Unknown => became.unknown += 1,
                CallOutcome::Denied => became.denied += 1,
                CallOutcome::Failed | CallOutcome::Interrupted => panic!("{failed:?}"),
            },
            Some(Body::RunFinished(_)) => became.finished += 1,
            _ => {}
        }
    }
    became
}
