//! How to build, and who is told about it meanwhile.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use weir_types::{SandboxProfile, Secret};

/// What a build may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Looks only: nothing is started or fetched, nothing is meant to be written.
    Check,
    /// Nothing is started or fetched; weir.lock says what is elsewhere.
    Offline,
    /// Servers are asked and skills fetched, and held against weir.lock.
    Online,
}

/// How to build.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the build may do.
    pub mode: Mode,
    /// Whether what is found elsewhere now is accepted, whatever weir.lock says.
    pub update_lock: bool,
    /// How long each server has; by default as long as its kind needs.
    pub timeout: Option<Duration>,
    /// Where this user's approvals are kept; without it every command is asked about each time.
    pub approvals: Option<PathBuf>,
    /// The variables from which `env:NAME` is looked up. Servers see only those that the project declares for them.
    pub environment: BTreeMap<String, String>,
    /// What servers that are reached are told about who builds; nothing, if nobody knows.
    pub credentials: Option<Arc<dyn Credentials>>,
    /// What starts programs that are to be confined. Without it, those are not started.
    pub launch: Option<Arc<dyn Launch>>,
}

impl Options {
    /// As strict as can be: nothing but looking.
    pub fn check() -> Self {
        let (mode, environment) = (Mode::Check, BTreeMap::new());
        Self {
            mode,
            update_lock: false,
            timeout: None,
            approvals: None,
            environment,
            credentials: None,
            launch: None,
        }
    }
}

/// What this user has stored on this machine for servers.
///
/// INVARIANT: what a project itself declares is no part of it. A project that was just cloned could name any file or variable,
/// and any server to send it to.
pub trait Credentials: fmt::Debug + Send + Sync {
    /// The header for a server, as specs name it; nothing, if nothing is stored for it. The error is in words.
    fn header<'a>(&'a self, server: &'a str) -> BoxFuture<'a, Result<Option<(String, Secret)>, String>>;
}

/// What starts programs that are to be confined.
pub trait Launch: fmt::Debug + Send + Sync {
    /// What goes in front of the words of a program. It fails as a program fails when this machine cannot do what the profile asks for.
    fn prefix(&self, profile: SandboxProfile) -> Vec<String>;
}

/// What a build is doing, for whoever waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'e> {
    /// A server is asked for its tools.
    Asking {
        /// Its address.
        server: &'e str,
    },
    /// It has answered, or it never will.
    Answered {
        /// Its address.
        server: &'e str,
        /// How many tools it has; `None` when it failed.
        tools: Option<usize>,
    },
    /// A skill is fetched.
    Fetching {
        /// As agents list it.
        skill: &'e str,
    },
}

/// Somebody who is told what a build is doing.
pub trait Progress: Send + Sync {
    /// Something begins or has ended. Called from several tasks; must not block.
    fn on(&self, event: Event<'_>);
}

/// Nobody wants to know.
impl Progress for () {
    fn on(&self, _event: Event<'_>) {}
}
