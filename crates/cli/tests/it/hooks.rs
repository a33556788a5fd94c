//! `hooks.pre_append` with the real binary: what a program or a script of the project refuses is not there afterwards, and a
//! program that nobody approved is not started.

use serde_json::{Value, json};

use crate::outside::{Project, field, script};
use crate::running::eventually_or;
use crate::weir::Ran;

/// A project with these hooks, and an agent that looks at the clock.
fn project(hooks: &Value) -> Project {
    let project = Project::new();
    let clock = json!([{"tool": "get_time", "input": {}}]);
    project.agent("helper", "tools:\n  - { name: get_time }\n", &script(&[("time", clock)]));
    project.write("weir.yaml", &json!({"project": "p", "hooks": {"pre_append": hooks}}).to_string());
    project.write("hooks/.keep", "");
    project
}

fn say(project: &Project, words: &str) -> Ran {
    project.run(&["chat", "helper", "-m", words, "--json"])
}

/// How something was refused: in which words.
fn refused(ran: &Ran) -> String {
    assert_eq!(ran.error(), (3, "engine::refused".to_owned()), "{ran}");
    let told: Value = serde_json::from_str(&ran.stderr).unwrap();
    field(&told["error"], "message")
}

fn sessions(project: &Project) -> usize {
    project.run(&["session", "list", "--json"]).stdout.lines().count()
}

#[test]
fn what_anybody_appends_is_asked_about_too() {
    let project = project(&json!([{"script": "hooks/check.ts", "kinds": ["invoice.paid"]}]));
    project.write(
        "hooks/check.ts",
        "export default (event: any) => (event.payload?.cents > 0 ? undefined : { refuse: `${event.stream}: nothing was paid` });\n",
    );
    let append = |kind: &str, payload: &str| {
        project.run(&["append", "--stream", "books", "--kind", kind, "--payload", payload, "--json"])
    };
    let told = refused(&append("invoice.paid", r#"{"cents":0}"#));
    assert!(told.contains("`hooks/check.ts` refuses this invoice.paid: books: nothing was paid"), "{told}");
    let binary = project.weir.path().join("binary");
    std::fs::write(&binary, [0xff, 0]).unwrap();
    let raw = ["append", "--stream", "books", "--kind", "invoice.paid", "--payload-file", "binary", "--json"];
    refused(&project.run(&raw));
    assert_eq!(project.run(&["streams", "--json"]).stdout.lines().count(), 0, "nothing was written down");
    assert_eq!(append("invoice.paid", r#"{"cents":5}"#).code, 0);
    assert_eq!(append("invoice.sent", "{}").code, 0);
}

#[test]
fn a_script_refuses_in_its_own_words() {
    let project = project(
        &json!([{"script": "hooks/check.ts", "kinds": ["user.message", "external.signal"], "timeout": "1s"}]),
    );
    project.write(
        "hooks/check.ts",
        "type Event = { kind: string; payload: any; meta: { actor: string } };\n\
         export default async (event: Event) => {\n  \
           const text = JSON.stringify(event.payload);\n  \
           if (text.includes('password')) return { refuse: `no passwords, ${event.meta.actor.split(':')[0]}` };\n  \
           if (text.includes('never')) return false;\n  \
           if (text.includes('oops')) throw new Error('I broke');\n  \
           if (text.includes('loop')) for (;;) {}\n  \
           if (text.includes('wait')) await new Promise(() => {});\n\
         };\n",
    );
    let check = |words: &str, expected: &str| {
        let told = refused(&say(&project, words));
        assert!(told.contains(expected), "{told}");
    };
    check("my password", "`hooks/check.ts` refuses this user.message: no passwords, user");
    check("never", "it gave no reason");
    check("oops", "I broke");
    check("loop", "it could not be asked: hooks/check.ts: not done after");
    check("wait", "it waits for a promise that nothing can settle");
    assert_eq!(sessions(&project), 0, "nothing is left of what was refused");

    let session = project.chat("helper", "the time?", &[]);
    let before = project.events(&session);
    // As another process says it, and into a session that is there.
    for args in [
        &["session", "message", &session, "the password"][..],
        &["session", "signal", &session, "mail", "--data", "{\"about\":\"password\"}"],
        &["chat", "helper", "--session", &session, "-m", "password"],
    ] {
        refused(&project.run(&[args, &["--json"]].concat()));
        assert_eq!(project.events(&session), before, "{args:?}");
    }
    project.ok(&["session", "message", &session, "hello"]);
    project.ok(&["session", "set", &session, "--title", "password"]);
    project.ok(&["session", "halt", &session, "-m", "password"]);
}

/// What a program is told, and with what; it leaves it in a file of the project.
const LOGGING: &str = "#!/bin/sh\n/bin/cat >> hooks/asked\necho >> hooks/asked\n/usr/bin/env > hooks/env\n";

#[test]
fn a_program_is_started_only_if_somebody_approved_it() {
    let project = project(&json!([{"run": "/bin/sh hooks/check.sh --strict"}]));
    project.program("hooks/check.sh", LOGGING);
    let is_started = || project.weir.path().join("hooks/asked").exists();
    let told = refused(&say(&project, "hello"));
    assert!(told.contains("`/bin/sh hooks/check.sh --strict` was never approved on this machine"), "{told}");
    let built = project.run(&["build", "--json"]);
    assert_eq!(built.code, 2, "{built}");
    assert!(!is_started() && sessions(&project) == 0);

    project.build();
    assert!(!is_started(), "a build asks, and starts nothing");
    let mut command = project.command(&["chat", "helper", "-m", "the time?", "--json"]);
    command.env("PLANTED", "tulip");
    assert!(command.status().unwrap().success());
    let asked = std::fs::read_to_string(project.weir.path().join("hooks/asked")).unwrap();
    let events: Vec<Value> = asked.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["session.created", "user.message"], "neither results nor decisions");
    assert_eq!(events[1]["payload"]["content"][0]["text"], "the time?");
    assert!(field(&events[1], "stream").starts_with("session:"));
    let env = std::fs::read_to_string(project.weir.path().join("hooks/env")).unwrap();
    for name in ["PLANTED", "HOME", "PATH", "USER"] {
        assert!(!env.lines().any(|line| line.starts_with(&format!("{name}="))), "{name} in {env}");
    }

    // Another content is another program, also where it is only an argument.
    let before = sessions(&project);
    project.program("hooks/check.sh", &format!("{LOGGING}touch hooks/changed\n"));
    let told = refused(&say(&project, "hello"));
    assert!(told.contains("has changed since it was approved"), "{told}");
    assert!(!project.weir.path().join("hooks/changed").exists());
    assert_eq!(sessions(&project), before);
    // And one that somebody else approved, elsewhere.
    let project = project.elsewhere();
    assert!(refused(&say(&project, "hello")).contains("was never approved"));
}

#[test]
fn a_program_that_does_not_say_yes_says_no() {
    let project = project(&json!([{"run": "./hooks/check.sh", "kinds": ["user.message"], "timeout": "2s"}]));
    let check = |text: &str, expected: &str| {
        project.program("hooks/check.sh", &format!("#!/bin/sh\n{text}\n"));
        project.build();
        let told = refused(&say(&project, "hello"));
        assert!(told.contains(expected), "{expected:?} in {told:?}");
        assert_eq!(sessions(&project), 0, "{text}");
        told
    };
    check(
        "echo 'not on sundays' >&2; exit 1",
        "`./hooks/check.sh` refuses this user.message: not on sundays",
    );
    check("exit 3", "it gave no reason");
    check("kill -SEGV $$", "it could not be asked: signal 11 ended it");
    check("/bin/sleep 60 & echo $! > hooks/pid; wait", "it could not be asked: no answer within 2 s");
    // What it started is gone with it.
    let pid = std::fs::read_to_string(project.weir.path().join("hooks/pid")).unwrap();
    let is_gone = || (!is_alive(pid.trim())).then_some(());
    eventually_or(is_gone, || format!("{pid} is still there"));
    let told = check(
        "/usr/bin/head -c 10000000 /dev/zero | /usr/bin/tr '\\0' x >&2; exit 1",
        "refuses this user.message: xxx",
    );
    assert!(told.len() < 1_200, "{} bytes", told.len());
    // It may talk as much as it likes, and need not listen.
    project.program("hooks/check.sh", "#!/bin/sh\n/usr/bin/head -c 3000000 /dev/zero\nexec 0<&-\nexit 0\n");
    project.build();
    assert_eq!(say(&project, &"long ".repeat(20_000)).code, 0);
    let before = sessions(&project);
    std::fs::remove_file(project.weir.path().join("hooks/check.sh")).unwrap();
    assert!(refused(&say(&project, "hello")).contains("it could not be asked"));
    assert_eq!(sessions(&project), before);
}

/// A process that was killed may still wait for somebody to look at how it ended.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Where the project is not, its hooks cannot be asked; that is no way around them.
#[test]
fn there_is_no_way_around_the_hooks_from_elsewhere() {
    let project = project(&json!([{"script": "hooks/check.ts"}]));
    project.write("hooks/check.ts", "export default (event: any) => event.payload.name !== 'bad';\n");
    let session = project.chat("helper", "hello", &[]);
    let before = project.events(&session);
    let (elsewhere, data) = (tempfile::tempdir().unwrap(), project.weir.data());
    let data = data.to_str().unwrap();
    let mut command = project.command(&["session", "signal", &session, "bad", "--data-dir", data, "--json"]);
    let ran = Ran::from(command.current_dir(elsewhere.path()).output().unwrap());
    assert_eq!(ran.error(), (2, "cli::no-hooks".to_owned()), "{ran}");
    assert_eq!(project.events(&session), before);
    refused(&project.run(&["session", "signal", &session, "bad", "--json"]));
    project.ok(&["session", "signal", &session, "good"]);
}

/// A yes at the command line goes past the hooks, too; a no does not.
#[test]
fn a_yes_is_refused_and_the_call_still_waits() {
    let project = project(&json!([{"script": "hooks/check.ts", "kinds": ["approval.granted"]}]));
    let spec = "tools:\n  - { name: get_time, approval: always }\n";
    let clock = json!([{"tool": "get_time", "input": {}}]);
    project.agent("helper", spec, &script(&[("time", clock)]));
    let check =
        |says: &str| project.write("hooks/check.ts", &format!("export default (event: any) => ({says});\n"));
    check("{ refuse: `not by ${event.payload.by.split(':')[0]}s` }");
    assert_eq!(say(&project, "the time?").code, 5, "it waits");
    let waiting = project.lines(&["approvals"]);
    let (id, session) = (field(&waiting[0], "id"), field(&waiting[0], "session"));
    let before = project.events(&session);
    for more in [&["--no-run"][..], &[]] {
        let told = refused(&project.run(&[&["approve", &id, "--json"], more].concat()));
        assert!(told.contains("refuses this approval.granted: not by users"), "{told}");
        assert_eq!(
            (project.events(&session), project.lines(&["approvals"])),
            (before.clone(), waiting.clone())
        );
    }
    check("undefined");
    project.ok(&["approve", &id]);
    assert_eq!(project.payloads(&session, "tool.completed").len(), 1);

    check("false");
    assert_eq!(say(&project, "the time?").code, 5);
    let id = field(&project.lines(&["approvals"])[0], "id");
    project.ok(&["deny", &id, "-m", "no"]);
    assert_eq!(project.lines(&["approvals"]), [Value::Null; 0]);
}

/// However it is written.
#[test]
fn a_hook_is_found_under_any_spelling() {
    let project = project(&json!([]));
    project.write("hooks/check.ts", "export default () => false;\n");
    for spelled in ["\"pre\\x5fappend\"", "'pre_append'", "? pre_append\n  "] {
        project.write("weir.yaml", &format!("hooks:\n  {spelled}: [{{ script: hooks/check.ts }}]\n"));
        refused(&say(&project, "hello"));
    }
    assert_eq!(sessions(&project), 0);
}

#[test]
fn hooks_that_only_react_are_not_there_yet() {
    let project = Project::new();
    project.agent("helper", "", &script(&[]));
    project.write("weir.yaml", "hooks: { post_append: [{ run: notify }] }\n");
    let ran = say(&project, "hello");
    assert_eq!(ran.error(), (2, "cli::not-supported-yet".to_owned()), "{ran}");
}

/// A copy of the process's command, from a directory that is no project.
fn elsewhere(project: &Project, args: &[&str]) -> Ran {
    let elsewhere = tempfile::tempdir().unwrap();
    let data = project.weir.data();
    let mut command = project.weir.command();
    command.current_dir(elsewhere.path()).args(args).arg("--data-dir").arg(data).arg("--json");
    Ran::from(command.output().unwrap())
}

#[test]
fn an_append_is_asked_about_wherever_it_is_run_from() {
    let hooks = json!([{"script": "hooks/check.ts", "kinds": ["note.added"]}]);
    let refuses =
        "export default (event: any) => (event.payload?.t === 'forbidden' ? { refuse: 'no' } : undefined);\n";
    let append = |text: &str| {
        let payload = json!({ "t": text }).to_string();
        ["append", "--stream", "n", "--kind", "note.added", "--payload", &payload].map(str::to_owned)
    };
    for deployed in [false, true] {
        let project = project(&hooks);
        project.write("hooks/check.ts", refuses);
        project.weir.ok(&["build"]);
        if deployed {
            project.weir.ok(&["deploy", "latest"]);
            // What new sessions begin with counts, whatever the files say meanwhile.
            project.write("weir.yaml", &json!({"project": "p"}).to_string());
        }
        let ran = |text: &str| elsewhere(&project, &append(text).each_ref().map(String::as_str));
        refused(&ran("forbidden"));
        assert_eq!(ran("welcome").code, 0, "deployed: {deployed}");
        assert_eq!(project.run(&["count", "--stream", "n"]).stdout.trim(), "1");
    }
}

#[test]
fn an_append_is_asked_about_where_only_the_data_directory_is_left() {
    let project = project(&json!([{"script": "hooks/check.ts"}]));
    project.write("hooks/check.ts", "export default () => ({ refuse: 'never' });\n");
    project.weir.ok(&["build"]);
    // Not below the project, which would be found from there.
    let elsewhere = tempfile::tempdir().unwrap();
    let data = elsewhere.path().join("data");
    std::fs::rename(project.weir.data(), &data).unwrap();
    let append = |extra: &str| {
        let mut command = project.weir.command();
        command.current_dir(data.parent().unwrap()).args(["append", "-s", "n", "-k", "note.added", "--json"]);
        command.arg("--data-dir").arg(&data).args(extra.split_whitespace());
        Ran::from(command.output().unwrap())
    };
    refused(&append(""));
    // A program is approved for the project's directory, and nobody knows where that is now.
    let program = json!([{"run": "cat"}]);
    project.write("weir.yaml", &json!({"project": "p", "hooks": {"pre_append": program}}).to_string());
    project.weir.ok(&["build", "--yes", "--data-dir", data.to_str().unwrap()]);
    assert_eq!(append("").error(), (2, "cli::no-hooks".to_owned()));
}

#[test]
fn an_append_refuses_hooks_that_are_not_asked_yet() {
    let project = project(&json!([]));
    let hooks = json!({"post_append": [{"run": "tee -a post.log", "kinds": ["note.added"]}]});
    project.write("weir.yaml", &json!({"project": "p", "hooks": hooks}).to_string());
    let ran = project.run(&["append", "--stream", "n", "--kind", "note.added", "--json"]);
    assert_eq!(ran.error(), (2, "cli::not-supported-yet".to_owned()), "{ran}");
    assert!(!project.weir.data().exists(), "nothing was made");
    project.weir.run(&["build", "--yes"]);
    assert_eq!(
        elsewhere(&project, &["append", "--stream", "n", "--kind", "note.added"]).error(),
        (2, "cli::not-supported-yet".to_owned())
    );
}
