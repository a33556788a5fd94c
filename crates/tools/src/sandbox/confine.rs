//! What a thread gives up before it starts a command. All of it is per thread and inherited by what the thread starts.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use super::filter::{self, Lacking, Network};
use super::plan::Support;
use super::walls::{Files, Walls};

/// The newest interface of Landlock whose rights were looked at here.
const NEWEST: ABI = ABI::V9;

/// The oldest that will do: before it, files elsewhere can be truncated.
const OLDEST: ABI = ABI::V3;

/// Programs, libraries, and what they read: no secrets there, or anybody could read them.
const SYSTEM: &[&str] =
    &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"];

/// The files of `/etc` without which programs do not run, or not as one knows them. Not the rest of it: there are passwords.
const SETTINGS: &[&str] = &[
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/ca-certificates",
    "/etc/debian_version",
    "/etc/fonts",
    "/etc/group",
    "/etc/inputrc",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/perl",
    "/etc/pki/tls/certs",
    "/etc/profile",
    "/etc/protocols",
    "/etc/services",
    "/etc/shells",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/terminfo",
    "/etc/timezone",
];

/// What else is read by programs that have a network: how names are looked up, and whom to trust.
const NETWORK_SETTINGS: &[&str] = &[
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/cert.pem",
    "/etc/resolv.conf",
    "/etc/ssl/cert.pem",
];

/// Devices that are the same for everybody. No terminal.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Whether Landlock is there at all, and whether it keeps signals in.
pub(super) fn signals_scoped() -> Result<bool, String> {
    let needed = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(OLDEST))
        .and_then(Ruleset::create);
    needed.map_err(|error| format!("the kernel's Landlock is missing, switched off or too old ({error})"))?;
    let scoped = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .scope(Scope::Signal)
        .and_then(Ruleset::create);
    Ok(scoped.is_ok())
}

/// Confines the calling thread.
///
/// # Errors
/// In words, when the kernel does not do all of what `support` says and everything else that is needed. The thread may be partly confined
/// then: it must not start anything.
pub(super) fn confine(walls: &Walls, support: Support) -> Result<(), String> {
    set_no_new_privs(true).map_err(|error| format!("`no_new_privs` cannot be set ({error})"))?;
    drop_capabilities().map_err(|error| format!("capabilities cannot be dropped ({error})"))?;
    let restricted = ruleset(walls).and_then(RulesetCreated::restrict_self);
    let restricted = restricted.map_err(|error| format!("Landlock refuses its rules ({error})"))?;
    // What of the newer rights the kernel does not know was decided on before; where it is about files, it must only not be nothing.
    let has_rules = restricted.ruleset != RulesetStatus::NotEnforced || walls.files.is_none();
    if !has_rules || !restricted.no_new_privs {
        return Err("Landlock is not enforced".to_owned());
    }
    let lacking = Lacking {
        signal_scope: !support.signals_scoped,
        read_only_rest: !support.rest_read_only && walls.files.is_some(),
        is_root: rustix::process::geteuid().is_root(),
    };
    let network = if walls.network { Network::Open } else { Network::Closed };
    let programs = filter::programs(lacking, network)
        .map_err(|error| format!("the seccomp filter is wrong ({error})"))?;
    for program in &programs {
        seccompiler::apply_filter(program)
            .map_err(|error| format!("seccomp refuses its filter ({error})"))?;
    }
    Ok(())
}

/// Root keeps its name and loses its powers: with `no_new_privs`, a program it starts gets no more than it has.
fn drop_capabilities() -> rustix::io::Result<()> {
    for capability in CapabilitySet::all().iter() {
        // Only root may, and only root needs it.
        let _ = remove_capability_from_bounding_set(capability);
    }
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

fn ruleset(walls: &Walls) -> Result<RulesetCreated, RulesetError> {
    let mut rules = Ruleset::default();
    if walls.files.is_some() {
        rules = rules.handle_access(AccessFs::from_all(NEWEST))?;
    }
    if !walls.network {
        rules = rules.handle_access(AccessNet::from_all(NEWEST))?;
    }
    let rules = rules.scope(Scope::AbstractUnixSocket)?.scope(Scope::Signal)?.create()?;
    match &walls.files {
        Some(files) => allow_files(rules, files, walls.network),
        None => Ok(rules),
    }
}

fn allow_files(
    mut rules: RulesetCreated,
    files: &Files,
    network: bool,
) -> Result<RulesetCreated, RulesetError> {
    let read = AccessFs::from_read(NEWEST);
    let settings = SETTINGS.iter().chain(NETWORK_SETTINGS.iter().filter(|_| network));
    let readable =
        SYSTEM.iter().chain(settings).map(Path::new).chain(files.readable.iter().map(PathBuf::as_path));
    // A link is as good as what it leads to.
    let hidden: Vec<PathBuf> =
        files.hidden.iter().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone())).collect();
    for path in readable {
        rules = allow_but(rules, path, &hidden, read)?;
    }
    for path in &files.own {
        // It may well be at home. What is hidden in it is none of its code.
        let Ok(real) = path.canonicalize() else { continue };
        let within: Vec<PathBuf> =
            hidden.iter().filter(|hidden| hidden.starts_with(&real)).cloned().collect();
        rules = allow_but(rules, path, &within, read)?;
    }
    for path in &files.listed {
        rules = allow(rules, path, AccessFs::ReadDir.into())?;
    }
    for path in DEVICES {
        rules = allow(rules, path, AccessFs::ReadFile | AccessFs::WriteFile)?;
    }
    let never = AccessFs::MakeChar
        | AccessFs::MakeBlock
        | AccessFs::MakeSock
        | AccessFs::IoctlDev
        | AccessFs::ResolveUnix;
    for path in &files.writable {
        rules = allow(rules, path, AccessFs::from_all(NEWEST) & !never)?;
    }
    Ok(rules)
}

/// Allows all below a path but what is hidden. Rules only ever add, so on the way to what is hidden each neighbour gets one of its
/// own.
fn allow_but(
    mut rules: RulesetCreated,
    path: &Path,
    hidden: &[PathBuf],
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let Ok(real) = path.canonicalize() else { return Ok(rules) };
    if hidden.iter().any(|hidden| real.starts_with(hidden)) {
        return Ok(rules);
    }
    if !hidden.iter().any(|hidden| hidden.starts_with(&real)) {
        return allow(rules, path, access);
    }
    for entry in std::fs::read_dir(&real).into_iter().flatten().filter_map(Result::ok) {
        // A link has no content, and what it leads to has its own rule or none.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            rules = allow_but(rules, &entry.path(), hidden, access)?;
        }
    }
    Ok(rules)
}

/// What is not there needs no rule.
fn allow(
    rules: RulesetCreated,
    path: impl AsRef<Path>,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let path = path.as_ref();
    let Ok(opened) = PathFd::new(path) else { return Ok(rules) };
    let is_directory = std::fs::metadata(path).is_ok_and(|found| found.is_dir());
    let access = if is_directory { access } else { access & AccessFs::from_file(NEWEST) };
    rules.add_rule(PathBeneath::new(opened, access))
}
