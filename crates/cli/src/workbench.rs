//! What the tools of this process are made with, and how the command line wants them to behave.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tracing::warn;
use weir_compiler::{Command, refusal};
use weir_engine::{CredentialFile, Equipped, HookMeans, MayStart, Program, Workshop, provision};
use weir_mcp::Connections;
use weir_secrets::{Places, Redactor};
use weir_spec::{Manifest, manifest};
use weir_tools::{CallsForReal, Enforcement, Gate, Live, Net, Sandbox};
use weir_types::SandboxProfile;

use crate::compiling::{approvals_file, variables};
use crate::identity::admins;
use crate::output::Out;
use crate::place::Found;
use crate::project::ProjectArgs;
use crate::show::{printable, shell};
use crate::store::blocking;

/// How alike a pattern and a name are that may have been meant with it, and how many of these are named.
const NEAR: f64 = 0.8;
const NEAR_MAX: usize = 3;

/// How tools behave, on the command line.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Tools")]
pub(crate) struct ToolArgs {
    /// Let calls that change things outside of the session really happen: all of them, or those whose tool or source
    /// matches PATTERN (`*` stands for anything). Without it they are stubbed, and the agent is told so.
    #[arg(
        long,
        value_name = "PATTERN",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "*",
        action = clap::ArgAction::Append
    )]
    live_writes: Vec<String>,
    /// DANGEROUS: run commands of agents without any confinement, with all that this user may do.
    #[arg(long)]
    unsafe_no_sandbox: bool,
}

impl ToolArgs {
    /// Which writes really happen.
    pub(crate) fn live(&self) -> Live {
        match &self.live_writes[..] {
            [] => Live::Nothing,
            patterns if patterns.iter().any(|pattern| pattern == "*") => Live::Everything,
            patterns => Live::Matching(patterns.to_vec()),
        }
    }

    /// Whether any write is to really happen.
    pub(crate) fn lets_writes_happen(&self) -> bool {
        !self.live_writes.is_empty()
    }

    /// Says which patterns of `--live-writes` match no tool of a build.
    pub(crate) fn warn_unmatched(&self, manifest: &Manifest, out: &Out) {
        for words in self.unmatched(manifest) {
            out.warn(format_args!("{}", printable(&words)));
        }
    }

    /// The same in the log of a server.
    pub(crate) fn log_unmatched(&self, manifest: &Manifest) {
        for words in self.unmatched(manifest) {
            warn!("{words}");
        }
    }

    /// A sentence for each pattern of `--live-writes` that matches no tool of a build.
    fn unmatched(&self, manifest: &Manifest) -> Vec<String> {
        let tools: Vec<_> = manifest.agents.values().flat_map(|agent| &agent.tools).collect();
        let matches = |pattern: &str| {
            let live = Live::Matching(vec![pattern.to_owned()]);
            tools.iter().any(|tool| live.covers(&tool.name, &tool.source))
        };
        let patterns = self.live_writes.iter().filter(|pattern| *pattern != "*" && !matches(pattern));
        let known: BTreeSet<&str> =
            tools.iter().flat_map(|tool| [tool.name.as_str(), tool.source.as_str()]).collect();
        let words = |pattern: &String| {
            let near = near(pattern, known.iter().copied());
            let near = match near.is_empty() {
                true => String::new(),
                false => format!("; did you mean {}?", near.join(" or ")),
            };
            format!(
                "`--live-writes={pattern}` matches no tool of the project{near}; `weir tools list AGENT` shows their names and \
                 sources"
            )
        };
        patterns.map(words).collect()
    }

    /// What has to be said again for another command to behave the same, with a space before it.
    pub(crate) fn again(&self, project: &ProjectArgs) -> String {
        let live = self.live_writes.iter().map(|pattern| match pattern.as_str() {
            "*" => " --live-writes".to_owned(),
            pattern => format!(" --live-writes={}", shell(pattern)),
        });
        let directory = project.directory.as_os_str();
        // What is found from here will be found again.
        let is_named = project.found == Found::Named && directory != ".";
        let project = is_named.then(|| format!(" --project {}", shell(&directory.to_string_lossy())));
        live.chain(project).collect()
    }
}

/// Names that somebody may have meant with a pattern, the nearest first, in backticks.
fn near<'k>(pattern: &str, known: impl Iterator<Item = &'k str>) -> Vec<String> {
    let wanted = pattern.replace('*', "").to_lowercase();
    let score = |name: &str| {
        let name = name.to_lowercase();
        let is_part = !wanted.is_empty() && (name.contains(&wanted) || wanted.contains(&name));
        if is_part { 1.0 } else { strsim::jaro_winkler(&name, &wanted) }
    };
    let mut near: Vec<(f64, &str)> = known.map(|name| (score(name), name)).collect();
    near.retain(|(score, _)| *score > NEAR);
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    near.into_iter().take(NEAR_MAX).map(|(_, name)| format!("`{name}`")).collect()
}

/// What tools are made with. Clones share their connections.
#[derive(Clone)]
pub(crate) struct Workbench {
    live: Live,
    /// Calls that really happen whatever that says.
    for_real: CallsForReal,
    /// Who holds every role and grant.
    admins: Vec<String>,
    /// The project; absolute, because a server may be started anywhere.
    directory: PathBuf,
    net: Net,
    sandbox: Arc<Sandbox>,
    connections: Connections,
    credentials: CredentialFile,
    redactor: Redactor,
}

impl Workbench {
    pub(crate) fn new(args: &ToolArgs, directory: &Path, data_dir: &Path) -> Self {
        let enforcement = if args.unsafe_no_sandbox { Enforcement::Off } else { Enforcement::Required };
        Self {
            live: args.live(),
            for_real: CallsForReal::default(),
            admins: admins(data_dir),
            directory: std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned()),
            net: Net::default(),
            sandbox: Arc::new(Sandbox::default().with_enforcement(enforcement).with_hidden(hidden(data_dir))),
            connections: Connections::new(),
            credentials: CredentialFile::within(data_dir),
            redactor: Redactor::default(),
        }
    }

    /// The tools of an agent.
    pub(crate) fn equip(&self, manifest: &Manifest, agent: &manifest::Agent) -> Equipped {
        self.workshop().equip(manifest, agent)
    }

    /// The same behind a gate that was made before.
    pub(crate) fn equip_behind(
        &self,
        manifest: &Manifest,
        agent: &manifest::Agent,
        gate: Arc<dyn Gate>,
    ) -> Equipped {
        self.workshop().equip_behind(manifest, agent, gate)
    }

    /// What decides about the calls of a build.
    pub(crate) fn gate(&self, manifest: &Manifest) -> Arc<dyn Gate> {
        provision::gate(manifest, self.admins.iter().cloned())
    }

    fn workshop(&self) -> Workshop {
        Workshop {
            admins: self.admins.clone(),
            live: self.live.clone(),
            for_real: self.for_real.clone(),
            sandbox: Arc::clone(&self.sandbox),
            net: self.net.clone(),
            deadline: weir_spec::TOOL_TIMEOUT,
            connections: self.connections.clone(),
            may_start: Arc::new(Approved { directory: self.directory.clone() }),
            credentials: self.credentials.clone(),
            places: Places { variables: variables(), directory: self.directory.clone() },
            redactor: self.redactor.clone(),
        }
    }

    /// Calls that really happen, whatever else is a dry run.
    pub(crate) fn for_real(&self) -> &CallsForReal {
        &self.for_real
    }

    /// What the hooks of the project are asked with.
    pub(crate) fn hook_means(&self) -> HookMeans {
        HookMeans {
            directory: self.directory.clone(),
            launcher: self.sandbox.supervised_prefix(SandboxProfile::Off),
            may_start: Arc::new(Approved { directory: self.directory.clone() }),
        }
    }

    /// Ends what was started for tools, servers and commands alike.
    pub(crate) async fn close(&self) {
        self.connections.close().await;
        self.sandbox.settled().await;
    }
}

/// What no command of an agent reads, wherever it is: the journal with its credentials, and whatever this user has at home.
pub(crate) fn hidden(data_dir: &Path) -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    // Everything is below the root; whoever lives there has no home to hide.
    let home = home.filter(|home| home.parent().is_some());
    let data_dir = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_owned());
    home.into_iter().chain([data_dir]).collect()
}

/// What this user has approved on this machine with `weir build`.
struct Approved {
    directory: PathBuf,
}

impl MayStart for Approved {
    fn refusal<'a>(&'a self, program: Program<'a>) -> BoxFuture<'a, Option<String>> {
        let command = Command {
            server: program.server.to_owned(),
            directory: self.directory.clone(),
            argv: program.argv.to_vec(),
            env: program.env.clone(),
            sandbox: program.sandbox,
        };
        async move {
            let looked_up = blocking(move || refusal(&command, approvals_file().as_deref())).await;
            looked_up.unwrap_or_else(|_| Some("looking for its approval broke off".to_owned()))
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_near_a_pattern_are_those_that_hold_it_or_differ_little() {
        let known = ["bash", "notify", "tools/notify", "mcp://mail", "send_mail"];
        let near = |pattern| near(pattern, known.into_iter());
        assert_eq!(near("notfy"), ["`notify`"]);
        assert_eq!(near("tools/notfy"), ["`tools/notify`"]);
        assert_eq!(near("MAIL*"), ["`mcp://mail`", "`send_mail`"]);
        assert_eq!(near("refund"), [""; 0]);
    }
}
