//! A project with one tool of each kind, made, compiled and equipped as `weir` does it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use weir_blobs::{Blobs, MemoryBlobs};
use weir_compiler::{Approve, Command, Mode, Options, compile, refusal};
use weir_engine::{CredentialFile, Equipped, MayStart, Program, Workshop};
use weir_journal::{Appended, Journal, MemoryJournal, NewEvent, Part, mint_call, mint_session};
use weir_mcp::Connections;
use weir_secrets::{Places, Redactor};
use weir_tools::{Asked, Done, Live, Net, Permit, SUBCOMMAND, Sandbox, Started, Toolbox, World};
use weir_types::{BranchId, BranchName, Catalog, Json, SessionId, Verdict};

use crate::files;
use weir_bench::Error;

/// The agent that has all the tools, and whoever talks to it.
pub(crate) const AGENT: &str = "bench";
pub(crate) const PRINCIPAL: &str = "user:bench";

/// How many functions the library has that the larger script imports: a hundred kilobytes of them.
const LIBRARY_FUNCTIONS: usize = 500;

/// The project, and its tools behind their gate.
pub(crate) struct Project {
    pub(crate) directory: PathBuf,
    pub(crate) equipped: Equipped,
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) blobs: Arc<dyn Blobs>,
    connections: Connections,
    world: World,
    session: SessionId,
    branch: BranchName,
    /// The journal's word that a call has started. One stands for all: what the journal takes is measured elsewhere.
    started: Appended,
}

impl Project {
    pub(crate) async fn make(data: &Path, weir: &Path) -> Result<Self, Error> {
        let directory = data.canonicalize()?.join(format!("tools-{}", std::process::id()));
        write(&directory)?;
        Self::open(directory, weir).await
    }

    /// Builds and equips what was written before.
    pub(crate) async fn open(directory: PathBuf, weir: &Path) -> Result<Self, Error> {
        let approvals = directory.join("state/approved.json");
        let options = Options { mode: Mode::Online, approvals: Some(approvals.clone()), ..Options::check() };
        let compiled = compile(&directory, &Catalog::builtin()?, &options, &Everything, &()).await;
        if let Some(problem) = compiled.diagnostics.iter().find(|problem| problem.is_error()) {
            return Err(problem.to_string().into());
        }
        let manifest = compiled.built.ok_or("nothing was built")?.manifest;
        let agent = manifest.agents.get(AGENT).ok_or("the agent is missing")?;
        let launcher: Vec<OsString> = vec![weir.into(), SUBCOMMAND.into()];
        let sandbox = Arc::new(Sandbox::new(launcher));
        let (blobs, connections): (Arc<dyn Blobs>, _) = (Arc::new(MemoryBlobs::new()), Connections::new());
        let workshop = Workshop {
            admins: vec![PRINCIPAL.to_owned()],
            live: Live::Everything,
            for_real: Default::default(),
            sandbox: Arc::clone(&sandbox),
            net: Net::default(),
            deadline: weir_spec::TOOL_TIMEOUT,
            connections: connections.clone(),
            may_start: Arc::new(Approved { directory: directory.clone(), approvals }),
            credentials: CredentialFile::within(&directory),
            places: Places { variables: BTreeMap::new(), directory: directory.clone() },
            redactor: Redactor::default(),
        };
        let equipped = workshop.equip(&manifest, agent);
        let (session, world) = (mint_session(), files::nothing(Arc::clone(&blobs)));
        let branch = BranchId::main(session.to_string().parse()?);
        let event = NewEvent::new("tool.started".parse()?, "{}");
        let journal = MemoryJournal::new(Arc::clone(&blobs));
        let appended = journal.append(vec![Part::new(branch.clone(), vec![event])]).await?;
        let started = appended.into_iter().next().ok_or("the journal acknowledged nothing")?;
        let branch = branch.branch;
        Ok(Self { directory, equipped, sandbox, blobs, connections, world, session, branch, started })
    }

    pub(crate) fn toolbox(&self) -> &Toolbox {
        &self.equipped.toolbox
    }

    /// A call as the engine makes it, but for the journal: it is decided on, started and run.
    pub(crate) async fn call(&self, tool: &str, input: &Json) -> Result<Done, Error> {
        let call = mint_call();
        let asked = Asked {
            call,
            tool,
            input,
            session: self.session,
            depth: 0,
            agent: AGENT,
            principal: PRINCIPAL,
            groups: &[],
            approved_by: None,
        };
        let decision = self.toolbox().authorize(&asked);
        if decision.verdict != Verdict::Allow {
            return Err(format!("`{tool}` may not be called: {}", decision.because).into());
        }
        let started = Started {
            call,
            session: self.session,
            branch: self.branch.clone(),
            principal: PRINCIPAL.to_owned(),
            groups: Vec::new(),
            tool: tool.to_owned(),
            input: input.clone(),
            key: call.to_string(),
            attempt: 1,
            stub: decision.stub,
            child: None,
            cancelled: CancellationToken::new(),
            world: self.world.clone(),
        };
        let done = self.toolbox().execute(Permit::new(&self.started, started)).await;
        done.map_err(|failed| format!("`{tool}` failed ({}): {}", failed.class, failed.message).into())
    }

    /// Ends what was started for it, and removes it.
    pub(crate) async fn remove(self) -> Result<(), Error> {
        self.connections.close().await;
        self.sandbox.settled().await;
        fs::remove_dir_all(&self.directory)?;
        Ok(())
    }
}

/// Whatever the project starts, we wrote.
struct Everything;

impl Approve for Everything {
    fn approve<'a>(&'a self, _command: &'a Command) -> BoxFuture<'a, bool> {
        async { true }.boxed()
    }
}

/// What was approved when it was built: looked up before every call, as `weir` does.
struct Approved {
    directory: PathBuf,
    approvals: PathBuf,
}

impl MayStart for Approved {
    fn refusal<'a>(&'a self, program: Program<'a>) -> BoxFuture<'a, Option<String>> {
        let (server, directory) = (program.server.to_owned(), self.directory.clone());
        let command = Command { server, directory, argv: program.argv.to_vec(), env: program.env.clone() };
        let approvals = self.approvals.clone();
        async move {
            let looked_up = tokio::task::spawn_blocking(move || refusal(&command, Some(&approvals))).await;
            looked_up.unwrap_or_else(|_| Some("looking for its approval broke off".to_owned()))
        }
        .boxed()
    }
}

fn write(directory: &Path) -> Result<(), Error> {
    let home = directory.join("agents").join(AGENT);
    for directory in [&home, &directory.join("tools/lib"), &directory.join("servers")] {
        fs::create_dir_all(directory)?;
    }
    fs::write(directory.join("weir.yaml"), "project: bench\n")?;
    fs::write(
        home.join("spec.yaml"),
        format!(
            "name: {AGENT}\nmodel: offline/echo\ndescription: Calls tools.\ntools:\n  - name: get_time\n  - {{ name: fs }}\n  \
             - {{ name: edit, access: write }}\n  - {{ name: bash, access: write }}\n  - {{ name: memory, access: write }}\n  \
             - {{ name: tools/measure, access: write }}\n  - {{ name: tools/large, access: write }}\n  \
             - {{ server: mcp://./servers/stub.sh, access: write }}\n"
        ),
    )?;
    fs::write(directory.join("tools/measure.ts"), script("measure", ""))?;
    fs::write(
        directory.join("tools/large.ts"),
        script("large", "import { f0 } from './lib/library.ts';\nf0(1);\n"),
    )?;
    let function = |n: usize| {
        format!(
            "/** Folds part {n} of a list of numbers into one. */\nexport function f{n}(start: number, ...more: number[]): number {{\n  \
             let sum = start + {n};\n  for (const each of more) sum = (sum * 31 + each) % 65_521;\n  return sum;\n}}\n\n"
        )
    };
    let library: String = (0..LIBRARY_FUNCTIONS).map(function).collect();
    fs::write(directory.join("tools/lib/library.ts"), library)?;
    let server = directory.join("servers/stub.sh");
    let exe = std::env::current_exe()?;
    fs::write(&server, format!("#!/bin/sh\nexec '{}' --serve\n", exe.display()))?;
    fs::set_permissions(&server, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// A tool of a few lines, like most of them.
fn script(name: &str, imports: &str) -> String {
    format!(
        "import {{ defineTool }} from 'weir';\n{imports}\ninterface Input {{ part: string }}\n\n\
         function measure(text: string): number {{\n  let sum = 0;\n  for (const character of text) sum += character.charCodeAt(0);\n  \
         return sum % 997;\n}}\n\nexport default defineTool({{\n  name: '{name}',\n  description: 'Measures a part of the estate.',\n  \
         parameters: {{\n    part: {{ type: 'string', description: 'Which part' }},\n  }},\n  \
         execute: async ({{ part }}: Input) => ({{ part, size: measure(part) }}),\n}});\n"
    )
}
