//! A disk that is full when the result of a live write is to be stored. The server at the other end counts the writes.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::outside::{Canary, Project, script, tool};
use crate::running::{DEADLINE, Running, eventually_or};
use crate::weir::Ran;

/// A small file system of memory in a mount namespace of its own, for as long as it is held. Root has such namespaces for the
/// asking; other users have them inside a user namespace.
struct SmallDisk {
    holder: Child,
    directory: tempfile::TempDir,
}

impl SmallDisk {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let namespace: &[&str] = if rustix::process::geteuid().is_root() { &["-m"] } else { &["-Urm"] };
        let script = r#"mount -t tmpfs -o size=3m none "$0"; : > "$0/mounted"; exec sleep 600"#;
        let mut command = Command::new("unshare");
        command.args(namespace).args(["sh", "-euc", script]).arg(directory.path()).stdin(Stdio::null());
        let holder = command.spawn().expect("`unshare` of util-linux is needed");
        let disk = Self { holder, directory };
        eventually_or(
            || disk.path("mounted").exists().then_some(()),
            || "the disk is not mounted".to_owned(),
        );
        disk
    }

    /// A file of it, seen from outside of the namespace.
    fn path(&self, name: &str) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(self.directory.path().strip_prefix("/").unwrap()).join(name)
    }

    /// Takes all the room there is.
    fn fill(&self) {
        let mut filler = std::fs::File::create(self.path("filler")).unwrap();
        let error = std::io::copy(&mut std::io::repeat(0), &mut filler).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    }

    fn free(&self) {
        std::fs::remove_file(self.path("filler")).unwrap();
    }

    /// A command of a project whose data is on this disk.
    fn command(&self, project: &Project, args: &[&str]) -> Command {
        let plain = project.command(args);
        let mut command = Command::new("nsenter");
        let user: &[&str] =
            if rustix::process::geteuid().is_root() { &[] } else { &["-U", "--preserve-credentials"] };
        command.args(["-t", &self.holder.id().to_string(), "-m"]).args(user);
        command.arg(format!("--wdns={}", project.weir.path().display()));
        command.arg(plain.get_program()).args(plain.get_args());
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env("WEIR_DATA_DIR", self.directory.path().join("data")).stdin(Stdio::null());
        command
    }

    fn run(&self, project: &Project, args: &[&str]) -> Ran {
        Ran::from(self.command(project, args).output().unwrap())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// A command that makes one live write, with the disk full when its result comes.
struct Writing {
    project: Project,
    canary: Canary,
    disk: SmallDisk,
    running: Running,
    stderr: PathBuf,
}

impl Writing {
    /// The command is one of [`COMMANDS`], with this tool.
    fn start(name: &str, args: &[&str]) -> Self {
        let canary = Canary::with_tools(&[tool(name)]);
        let project = Project::new();
        let spec = format!("tools:\n  - {{ server: \"{}\", access: write }}\n", canary.server(""));
        project.agent("busy", &spec, &script(&[("^go", json!([{"tool": name, "input": {"to": "ada"}}]))]));
        let disk = SmallDisk::new();
        let built = disk.run(&project, &["build", "--yes"]);
        assert_eq!(built.code, 0, "{built}");

        canary.hold(true);
        let stderr = project.weir.path().join("stderr");
        let plain = disk.command(&project, args);
        let mut command = Command::new("sh");
        command.args(["-c", r#"exec 2> "$0"; exec "$@""#]).arg(&stderr);
        command.arg(plain.get_program()).args(plain.get_args());
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let running = Running::start(command.stdin(Stdio::null()));
        canary.await_touches(1);
        disk.fill();
        canary.hold(false);
        let writing = Self { project, canary, disk, running, stderr };
        writing.await_words("cannot be stored");
        writing
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    fn await_words(&self, words: &str) {
        eventually_or(|| self.said().contains(words).then_some(()), || self.said());
    }
}

/// Commands that call `send`.
const COMMANDS: [&[&str]; 2] = [
    &["chat", "busy", "-m", "go", "--live-writes"],
    &["tools", "call", "busy", "send", r#"{"to":"ada"}"#, "--live-writes"],
];

/// A result of `send_report` is stored in a blob, because it is too long to be shown.
#[test]
fn a_long_result_waits_for_room_too() {
    for args in COMMANDS {
        let args: Vec<&str> =
            args.iter().map(|arg| if *arg == "send" { "send_report" } else { arg }).collect();
        let Writing { project, canary, disk, running, stderr } = Writing::start("send_report", &args);
        disk.free();
        let ran = running.wait(DEADLINE);
        let said = std::fs::read_to_string(stderr).unwrap();
        assert_eq!(ran.code, 0, "{args:?}: {said}");
        assert_eq!(canary.touched(), ["send_report"], "{args:?}");
        let events = disk.run(&project, &["cat", "--stream", "-1"]);
        assert!(events.stdout.contains("tool.completed"), "{args:?}: {said}\n{events}");
        assert!(!events.stdout.contains("tool.failed"), "{args:?}: {said}\n{events}");
        let verified = disk.run(&project, &["verify"]);
        assert_eq!(verified.code, 0, "{verified}");
    }
}

#[test]
fn a_command_waits_for_room_and_then_stores_the_result() {
    for args in COMMANDS {
        let Writing { project, canary, disk, running, stderr } = Writing::start("send", args);
        disk.free();
        let ran = running.wait(DEADLINE);
        let said = std::fs::read_to_string(stderr).unwrap();
        assert_eq!(ran.code, 0, "{args:?}: {said}");
        assert!(said.contains("everything is stored now"), "{args:?}: {said}");
        assert_eq!(canary.touched(), ["send"], "{args:?}");
        let verified = disk.run(&project, &["verify"]);
        assert_eq!(verified.code, 0, "{verified}");
    }
}

#[test]
fn a_command_that_is_stopped_says_what_ran_and_doing_as_it_says_repeats_nothing() {
    for args in COMMANDS {
        let Writing { project, canary, disk, running, stderr } = Writing::start("send", args);
        let ran = running.interrupt();
        let said = std::fs::read_to_string(stderr).unwrap();
        assert_eq!(ran.code, 1, "{args:?}: {said}");
        let error = said.split("error:").nth(1).unwrap_or_else(|| panic!("{args:?}: {said}"));
        assert!(error.contains(r#"`send` ran with {"to":"ada"}"#), "{args:?}: {said}");
        assert!(!error.contains("repeat"), "{args:?}: {said}");
        assert!(!error.contains("nothing was changed"), "{args:?}: {said}");
        let resume = error.split("`weir ").nth(1).and_then(|rest| rest.split('`').next()).unwrap().to_owned();

        disk.free();
        let resume: Vec<&str> = resume.split(' ').chain(["--live-writes"]).collect();
        assert_eq!(resume[..2], ["session", "resume"], "{said}");
        let resumed = disk.run(&project, &resume);
        assert_eq!(canary.touched(), ["send"], "{args:?}: {resumed}");
        let history = disk.run(&project, &["session", "history", "-1"]);
        assert!(history.stdout.contains("unknown"), "{args:?}: {resumed}\n{history}");
    }
}

/// The status and the body of a GET.
fn get(port: &str, path: &str) -> (String, String) {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let status = text.split(' ').nth(1).unwrap_or_default().to_owned();
    (status, text)
}

#[test]
fn a_server_is_not_ready_while_nothing_can_be_stored() {
    let (project, disk) = (Project::new(), SmallDisk::new());
    let stderr = project.weir.path().join("stderr");
    let plain = disk.command(&project, &["serve", "--port", "0", "--json"]);
    let mut command = Command::new("sh");
    command.args(["-c", r#"exec 2> "$0"; exec "$@""#]).arg(&stderr);
    command.arg(plain.get_program()).args(plain.get_args());
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let server = Running::start(command.stdin(Stdio::null()));
    let said = || std::fs::read_to_string(&stderr).unwrap_or_default();
    let port = || Some(said().split("http://127.0.0.1:").nth(1)?.split('"').next()?.to_owned());
    let port = eventually_or(port, said);

    let until = |status: &str| {
        let look = || Some(get(&port, "/ready")).filter(|(found, _)| found == status).map(|(_, text)| text);
        eventually_or(look, || format!("never {status}: {}", said()))
    };
    until("200");
    disk.fill();
    let told = until("503");
    assert!(told.contains("nothing can be stored: the disk is full"), "{told}");
    assert!(!told.contains("journal.db"), "where it is stored is for operators: {told}");
    assert_eq!(get(&port, "/health").0, "200", "the process lives");
    disk.free();
    until("200");
    server.interrupt();
}
