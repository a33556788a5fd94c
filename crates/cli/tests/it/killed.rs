//! An agent's process, killed with `kill -9` at different moments of a turn, and taken up by another.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::weir::Weir;

/// A session of the demo's agent, whose tools leave their marks in a ledger.
struct Desk {
    weir: Weir,
    session: String,
}

/// How long a process may take to get anywhere.
const PATIENCE: Duration = Duration::from_secs(60);

impl Desk {
    fn new() -> Self {
        Self { weir: Weir::new(), session: weir_journal::mint().to_string() }
    }

    fn command(&self, say: Option<&str>) -> Command {
        let mut command = self.weir.command();
        command.args(["demo-desk", "--session", &self.session, "--ledger", "ledger"]);
        command.args(say.map(|say| ["--say", say]).into_iter().flatten());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn stream(&self) -> String {
        format!("session:{}", self.session)
    }

    fn events(&self) -> usize {
        let ran = self.weir.run(&["count", "--stream", &self.stream()]);
        ran.stdout.trim().parse().unwrap_or(0)
    }

    /// Kills the process as soon as so many events are durable; false, if it ended before.
    fn kill_at(&self, events: usize) -> bool {
        let mut child = self.command(Some("Take the blue one.")).spawn().unwrap();
        let began = Instant::now();
        while self.events() < events && child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < PATIENCE, "{} events after a minute", self.events());
        }
        let killed = child.try_wait().unwrap().is_none();
        child.kill().unwrap();
        child.wait().unwrap();
        killed
    }

    /// How often the ledger names a tool.
    fn done(&self, tool: &str) -> usize {
        let ledger = std::fs::read_to_string(self.weir.path().join("ledger")).unwrap_or_default();
        ledger.lines().filter(|line| line.starts_with(tool)).count()
    }
}

#[test]
fn a_process_killed_at_any_moment_of_a_turn_loses_and_repeats_nothing() {
    // In the first commit, while the model speaks, while the tools are at work, and before and at the end.
    let moments = [1, 6, 10, 13, 14, 17];
    let mut killed = 0;
    std::thread::scope(|scope| {
        let tries = moments.map(|events| scope.spawn(move || survive(events)));
        killed = tries.into_iter().map(|one| usize::from(one.join().unwrap())).sum();
    });
    assert!(killed >= 4, "only {killed} processes were killed in time");
}

fn survive(events: usize) -> bool {
    let desk = Desk::new();
    let killed = desk.kill_at(events);
    // Once more in the middle of whatever it does next; a third time in the same iteration would park the run.
    if desk.events() > 0 {
        let mut child = desk.command(None).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(100));
        let _ = child.kill();
        child.wait().unwrap();
    }
    let say = (desk.events() == 0).then_some("Take the blue one.");
    let status = desk.command(say).status().unwrap();
    assert!(status.success(), "killed at {events}: it did not recover");
    let shown = desk.weir.json(&["session", "state", &desk.session]);
    assert_eq!(desk.done("reserve_room"), 1, "killed at {events}: {shown}");
    assert!(desk.done("send_invitations") <= 1, "killed at {events}: {shown}");
    let history = desk.weir.ok(&["session", "history", &desk.session]);
    assert!(history.contains("The blue room is booked"), "killed at {events}: {history}");
    let unknown = history.contains("outcome unknown");
    assert!(unknown || desk.done("send_invitations") == 1, "killed at {events}: {history}");
    desk.weir.ok(&["verify"]);
    killed
}
