//! A session in memory, and the way a call takes through the toolbox.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;
use weir_blobs::{Blobs, MemoryBlobs};
use weir_journal::{Appended, Journal, MemoryJournal, NewEvent, Part, mint_call, mint_session};
use weir_tools::{
    Agents, Builtin, Done, Edit, Failed, FileInfo, Files, FilesError, Gate, Kind, Level, Live, Memory,
    MemoryError, Net, NoResult, Note, Offer, Permit, Remembered, Results, Sandbox, ServerCall, Servers,
    Setup, Started, Toolbox, Trace, World,
};
use weir_types::{BranchId, BranchName, Effect, Hash, Json, Risk, SessionId, Timestamp, ToolDefinition};

use crate::grants::Grants;

type Contents = BTreeMap<String, Bytes>;

/// Files in memory. Whoever edits holds the lock, and puts back what it changed when it is finished.
#[derive(Default)]
pub(crate) struct MemoryFiles {
    contents: Arc<Mutex<Contents>>,
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl MemoryFiles {
    pub(crate) fn put(&self, path: &str, content: impl Into<Bytes>) {
        self.contents.lock().unwrap().insert(path.to_owned(), content.into());
    }

    pub(crate) fn text(&self, path: &str) -> String {
        String::from_utf8(self.contents.lock().unwrap()[path].to_vec()).unwrap()
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

fn content(contents: &Contents, path: &str) -> Result<Bytes, FilesError> {
    contents.get(path).cloned().ok_or_else(|| FilesError::Missing(path.to_owned()))
}

impl Files for MemoryFiles {
    fn list(&self) -> BoxFuture<'_, Result<Arc<[FileInfo]>, FilesError>> {
        let listed = infos(&self.contents.lock().unwrap());
        Box::pin(async { Ok(listed) })
    }

    fn read<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Bytes, FilesError>> {
        Box::pin(async move { content(&self.contents.lock().unwrap(), path) })
    }

    fn turn(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { drop(self.turn.lock().await) })
    }

    fn edit(&self) -> BoxFuture<'_, Result<Box<dyn Edit>, FilesError>> {
        Box::pin(async {
            let turn = Arc::clone(&self.turn).lock_owned().await;
            let now = self.contents.lock().unwrap().clone();
            let shared = Arc::clone(&self.contents);
            Ok(Box::new(MemoryEdit { now, shared, written: Vec::new(), _turn: turn }) as Box<dyn Edit>)
        })
    }
}

struct MemoryEdit {
    now: Contents,
    shared: Arc<Mutex<Contents>>,
    written: Vec<Trace>,
    _turn: OwnedMutexGuard<()>,
}

impl Edit for MemoryEdit {
    fn list(&self) -> Arc<[FileInfo]> {
        infos(&self.now)
    }

    fn read<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<Bytes, FilesError>> {
        Box::pin(async move { content(&self.now, path) })
    }

    fn write<'a>(&'a mut self, path: &'a str, content: Bytes) -> BoxFuture<'a, Result<(), FilesError>> {
        Box::pin(async move {
            if path.is_empty() || path.contains('\0') {
                return Err(FilesError::Path(format!("`{}` cannot be a file", path.escape_debug())));
            }
            let (hash, size) = (Hash::of(&content), content.len() as u64);
            self.now.insert(path.to_owned(), content);
            self.written.push(Trace::FileWritten { path: path.to_owned(), hash, mode: 0o644, size });
            Ok(())
        })
    }

    fn checkout<'a>(&'a mut self, _directory: &'a Path) -> BoxFuture<'a, Result<(), FilesError>> {
        Box::pin(async { Err(FilesError::Unavailable("not in these tests".into())) })
    }

    fn take_in<'a>(&'a mut self, _directory: &'a Path) -> BoxFuture<'a, Result<Vec<String>, FilesError>> {
        Box::pin(async { Err(FilesError::Unavailable("not in these tests".into())) })
    }

    fn finish(self: Box<Self>) -> Vec<Trace> {
        *self.shared.lock().unwrap() = self.now;
        self.written
    }
}

/// Notes in memory, at the microsecond of their number.
#[derive(Default)]
pub(crate) struct MemoryNotes(Mutex<Vec<Remembered>>);

impl Memory for MemoryNotes {
    fn store(&self, note: Note) -> BoxFuture<'_, Result<Trace, MemoryError>> {
        Box::pin(async move {
            let mut notes = self.0.lock().unwrap();
            let at = Timestamp::from_micros(notes.len() as i64).unwrap();
            notes.retain(|known| known.note.doc != note.doc);
            notes.insert(0, Remembered { note: note.clone(), at });
            let Note { doc, title, tags, text } = note;
            Ok(Trace::MemoryStored { doc, title, tags, hash: Hash::of(text.as_bytes()) })
        })
    }

    fn notes(&self) -> BoxFuture<'_, Result<Arc<[Remembered]>, MemoryError>> {
        let notes = self.0.lock().unwrap().clone().into();
        Box::pin(async { Ok(notes) })
    }
}

/// The results in a store of blobs, all of them.
pub(crate) struct BlobResults(Arc<dyn Blobs>);

impl Results for BlobResults {
    fn whole(&self, hash: Hash) -> BoxFuture<'_, Result<Option<Bytes>, String>> {
        Box::pin(async move { Ok(self.0.get_bytes(hash, u64::MAX).await.ok()) })
    }
}

/// A server that remembers who called it, and answers what it is told to.
#[derive(Default)]
pub(crate) struct FakeServers {
    pub(crate) called: Mutex<Vec<ServerCall>>,
    pub(crate) answer: Mutex<Answer>,
}

/// What a server does.
#[derive(Clone, Default)]
pub(crate) enum Answer {
    #[default]
    Nothing,
    Text(String),
    Never,
    Fail(Failed),
}

impl Servers for FakeServers {
    fn call(&self, call: ServerCall) -> BoxFuture<'static, Result<Done, Failed>> {
        self.called.lock().unwrap().push(call);
        let answer = self.answer.lock().unwrap().clone();
        Box::pin(async move {
            match answer {
                Answer::Nothing => Ok(Done::default()),
                Answer::Text(text) => Ok(Done::text(text)),
                Answer::Never => std::future::pending().await,
                Answer::Fail(failed) => Err(failed),
            }
        })
    }
}

struct NoAgents;

impl Agents for NoAgents {
    fn attend(&self, child: SessionId) -> BoxFuture<'static, Result<Done, NoResult>> {
        Box::pin(async move { Ok(Done::text(format!("child {child}"))) })
    }
}

/// The failure of a call that does not wait for anybody.
pub(crate) fn failure(no_result: NoResult) -> Failed {
    match no_result {
        NoResult::Failed(failed) => failed,
        NoResult::WaitsForApproval => panic!("no call here waits for approval"),
    }
}

/// A session with everything in memory.
pub(crate) struct Session {
    pub(crate) files: Arc<MemoryFiles>,
    pub(crate) notes: Arc<MemoryNotes>,
    pub(crate) servers: Arc<FakeServers>,
    pub(crate) blobs: Arc<dyn Blobs>,
    pub(crate) journal: MemoryJournal,
}

pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

impl Session {
    pub(crate) fn new() -> Self {
        let blobs: Arc<dyn Blobs> = Arc::new(MemoryBlobs::new());
        Self {
            files: Arc::default(),
            notes: Arc::default(),
            servers: Arc::default(),
            journal: MemoryJournal::new(Arc::clone(&blobs)),
            blobs,
        }
    }

    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let session = Self::new();
        for (path, content) in files {
            session.files.put(path, (*content).to_owned());
        }
        session
    }

    pub(crate) fn world(&self) -> World {
        World {
            files: Arc::clone(&self.files) as Arc<dyn Files>,
            memory: Arc::clone(&self.notes) as Arc<dyn Memory>,
            results: Arc::new(BlobResults(Arc::clone(&self.blobs))),
            agents: Arc::new(NoAgents),
        }
    }

    pub(crate) fn toolbox(
        &self,
        grants: Grants,
        live: Live,
        offers: impl IntoIterator<Item = Offer>,
    ) -> Toolbox {
        self.guarded(Arc::new(grants), live, offers)
    }

    /// The same behind another gate.
    pub(crate) fn guarded(
        &self,
        gate: Arc<dyn Gate>,
        live: Live,
        offers: impl IntoIterator<Item = Offer>,
    ) -> Toolbox {
        let setup = Setup {
            gate,
            live,
            for_real: Default::default(),
            servers: Arc::clone(&self.servers) as Arc<dyn Servers>,
            redact: Arc::new(weir_tools::NoSecrets),
            sandbox: Arc::new(Sandbox::default()),
            net: Net::default(),
            deadline: DEADLINE,
        };
        Toolbox::new(setup, offers)
    }

    /// A journal's word that something was appended.
    pub(crate) async fn acknowledged(&self) -> Appended {
        let event = NewEvent::new("tool.started".parse().unwrap(), "{}");
        let branch = BranchId::main(mint_session().to_string().parse().unwrap());
        self.journal.append(vec![Part::new(branch, vec![event])]).await.unwrap()[0]
    }

    /// Leave to run a call, from an append that a journal has acknowledged.
    pub(crate) async fn permit(&self, tool: &str, input: &str, stub: bool) -> Permit {
        let (session, appended) = (mint_session(), self.acknowledged().await);
        let started = Started {
            call: mint_call(),
            session,
            branch: BranchName::main(),
            principal: "user:ada".to_owned(),
            groups: Vec::new(),
            tool: tool.to_owned(),
            input: Json::parse(input).unwrap(),
            key: "key".to_owned(),
            attempt: 1,
            stub,
            child: None,
            cancelled: CancellationToken::new(),
            world: self.world(),
        };
        Permit::new(&appended, started)
    }

    /// Runs a tool that comes with the program.
    pub(crate) async fn call(&self, tool: &str, input: serde_json::Value) -> Result<Done, Failed> {
        let toolbox = self.toolbox(Grants::default(), Live::Nothing, Builtin::ALL.map(builtin));
        toolbox.execute(self.permit(tool, &input.to_string(), false).await).await.map_err(failure)
    }

    /// What it says, whether it works or not.
    pub(crate) async fn words(&self, tool: &str, input: serde_json::Value) -> String {
        match self.call(tool, input).await {
            Ok(done) => done.words(),
            Err(failed) => format!("error ({}): {}", failed.class, failed.message),
        }
    }
}

/// A tool of the program, as an agent has it.
pub(crate) fn builtin(builtin: Builtin) -> Offer {
    let reads = matches!(
        builtin,
        Builtin::FsRead
            | Builtin::FsList
            | Builtin::FsGlob
            | Builtin::FsSearch
            | Builtin::MemorySearch
            | Builtin::MemoryRelated
            | Builtin::GetTime
            | Builtin::ResultRead
    );
    Offer {
        definition: builtin.definition(),
        source: builtin.name().split('_').next().unwrap().to_owned(),
        kind: Kind::Builtin(builtin),
        access: Level::Write,
        effect: if reads { Effect::Read } else { Effect::Write },
        risk: Risk::Low,
        hosts: Vec::new(),
        timeout: None,
        cpu: None,
    }
}

/// A tool of a server, as an agent has it.
pub(crate) fn remote(name: &str, effect: Effect) -> Offer {
    let schema = r#"{"type":"object","properties":{"to":{"type":"string"}},"required":["to"]}"#;
    Offer {
        definition: ToolDefinition {
            name: name.to_owned(),
            description: "Does it.".to_owned(),
            schema: Json::parse(schema).unwrap(),
        },
        source: "mcp://mail.example.com".to_owned(),
        kind: Kind::Server { remote_name: format!("remote-{name}") },
        access: Level::Write,
        effect,
        risk: if effect == Effect::Read { Risk::Low } else { Risk::High },
        hosts: Vec::new(),
        timeout: None,
        cpu: None,
    }
}

/// Another agent, as an agent has it.
pub(crate) fn agent(name: &str) -> Offer {
    Offer {
        kind: Kind::Agent(name.to_owned()),
        source: format!("weir://{name}"),
        ..remote(name, Effect::Write)
    }
}
