//! Damage in one session, made in every way that a row can be wrong: it costs that session and no other, in every list, in exports
//! and in decisions.

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::kit::{Project, Server};

/// A row that belongs to one session, and what is done to it.
struct Damage {
    table: &'static str,
    /// Which of its rows, with `:branch` for the number of the session's branch.
    row: String,
    /// What it is set to; nothing, if the row is removed.
    set: Option<&'static str>,
}

impl Damage {
    fn name(&self) -> String {
        format!("{} WHERE {}: {}", self.table, self.row, self.set.unwrap_or("removed"))
    }
}

/// What can be wrong with an event: every field, too short or another one.
const EVENT: [Option<&str>; 14] = [
    Some("record = x'00'"),
    Some("record = zeroblob(40)"),
    Some("chain = zeroblob(32)"),
    Some("chain = x'00'"),
    Some("kind = 999999"),
    Some("kind = kind % 3 + 1"),
    Some("ts = ts + 1"),
    Some("ts = 9223372036854775807"),
    Some("id = randomblob(16)"),
    Some("id = x'00'"),
    Some("seq = seq + 1000"),
    Some("seq = -1"),
    Some("form = 99"),
    None,
];

const HEAD: [Option<&str>; 7] = [
    Some("seq = seq + 5"),
    Some("seq = -1"),
    Some("chain = x'00'"),
    Some("ts = 9223372036854775807"),
    Some("position = position + 1000"),
    Some("open = x'00'"),
    None,
];

const ATTRS: [Option<&str>; 6] = [
    Some("status = 'bogus'"),
    Some("status = CAST(x'ff' AS TEXT)"),
    Some("principal = CAST(x'ff' AS TEXT)"),
    Some("agent = CAST(x'ff' AS TEXT)"),
    Some("title = CAST(x'ff' AS TEXT)"),
    Some("due = 9223372036854775807"),
];

const BRANCH: [Option<&str>; 3] = [Some("name = '\n'"), Some("at = -1"), Some("chain = x'00'")];

/// Every damage of a session.
fn catalogue() -> Vec<Damage> {
    let mut all = Vec::new();
    for place in ["min(seq)", "(min(seq) + max(seq)) / 2", "max(seq)"] {
        let row = format!("branch = :branch AND seq = (SELECT {place} FROM events WHERE branch = :branch)");
        all.extend(EVENT.map(|set| Damage { table: "events", row: row.clone(), set }));
    }
    let of = |table, row: &str, sets: &[Option<&'static str>]| {
        let damage = |set: &Option<&'static str>| Damage { table, row: row.to_owned(), set: *set };
        sets.iter().map(damage).collect::<Vec<_>>()
    };
    all.extend(of("heads", "branch = :branch", &HEAD));
    all.extend(of("attrs", "branch = :branch", &ATTRS));
    all.extend(of("branches", "no = :branch", &BRANCH));
    all
}

/// A journal with sessions that wait for people, one that does not, and a stream of notes.
struct Lake {
    server: Server,
    /// Their sessions, with the calls that wait.
    sessions: Vec<(String, Option<String>)>,
    file: Connection,
}

impl Lake {
    async fn new() -> Self {
        let project = Project::new();
        let server = project.serve().start().await;
        let mut sessions = Vec::new();
        for (agent, message) in
            [("careful", "refund 1"), ("helper", "hello"), ("careful", "refund 2"), ("careful", "refund 3")]
        {
            let turn =
                server.post(&format!("/agents/{agent}/chat"), &json!({ "message": message })).await.ok();
            let call = turn["approvals"][0]["id"].as_str().map(str::to_owned);
            sessions.push((turn["session"].as_str().unwrap().to_owned(), call));
        }
        project.ok(&["append", "--stream", "notes", "--kind", "note.added"]);
        let file = Connection::open(project.data().join("journal.db")).unwrap();
        Self { server, sessions, file }
    }

    fn branch(&self, session: &str) -> i64 {
        let sql = "SELECT branches.no FROM branches JOIN streams ON streams.no = branches.stream WHERE streams.name = ?1";
        self.file.query_row(sql, [format!("session:{session}")], |row| row.get(0)).unwrap()
    }

    /// Damages a row, which [`Lake::undo`] puts back.
    fn damage(&self, damage: &Damage, session: &str) {
        let (table, row) = (damage.table, damage.row.replace(":branch", &self.branch(session).to_string()));
        let change = match damage.set {
            Some(set) => format!("UPDATE {table} SET {set} WHERE {row}"),
            None => format!("DELETE FROM {table} WHERE {row}"),
        };
        let save = format!("CREATE TEMP TABLE saved AS SELECT * FROM main.{table} WHERE {row}");
        self.file.execute_batch(&save).unwrap();
        assert_eq!(self.file.execute(&change, ()).unwrap(), 1, "{}", damage.name());
    }

    fn undo(&self, damage: &Damage) {
        let table = damage.table;
        let undo =
            format!("INSERT OR REPLACE INTO main.{table} SELECT * FROM temp.saved; DROP TABLE temp.saved");
        self.file.execute_batch(&undo).unwrap();
    }

    fn others<'a>(&'a self, victim: &'a str) -> impl Iterator<Item = &'a (String, Option<String>)> {
        self.sessions.iter().filter(move |(session, _)| session != victim)
    }

    /// Everything but the victim is in this list, and the victim is not shown as something else than it was.
    fn check_sessions(&self, listed: &[Value], victim: &str, is_event: bool, context: &str) {
        for (session, call) in self.others(victim) {
            let row = listed.iter().find(|row| row["id"] == **session);
            let row = row.unwrap_or_else(|| panic!("{context}: {session} is not listed: {listed:#?}"));
            let status = if call.is_some() { "waiting" } else { "idle" };
            assert_eq!(row["status"], status, "{context}: {row}");
            assert_eq!(row.get("damage"), None, "{context}");
        }
        let row = listed.iter().find(|row| row["id"] == victim);
        if is_event {
            let row = row.unwrap_or_else(|| panic!("{context}: the damaged session is not listed"));
            assert_eq!(row["status"], "damaged", "{context}: {row}");
            assert!(row["damage"].as_str().is_some_and(|what| what.contains("damaged")), "{context}: {row}");
        }
        if let Some(row) = row.filter(|row| row["status"] == "damaged") {
            assert!(row["damage"].is_string(), "{context}: {row}");
        }
    }

    fn check_calls(&self, ids: &[&Value], victim: &str, context: &str) {
        for (_, call) in self.others(victim) {
            let Some(call) = call else { continue };
            assert!(ids.iter().any(|id| **id == **call), "{context}: {call} is not listed: {ids:?}");
        }
    }

    async fn check_server(&self, damage: &Damage, victim: &str, waits: bool) {
        let (context, is_event) = (damage.name(), damage.table == "events");
        let listed = self.server.get("/sessions").await.ok();
        self.check_sessions(listed["sessions"].as_array().unwrap(), victim, is_event, &context);
        let asked = self.server.get("/approvals").await.ok();
        let calls: Vec<&Value> =
            asked["approvals"].as_array().unwrap().iter().map(|call| &call["id"]).collect();
        self.check_calls(&calls, victim, &context);
        if is_event && waits {
            assert_eq!(asked["damaged"][0]["session"], victim, "{context}: {asked}");
        }
        let streams = self.server.get("/streams").await.ok();
        assert!(streams.to_string().contains("notes"), "{context}: {streams}");
    }

    fn check_commands(&self, damage: &Damage, victim: &str) {
        let (context, is_event) = (damage.name(), damage.table == "events");
        let project = &self.server.project;
        let sessions = listed(project, &["session", "list"]);
        assert!(!is_event || sessions.iter().any(|row| row["status"] == "damaged"), "{context}");
        self.check_sessions(&sessions, victim, is_event, &context);
        let calls = listed(project, &["approvals"]);
        self.check_calls(&calls.iter().map(|call| &call["id"]).collect::<Vec<_>>(), victim, &context);
        listed(project, &["budget", "show"]);
        let streams = listed(project, &["streams"]);
        assert!(streams.iter().any(|stream| stream["stream"] == "notes"), "{context}: {streams:?}");

        let exported = project.run(&["export"]);
        if is_event {
            assert_eq!(exported.code, 1, "{context}: {}", exported.stderr);
            assert!(exported.stderr.contains(&format!("session:{victim}")), "{context}: {}", exported.stderr);
        }
        for (session, _) in self.others(victim) {
            assert!(exported.stdout.contains(&format!("session:{session}")), "{context}: {session}");
        }
        // What is in it can be imported.
        let copy = tempfile::tempdir().unwrap();
        let file = copy.path().join("export");
        std::fs::write(&file, exported.stdout).unwrap();
        let data = copy.path().join("data");
        let data = data.to_str().unwrap();
        let import = ["--data-dir", data, "import", "--as-restore", file.to_str().unwrap()];
        let imported = project.run(&import);
        assert_eq!(imported.code, 0, "{context}: {}", imported.stderr);
        let streams = project.lines(&["--data-dir", data, "streams"]);
        for (session, _) in self.others(victim) {
            assert!(
                streams.iter().any(|stream| stream["stream"] == format!("session:{session}")),
                "{context}"
            );
        }
    }
}

/// The rows of a list. The command fails if any of them is damaged, and says so for people, too.
fn listed(project: &Project, args: &[&str]) -> Vec<Value> {
    let told = project.run(&[args, &["--json"]].concat());
    let rows: Vec<Value> = told.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let damaged = told.stdout.contains("\"damage\":") || told.stderr.contains("is damaged");
    let shown = project.run(args);
    assert_eq!(
        (told.code, shown.code),
        (i32::from(damaged), i32::from(damaged)),
        "{args:?}: {}",
        shown.stderr
    );
    assert_eq!(told.stderr.contains("cli::damaged-in-list"), damaged, "{args:?}: {}", told.stderr);
    assert_eq!(
        shown.stderr.contains("something in the list is damaged"),
        damaged,
        "{args:?}: {}",
        shown.stderr
    );
    rows
}

/// How many damages there are for each that all commands are tried with.
const COMMANDS_EVERY: usize = 11;

#[tokio::test]
async fn a_damaged_session_costs_itself_and_nothing_else() {
    let lake = Lake::new().await;
    let every = if std::env::var_os("WEIR_SOAK").is_some() { 1 } else { COMMANDS_EVERY };
    for (n, (victim, call)) in lake.sessions.iter().take(2).enumerate() {
        for (m, damage) in catalogue().iter().enumerate() {
            println!("{}", damage.name());
            lake.damage(damage, victim);
            lake.check_server(damage, victim, call.is_some()).await;
            if (n + m) % every == 0 {
                lake.check_commands(damage, victim);
            }
            lake.undo(damage);
        }
    }
    let listed = lake.server.get("/sessions").await.ok();
    assert!(listed["sessions"].as_array().unwrap().iter().all(|row| row.get("damage").is_none()), "{listed}");
}

#[tokio::test]
async fn others_are_decided_about_while_a_session_is_damaged() {
    let lake = Lake::new().await;
    let (victim, _) = &lake.sessions[0];
    let damage = &catalogue()[0];
    lake.damage(damage, victim);
    let (session, call) = &lake.sessions[2];
    let path = format!("/sessions/{session}/approvals/{}", call.as_ref().unwrap());
    lake.server.post(&path, &json!({"decision": "allow"})).await.ok();
    lake.server.until(session, "idle").await;
    let (session, call) = &lake.sessions[3];
    let call = call.as_ref().unwrap();
    let denied = lake.server.project.run(&["deny", &call[call.len() - 8..], "--no-run"]);
    assert_eq!(denied.code, 0, "{}", denied.stderr);
    lake.server.until(session, "idle").await;
    // The server can still be talked to.
    lake.server.post("/agents/helper/chat", &json!({"message": "hello"})).await.ok();
}
