//! The `bash` tool as an agent has it: files in, a command, files out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio_util::sync::CancellationToken;
use weir_journal::Appended;
use weir_tools::{
    Agents, Builtin, Decision, Done, Edit, Enforcement, Failed, FileInfo, Files, FilesError, Gate, Kind,
    Level, Live, Memory, MemoryError, Net, NoResult, Note, Offer, Permit, Remembered, Request, Results,
    ServerCall, Servers, Setup, Started, Toolbox, Trace, World,
};
use weir_types::{BranchName, CallId, Effect, Hash, Json, Outcome, Position, Risk, Seq, SessionId};

use super::{Canary, DEADLINE, Lab, SECRET, is_running, marker, until};

type Contents = BTreeMap<String, Bytes>;

/// Files in memory, as simple as they can be.
#[derive(Clone, Default)]
struct InMemory(Arc<Mutex<Contents>>);

struct Turn {
    shared: OwnedMutexGuard<Contents>,
    now: Contents,
}

impl Files for InMemory {
    fn list(&self) -> BoxFuture<'_, Result<Arc<[FileInfo]>, FilesError>> {
        async { Ok(infos(&*self.0.lock().await)) }.boxed()
    }

    fn read<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Bytes, FilesError>> {
        async { self.0.lock().await.get(path).cloned().ok_or_else(|| FilesError::Missing(path.to_owned())) }
            .boxed()
    }

    fn turn(&self) -> BoxFuture<'_, ()> {
        async { drop(self.0.lock().await) }.boxed()
    }

    fn edit(&self) -> BoxFuture<'_, Result<Box<dyn Edit>, FilesError>> {
        async {
            let shared = Arc::clone(&self.0).lock_owned().await;
            let turn: Box<dyn Edit> = Box::new(Turn { now: shared.clone(), shared });
            Ok(turn)
        }
        .boxed()
    }
}

impl Edit for Turn {
    fn list(&self) -> Arc<[FileInfo]> {
        infos(&self.now)
    }

    fn read<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Bytes, FilesError>> {
        async { self.now.get(path).cloned().ok_or_else(|| FilesError::Missing(path.to_owned())) }.boxed()
    }

    fn write<'a>(&'a mut self, path: &'a str, content: Bytes) -> BoxFuture<'a, Result<(), FilesError>> {
        self.now.insert(path.to_owned(), content);
        async { Ok(()) }.boxed()
    }

    fn checkout<'a>(&'a mut self, directory: &'a Path) -> BoxFuture<'a, Result<(), FilesError>> {
        for (path, content) in &self.now {
            let path = directory.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        async { Ok(()) }.boxed()
    }

    fn take_in<'a>(&'a mut self, directory: &'a Path) -> BoxFuture<'a, Result<Vec<String>, FilesError>> {
        let (mut left_out, mut now, mut open) = (Vec::new(), Contents::new(), vec![PathBuf::new()]);
        while let Some(inner) = open.pop() {
            for entry in std::fs::read_dir(directory.join(&inner)).unwrap().map(Result::unwrap) {
                let path = inner.join(entry.file_name());
                let shown = path.to_str().unwrap().to_owned();
                match entry.file_type().unwrap() {
                    kind if kind.is_dir() => open.push(path),
                    kind if kind.is_file() => {
                        now.insert(shown, std::fs::read(entry.path()).unwrap().into());
                    }
                    _ => left_out.push(format!("`{shown}` is not a file")),
                }
            }
        }
        self.now = now;
        async { Ok(left_out) }.boxed()
    }

    fn finish(mut self: Box<Self>) -> Vec<Trace> {
        let old = std::mem::replace(&mut *self.shared, self.now.clone());
        let written = self.now.iter().filter(|(path, content)| old.get(*path) != Some(content)).map(
            |(path, content)| {
                let (hash, size) = (Hash::of(content), content.len() as u64);
                Trace::FileWritten { path: path.clone(), hash, mode: 0o644, size }
            },
        );
        let deleted = old.keys().filter(|path| !self.now.contains_key(*path));
        written.chain(deleted.map(|path| Trace::FileDeleted { path: path.clone() })).collect()
    }
}

fn infos(contents: &Contents) -> Arc<[FileInfo]> {
    let info = |(path, content): (&String, &Bytes)| FileInfo {
        path: path.clone(),
        size: content.len() as u64,
        executable: false,
    };
    contents.iter().map(info).collect()
}

/// What `bash` needs none of.
struct Nothing;

impl Memory for Nothing {
    fn store(&self, _: Note) -> BoxFuture<'_, Result<Trace, MemoryError>> {
        async { Err(MemoryError(String::new())) }.boxed()
    }

    fn notes(&self) -> BoxFuture<'_, Result<Arc<[Remembered]>, MemoryError>> {
        async { Err(MemoryError(String::new())) }.boxed()
    }
}

/// What is executed here was allowed elsewhere.
impl Gate for Nothing {
    fn decide(&self, _: &Request<'_>) -> Decision {
        Decision::deny("nobody is asked")
    }
}

impl Results for Nothing {
    fn whole(&self, _: Hash) -> BoxFuture<'_, Result<Option<Bytes>, String>> {
        async { Ok(None) }.boxed()
    }
}

impl Agents for Nothing {
    fn attend(&self, _: SessionId) -> BoxFuture<'static, Result<Done, NoResult>> {
        async { Err(Failed::new("none", "").into()) }.boxed()
    }
}

impl Servers for Nothing {
    fn call(&self, _: ServerCall) -> BoxFuture<'static, Result<Done, Failed>> {
        async { Err(Failed::new("none", "")) }.boxed()
    }
}

/// A session that has files and the tool.
struct Session {
    lab: Lab,
    files: InMemory,
    toolbox: Toolbox,
    cancelled: CancellationToken,
}

impl Session {
    async fn with(files: &[(&str, &str)]) -> Self {
        Self::of(Lab::confined(), files).await
    }

    async fn of(lab: Lab, files: &[(&str, &str)]) -> Self {
        let memory = InMemory::default();
        for (path, content) in files {
            memory.0.lock().await.insert((*path).to_owned(), content.to_string().into());
        }
        let setup = Setup {
            gate: Arc::new(Nothing),
            live: Live::Nothing,
            for_real: Default::default(),
            servers: Arc::new(Nothing),
            redact: Arc::new(weir_tools::NoSecrets),
            sandbox: Arc::new(lab.sandbox.clone()),
            net: Net::default(),
            deadline: DEADLINE,
        };
        let offer = Offer {
            definition: Builtin::Bash.definition(),
            source: "bash".to_owned(),
            kind: Kind::Builtin(Builtin::Bash),
            access: Level::Write,
            effect: Effect::Write,
            risk: Risk::Medium,
            hosts: Vec::new(),
            timeout: None,
            cpu: None,
        };
        let toolbox = Toolbox::new(setup, [offer]);
        Self { lab, files: memory, toolbox, cancelled: CancellationToken::new() }
    }

    async fn call(&self, input: serde_json::Value) -> Result<Done, Failed> {
        let nothing = Arc::new(Nothing);
        let world = World {
            files: Arc::new(self.files.clone()),
            memory: nothing.clone(),
            results: nothing.clone(),
            agents: nothing,
        };
        let started = Started {
            call: CallId::from_u128(1),
            session: SessionId::from_u128(2),
            branch: BranchName::main(),
            principal: "user:ada".to_owned(),
            groups: Vec::new(),
            tool: "bash".to_owned(),
            input: Json::of(&input),
            key: "key".to_owned(),
            attempt: 1,
            stub: false,
            child: None,
            cancelled: self.cancelled.clone(),
            world,
        };
        let appended = Appended { first: Seq(1), last: Seq(1), position: Position(1), replayed: false };
        let answer = self.toolbox.execute(Permit::new(&appended, started)).await;
        if !self.cancelled.is_cancelled() {
            assert_eq!(self.lab.rooms_left(), 0, "a room was left behind");
        }
        answer.map_err(|no_result| match no_result {
            NoResult::Failed(failed) => failed,
            NoResult::WaitsForApproval => panic!("no call here waits for approval"),
        })
    }

    async fn bash(&self, command: &str) -> Done {
        self.call(json!({"command": command})).await.unwrap()
    }

    async fn contents(&self) -> Vec<(String, String)> {
        let files = self.files.0.lock().await;
        files
            .iter()
            .map(|(path, content)| (path.clone(), String::from_utf8_lossy(content).into_owned()))
            .collect()
    }
}

fn owned(files: &[(&str, &str)]) -> Vec<(String, String)> {
    files.iter().map(|(path, content)| ((*path).to_owned(), (*content).to_owned())).collect()
}

#[tokio::test]
async fn a_command_sees_the_files_and_what_it_does_to_them_is_kept() {
    let session = Session::with(&[("a.txt", "one\n"), ("src/b.txt", "two\n"), ("gone", "x")]).await;
    let done = session
        .bash("cat a.txt src/b.txt; echo three > src/c.txt; rm gone; echo more >> a.txt; ls /nowhere")
        .await;
    let words = done.words();
    assert!(words.starts_with("exit status 2\n--- stdout\none\ntwo\n--- stderr\nls: "), "{words}");
    let written = |path: &str, content: &str| Trace::FileWritten {
        path: path.to_owned(),
        hash: Hash::of(content.as_bytes()),
        mode: 0o644,
        size: content.len() as u64,
    };
    assert_eq!(
        done.traces,
        [
            written("a.txt", "one\nmore\n"),
            written("src/c.txt", "three\n"),
            Trace::FileDeleted { path: "gone".to_owned() }
        ]
    );
    let expected = [("a.txt", "one\nmore\n"), ("src/b.txt", "two\n"), ("src/c.txt", "three\n")];
    assert_eq!(session.contents().await, owned(&expected));
    assert_eq!(session.bash("true").await.words(), "exit status 0, no output");
    assert_eq!(session.bash("cat src/c.txt").await.words(), "exit status 0\n--- stdout\nthree");
    // What is at home is gone with the command.
    session.bash("echo x > ~/left; echo x > $TMPDIR/left").await;
    assert_eq!(session.bash("ls ~ $TMPDIR | grep left").await.words(), "exit status 1, no output");
}

#[tokio::test]
async fn what_cannot_be_kept_is_named() {
    let session = Session::with(&[]).await;
    let words = session.bash("ln -s /etc/passwd link; mkfifo pipe; echo x > file").await.words();
    assert!(words.starts_with("exit status 0, no output\n[not kept: "), "{words}");
    assert!(words.contains("`link` is not a file") && words.contains("`pipe` is not a file"), "{words}");
    assert_eq!(session.contents().await, owned(&[("file", "x\n")]));
}

#[tokio::test]
async fn what_is_killed_changes_nothing() {
    let session = Session::with(&[("kept", "x")]).await;
    let failed = session
        .call(
            json!({"command": "rm kept; echo y > new; echo said; trap '' TERM; sleep 1000", "timeout_s": 1}),
        )
        .await
        .unwrap_err();
    assert_eq!((&*failed.class, failed.outcome), ("timeout", Outcome::Failed));
    assert!(
        failed.message.contains("it took longer than 1 s. Nothing that it changed was kept."),
        "{failed:?}"
    );
    assert!(failed.message.contains("--- stdout\nsaid"), "{failed:?}");
    let limits = weir_tools::Limits { tasks: 50, ..Default::default() };
    let bombed = Session::of(Lab::with_limits(limits), &[("kept", "x")]).await;
    let failed = bombed
        .call(json!({"command": "rm kept; for i in $(seq 2000); do sleep 30 & done; wait"}))
        .await
        .unwrap_err();
    assert_eq!(&*failed.class, "limit", "{failed:?}");
    for session in [session, bombed] {
        assert_eq!(session.contents().await, owned(&[("kept", "x")]));
        assert_eq!(session.bash("echo fine").await.words(), "exit status 0\n--- stdout\nfine");
    }
}

#[tokio::test]
async fn a_cancelled_call_changes_nothing_and_leaves_nothing() {
    let session = Session::with(&[("kept", "x")]).await;
    let marker = marker();
    let cancelling = async {
        while !is_running(&format!("sleep\0{marker}")) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        session.cancelled.cancel();
    };
    let command = format!("rm kept; sleep {marker}");
    let (answer, ()) = tokio::join!(session.call(json!({"command": command})), cancelling);
    assert_eq!(answer.unwrap_err().class, "cancelled");
    assert!(!is_running(&marker));
    until("the room is gone", || session.lab.rooms_left() == 0);
    assert_eq!(session.contents().await, owned(&[("kept", "x")]));
}

#[tokio::test]
async fn attempts_through_the_tool_fail_like_all_others() {
    let session = Session::with(&[]).await;
    let canary = Canary::new();
    let command = format!(
        "cd {0}; cat secret; rm -rf {0}; echo x > {0}/new; ln -s {0}/secret ~/../files/link; chmod 0 secret; \
         echo x > /dev/tcp/127.0.0.1/1; cat {0}/secret",
        canary.path()
    );
    let words = session.bash(&command).await.words();
    assert!(!words.contains(SECRET) && words.contains("Permission denied"), "{words}");
    assert!(canary.is_untouched());
    assert_eq!(session.contents().await, []);
}

#[tokio::test]
async fn long_output_can_be_read_on_and_odd_input_is_refused() {
    let session = Session::with(&[]).await;
    let done = session.bash("seq 100000").await;
    assert!(done.whole.is_some() && done.words().contains("read on with result_read"), "{}", done.words());
    let odd = [json!({"command": "x".repeat(200_000)}), json!({"command": "echo \0"})];
    for input in odd {
        assert_eq!(session.call(input).await.unwrap_err().class, "invalid");
    }
    let words = session.bash("printf '\\377\\000ok'").await.words();
    assert!(words.contains("\u{fffd}\0ok"), "{words:?}");
}

#[tokio::test]
async fn without_a_launcher_the_model_is_told_and_nothing_is_lost() {
    let lab = Lab::launched_by(vec!["/nowhere/weir".into()], Enforcement::Required, Default::default());
    let session = Session::of(lab, &[("kept", "x")]).await;
    let failed = session.call(json!({"command": "rm kept"})).await.unwrap_err();
    assert_eq!((&*failed.class, failed.outcome), ("sandbox", Outcome::Failed));
    assert_eq!(session.contents().await, owned(&[("kept", "x")]));
}
