//! Calls of one tool through the only door, in a world with nothing else in it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use weir_journal::Appended;
use weir_tools::net::Net;
use weir_tools::{
    Agents, Done, Edit, Failed, FileInfo, Files, FilesError, Kind, Level, Live, Memory, MemoryError,
    NoResult, Note, Offer, Permit, Remembered, Results, ServerCall, Servers, Setup, Started, Toolbox, Trace,
    World,
};
use weir_types::{BranchName, CallId, Effect, Hash, Json, Position, Risk, Seq, SessionId, ToolDefinition};

use crate::grants::Grants;
use crate::support::failure;

/// Who calls, and with what.
pub(crate) struct Caller {
    pub(crate) net: Net,
    pub(crate) hosts: Vec<String>,
    pub(crate) deadline: Duration,
    /// How much processor time a script may use.
    pub(crate) cpu: Option<Duration>,
    pub(crate) cancelled: CancellationToken,
}

impl Default for Caller {
    fn default() -> Self {
        Self {
            net: Net::default(),
            hosts: Vec::new(),
            deadline: Duration::from_secs(60),
            cpu: None,
            cancelled: CancellationToken::new(),
        }
    }
}

impl Caller {
    /// One that may reach these hosts.
    pub(crate) fn reaching(hosts: &[&str]) -> Self {
        Self { hosts: hosts.iter().map(|host| (*host).to_owned()).collect(), ..Self::default() }
    }

    /// With this much time.
    pub(crate) fn within(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Calls a tool of this kind.
    pub(crate) async fn call(&self, kind: Kind, input: &Value) -> Result<Done, Failed> {
        let permit = Permit::new(&acknowledged(), self.started(input));
        self.toolbox(kind).execute(permit).await.map_err(failure)
    }

    fn toolbox(&self, kind: Kind) -> Toolbox {
        let setup = Setup {
            gate: Arc::new(Grants::default()),
            live: Live::Everything,
            for_real: Default::default(),
            servers: Arc::new(Nothing),
            redact: Arc::new(weir_tools::NoSecrets),
            sandbox: Arc::default(),
            net: self.net.clone(),
            deadline: self.deadline,
        };
        let offer = Offer {
            definition: ToolDefinition {
                name: "it".to_owned(),
                description: String::new(),
                schema: Json::empty_object(),
            },
            source: "it".to_owned(),
            kind,
            access: Level::Write,
            effect: Effect::Write,
            risk: Risk::High,
            hosts: self.hosts.clone(),
            timeout: None,
            cpu: self.cpu,
        };
        Toolbox::new(setup, [offer])
    }

    fn started(&self, input: &Value) -> Started {
        let nothing = Arc::new(Nothing);
        Started {
            call: CallId::from_u128(1),
            session: SessionId::from_u128(2),
            branch: BranchName::main(),
            principal: "user:test".to_owned(),
            groups: Vec::new(),
            tool: "it".to_owned(),
            input: Json::of(input),
            key: "key-of-the-call".to_owned(),
            attempt: 3,
            stub: false,
            child: None,
            cancelled: self.cancelled.clone(),
            world: World {
                files: Arc::clone(&nothing) as _,
                memory: Arc::clone(&nothing) as _,
                results: Arc::clone(&nothing) as _,
                agents: nothing,
            },
        }
    }
}

fn acknowledged() -> Appended {
    Appended { first: Seq(1), last: Seq(1), position: Position(1), replayed: false }
}

/// Everything that these calls have no business with.
struct Nothing;

fn nothing<T: Send + 'static, E: Send + 'static>(error: E) -> BoxFuture<'static, Result<T, E>> {
    Box::pin(std::future::ready(Err(error)))
}

impl Files for Nothing {
    fn list(&self) -> BoxFuture<'_, Result<Arc<[FileInfo]>, FilesError>> {
        nothing(FilesError::Unavailable("none here".to_owned()))
    }

    fn read<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<bytes::Bytes, FilesError>> {
        nothing(FilesError::Missing(path.to_owned()))
    }

    fn turn(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn edit(&self) -> BoxFuture<'_, Result<Box<dyn Edit>, FilesError>> {
        nothing(FilesError::Unavailable("none here".to_owned()))
    }
}

impl Memory for Nothing {
    fn store(&self, _note: Note) -> BoxFuture<'_, Result<Trace, MemoryError>> {
        nothing(MemoryError("none here".to_owned()))
    }

    fn notes(&self) -> BoxFuture<'_, Result<Arc<[Remembered]>, MemoryError>> {
        nothing(MemoryError("none here".to_owned()))
    }
}

impl Results for Nothing {
    fn whole(&self, _hash: Hash) -> BoxFuture<'_, Result<Option<bytes::Bytes>, String>> {
        nothing("none here".to_owned())
    }
}

impl Agents for Nothing {
    fn attend(&self, _child: SessionId) -> BoxFuture<'static, Result<Done, NoResult>> {
        nothing(Failed::new("child", "none here").into())
    }
}

impl Servers for Nothing {
    fn call(&self, _call: ServerCall) -> BoxFuture<'static, Result<Done, Failed>> {
        nothing(Failed::new("server", "none here"))
    }
}
