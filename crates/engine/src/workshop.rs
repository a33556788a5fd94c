//! What every agent's tools are made with: one network, one sandbox, one set of connections for the whole process, and who
//! holds every grant in it.

use std::sync::Arc;
use std::time::Duration;

use weir_mcp::Connections;
use weir_secrets::{Places, Redactor};
use weir_spec::manifest::{self, Manifest};
use weir_tools::{CallsForReal, Gate, Live, Net, Redact, Sandbox, Setup, Toolbox};
use weir_types::Block;

use crate::credentials::{CredentialFile, Credentials};
use crate::provision;
use crate::servers::{AgentServers, MayStart, Means};

/// What every agent's tools are made with.
#[derive(Clone)]
pub struct Workshop {
    /// Who holds every role and grant: the owner of the data directory.
    pub admins: Vec<String>,
    /// Which writes really happen.
    pub live: Live,
    /// Calls that really happen whatever that says.
    pub for_real: CallsForReal,
    /// What confines children.
    pub sandbox: Arc<Sandbox>,
    /// The network, as far as tools may reach it.
    pub net: Net,
    /// How long one call may take, unless its entry says otherwise.
    pub deadline: Duration,
    /// Connections to MCP servers.
    pub connections: Connections,
    /// Which programs may be started for a project.
    pub may_start: Arc<dyn MayStart>,
    /// The credentials that were stored on this machine.
    pub credentials: CredentialFile,
    /// Where references to secrets are looked up: the environment, and the project.
    pub places: Places,
    /// Every secret that was looked up.
    pub redactor: Redactor,
}

/// The tools of an agent: as the kernel wants them, and behind their gate.
pub struct Equipped {
    /// As the kernel wants them.
    pub tools: Vec<weir_kernel::Tool>,
    /// Behind their gate.
    pub toolbox: Arc<Toolbox>,
}

impl Workshop {
    /// Equips an agent of a manifest.
    pub fn equip(&self, manifest: &Manifest, agent: &manifest::Agent) -> Equipped {
        self.equip_behind(manifest, agent, provision::gate(manifest, self.admins.iter().cloned()))
    }

    /// The same behind a gate that was made of this manifest before: a long policy takes a while to read.
    pub fn equip_behind(
        &self,
        manifest: &Manifest,
        agent: &manifest::Agent,
        gate: Arc<dyn Gate>,
    ) -> Equipped {
        let offers = provision::offers(manifest, agent);
        let tools = provision::tools(agent, &offers);
        let setup = Setup {
            servers: Arc::new(self.servers(manifest, agent, Arc::clone(&gate))),
            gate,
            live: self.live.clone(),
            for_real: self.for_real.clone(),
            redact: Arc::new(Redacting(self.redactor.clone())),
            sandbox: Arc::clone(&self.sandbox),
            net: self.net.clone(),
            deadline: self.deadline,
        };
        Equipped { tools, toolbox: Arc::new(Toolbox::new(setup, offers)) }
    }

    fn servers(&self, manifest: &Manifest, agent: &manifest::Agent, gate: Arc<dyn Gate>) -> AgentServers {
        let declared = manifest.credentials.clone();
        let (file, places, redactor) = (self.credentials.clone(), self.places.clone(), self.redactor.clone());
        let means = Means {
            connections: self.connections.clone(),
            credentials: Credentials::new(declared, file, places, redactor),
            may_start: Arc::clone(&self.may_start),
            sandbox: Arc::clone(&self.sandbox),
            gate,
        };
        AgentServers::new(manifest, agent, means)
    }
}

/// The redactor, as tools know it.
struct Redacting(Redactor);

impl Redact for Redacting {
    fn words(&self, words: String) -> String {
        self.0.redact(&words).into_owned()
    }

    fn blocks(&self, mut blocks: Vec<Block>) -> Vec<Block> {
        self.0.redact_blocks(&mut blocks);
        blocks
    }
}
