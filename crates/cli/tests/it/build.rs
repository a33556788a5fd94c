//! `weir build`, `check`, `diff` and `lock`: what is printed, what is written, how it ends.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use insta::assert_snapshot;

use crate::weir::{Ran, Weir};

const SPEC: &str = "name: helper\nmodel: offline/echo\ndescription: You help.\ntools:\n  - name: get_time\n";

/// A project of several files, none of which stands alone.
const FILES: [(&str, &str); 7] = [
    ("weir.yaml", "project: acme\nservice_accounts: [{ name: bot }]\n"),
    (
        "agents/helper/spec.yaml",
        "name: helper\nmodel: scripted/help\ntools:\n  - { name: get_time }\n  - { name: tools/look-up, access: read }\n  - { server: weir://scout, access: read }\nskills: [./skills/cite]\n",
    ),
    ("agents/helper/SOUL.md", "You are calm.\n"),
    ("agents/scout/spec.yaml", "name: scout\nmodel: offline/echo\n"),
    (
        "loops/morning.yaml",
        "name: morning\nschedule: \"0 9 * * *\"\nagent: helper\nrun_as: serviceaccount:bot\ninstruction: Good morning.\n",
    ),
    ("models/help.yaml", "replies: [{ say: \"Hello.\" }]\n"),
    (
        "tools/look-up.ts",
        "import { defineTool } from 'weir';\nexport default defineTool({ name: 'look_up', description: 'Looks up.', parameters: { what: { type: 'string' } }, execute: async ({ what }: { what: string }) => what });\n",
    ),
];

const SKILL: (&str, &str) = (
    "agents/helper/skills/cite/SKILL.md",
    "---\nname: cite\ndescription: Cites.\n---\n\nName your sources.\n",
);

fn project() -> Weir {
    let weir = Weir::new();
    FILES.into_iter().chain([SKILL]).for_each(|(path, text)| weir.write(path, text));
    weir
}

fn hash(weir: &Weir) -> String {
    weir.json(&["build"])["manifest"].as_str().unwrap().to_owned()
}

#[test]
fn a_build_says_what_it_made() {
    let weir = Weir::new();
    weir.write("agents/helper/spec.yaml", SPEC);
    let built = weir.show(&["build"]);
    assert_snapshot!(built, @"
    exit 0
    -- stdout
    ✓ built 1 agent (1.8 KB)
      [hash]
    ");
    let manifest = hash(&weir);
    let bytes = std::fs::read(weir.data().join(format!("build/{manifest}.json"))).unwrap();
    let document: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(document["agents"]["helper"]["model"], "offline/echo");
    assert_snapshot!(weir.show(&["check"]), @"
    exit 0
    -- stdout
    ✓ 1 agent: nothing is wrong
    ");
    assert_snapshot!(weir.mask(&weir.ok(&["build", "--json"])), @r#"{"version":1,"manifest":"[hash]","agents":1,"loops":0,"lock_changed":false,"diagnostics":[]}"#);
}

#[test]
fn variables_that_are_no_text_are_nobodys_business() {
    let weir = Weir::new();
    weir.write("agents/helper/spec.yaml", SPEC);
    let odd = OsStr::from_bytes(b"\xff");
    let ran = Ran::from(weir.command().arg("build").env("ODD", odd).env(odd, "odd").output().unwrap());
    assert_eq!(ran.code, 0, "{ran}");
}

#[test]
fn checking_writes_nothing() {
    let weir = Weir::new();
    weir.write("agents/helper/spec.yaml", SPEC);
    for args in [&["check"][..], &["build", "--check"]] {
        weir.ok(args);
        assert_eq!(std::fs::read_dir(weir.path()).unwrap().count(), 1);
    }
}

#[test]
fn every_mistake_is_shown_with_its_line() {
    let weir = Weir::new();
    weir.write(
        "agents/helper/spec.yaml",
        "name: helper\nmodel: anthropic/claude-sonet-4-5\nlimits: { usd: lots }\n",
    );
    weir.write("loops/morning.yaml", "name: morning\nschedule: \"0 25 * * *\"\nagent: helpr\nrun_as: serviceaccount:bot\ninstruction: Hello.\n");
    assert_snapshot!(weir.show(&["build"]), @r#"
    exit 2
    -- stderr
    error[spec::unknown-model]: unknown model `anthropic/claude-sonet-4-5`
       ╭─[agents/helper/spec.yaml:2:8]
     1 │ name: helper
     2 │ model: anthropic/claude-sonet-4-5
       ·        ─────────────┬────────────
       ·                     ╰── did you mean `anthropic/claude-sonnet-4-5`?
       ╰────
    error[spec::wrong-value]: `usd` is an amount in dollars, not `lots`
       ╭─[agents/helper/spec.yaml:3:16]
     2 │ model: anthropic/claude-sonet-4-5
     3 │ limits: { usd: lots }
       ·                ──┬─
       ·                  ╰── write it like `0.50`, with at most nine decimals
       ╰────
    warning[spec::not-yet]: loops are planned and not in this version: `morning` never fires
       ╭─[loops/morning.yaml:1:7]
     1 │ name: morning
       ·       ───────
       ╰────
    help: it is checked and kept in the build; until then, start it from elsewhere, as with cron and `weir chat`
    error[spec::bad-schedule]: `25` in `0 25 * * *` is not an hour: hours are from 0 to 23
       ╭─[loops/morning.yaml:2:11]
     1 │ name: morning
     2 │ schedule: "0 25 * * *"
       ·           ────────────
       ╰────
    help: write minute, hour, day, month and weekday, like `0 9 * * MON-FRI`
    error[spec::unknown-agent]: there is no agent `helpr`
       ╭─[loops/morning.yaml:3:8]
     2 │ schedule: "0 25 * * *"
     3 │ agent: helpr
       ·        ──┬──
       ·          ╰── did you mean `helper`?
       ╰────
    error[spec::undeclared-account]: the service account `bot` is not declared
       ╭─[loops/morning.yaml:4:9]
     3 │ agent: helpr
     4 │ run_as: serviceaccount:bot
       ·         ─────────┬────────
       ·                  ╰── declare it in weir.yaml: `service_accounts: [{ name: bot }]`
       ╰────
    error: 5 errors, 1 warning
    "#);
    let failed = weir.run(&["build", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&failed.stdout).unwrap();
    let codes: Vec<_> =
        document["diagnostics"].as_array().unwrap().iter().map(|each| each["code"].clone()).collect();
    assert_eq!((failed.code, failed.stderr.as_str(), codes.len()), (2, "", 6), "{codes:?}");
    assert!(!weir.data().join("build").exists());
}

#[test]
fn the_same_project_is_the_same_build_everywhere() {
    let weir = project();
    let expected = hash(&weir);
    let build = |weir: &Weir, variables: &[(&str, &str)]| {
        let mut command = weir.command();
        command.args(["build", "--json"]).envs(variables.iter().copied());
        let ran = Ran::from(command.output().unwrap());
        let document: serde_json::Value =
            serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran}"));
        document["manifest"].as_str().unwrap().to_owned()
    };
    for locale in ["C", "tr_TR.UTF-8", "de_DE.UTF-8"] {
        assert_eq!(build(&weir, &[("LC_ALL", locale), ("LANG", locale)]), expected);
    }
    for zone in ["UTC", "Asia/Kathmandu", "America/St_Johns"] {
        assert_eq!(build(&weir, &[("TZ", zone)]), expected);
    }
    // Another place, made in another order, by somebody whose files nobody else may read.
    let other = Weir::new();
    let mut files: Vec<_> = FILES.into_iter().chain([SKILL]).collect();
    files.reverse();
    files.iter().for_each(|(path, text)| other.write(path, text));
    let sh = |script: &str| {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(script).arg0("sh").current_dir(other.path());
        shell.env("WEIR", env!("CARGO_BIN_EXE_weir")).env_remove("WEIR_DATA_DIR");
        let ran = Ran::from(shell.output().unwrap());
        let document: serde_json::Value =
            serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran}"));
        document["manifest"].as_str().unwrap().to_owned()
    };
    assert_eq!(sh("umask 077; \"$WEIR\" build --json"), expected);
    assert_eq!(sh("chmod -R a+rwX .; umask 000; \"$WEIR\" build --json"), expected);
    // One processor, and all of them.
    assert_eq!(sh("taskset -c 0 \"$WEIR\" build --json"), expected);
    assert_eq!(sh("cd agents && \"$WEIR\" build --project .. --data-dir ../.weir --json"), expected);
}

#[test]
fn what_matters_changes_the_build_and_what_does_not_does_not() {
    let weir = project();
    let before = hash(&weir);
    weir.write("NOTES.md", "unrelated");
    weir.write("agents/helper/notes.txt", "unrelated");
    weir.write("tests/some.yaml", "agent: helper\nscenarios: [{ name: a, steps: [{ say: hello }] }]\n");
    let touched = std::fs::File::options().append(true).open(weir.path().join("weir.yaml")).unwrap();
    touched.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(hash(&weir), before);
    let mut seen = vec![before];
    for (path, text) in FILES.into_iter().chain([SKILL]) {
        let changed = match Path::new(path).extension().and_then(|end| end.to_str()) {
            Some("yaml") if path.starts_with("agents/") => format!("{text}description: another\n"),
            Some("yaml") if path == "weir.yaml" => text.replace("acme", "other"),
            Some("yaml") => text.replace("Good morning", "Good evening").replace("Hello", "Bye"),
            Some("ts") => text.replace("Looks up.", "Finds out."),
            _ => format!("{text}And brief.\n"),
        };
        weir.write(path, &changed);
        let now = hash(&weir);
        assert!(!seen.contains(&now), "{path} does not matter");
        seen.push(now);
    }
}

#[test]
fn two_builds_are_compared_by_what_agents_may_do() {
    let weir = Weir::new();
    weir.write("agents/helper/spec.yaml", "name: helper\nmodel: offline/echo\nlimits: { iterations: 5 }\n");
    let before = hash(&weir);
    assert_snapshot!(weir.show(&["diff", "latest"]), @"
    exit 0
    -- stdout
    no difference in what agents may do
    ");
    weir.write(
        "agents/helper/spec.yaml",
        "name: helper\nmodel: anthropic/claude-sonnet-4-5\ntools:\n  - name: get_time\nlimits: { iterations: 50 }\nacl: [{ principal: \"group:all\", role: execute }]\n",
    );
    assert_snapshot!(weir.show(&["diff", "latest"]), @"
    exit 0
    -- stdout
    agent helper
      ~ model                offline/echo → anthropic/claude-sonnet-4-5  (more)
      + tool get_time        read from get_time  (more)
      ~ limit iterations     5 → 50  (more)
      + access of group:all  execute  (more)
    4 changes; 4 let somebody do more than before
    ");
    let after = hash(&weir);
    assert_snapshot!(weir.show(&["diff", &after[..8], &before[..8]]), @"
    exit 0
    -- stdout
    agent helper
      ~ model                anthropic/claude-sonnet-4-5 → offline/echo  (more)
      - tool get_time        read from get_time
      ~ limit iterations     50 → 5
      - access of group:all  execute
    4 changes; one lets somebody do more than before
    ");
    assert_eq!(weir.run(&["diff", &before, &after, "--deny-widening"]).code, 1);
    assert_eq!(weir.run(&["diff", &before, &before, "--deny-widening"]).code, 0);
    assert_eq!(weir.json(&["diff", &before, "latest"])["widens"], true);
    assert_snapshot!(weir.show(&["diff", "0000"]), @"
    exit 1
    -- stderr
    error: there is no manifest `0000`
    help: manifests are in `build/` of the data directory; `weir build` makes one, and `latest` is the newest
    ");
}

#[test]
fn a_chat_records_the_build_it_ran_on() {
    let weir = Weir::new();
    weir.write("agents/helper/spec.yaml", SPEC);
    weir.ok(&["chat", "helper", "-m", "hello"]);
    let events = weir.ok(&["session", "show", "-1", "--json"]);
    let manifest = hash(&weir);
    assert!(events.contains(&manifest), "{events}");
    // It was kept with the session, before anybody ran `weir build`.
    let other = Weir::new();
    other.write("agents/helper/spec.yaml", SPEC);
    other.ok(&["chat", "helper", "-m", "hello"]);
    assert!(other.data().join(format!("build/{manifest}.json")).is_file());
}

#[test]
fn what_is_not_done_yet_is_refused_and_not_ignored() {
    let weir = Weir::new();
    weir.write("weir.yaml", "routing: { canary_pct: 1 }\nknowledge: { paths: [docs] }\n");
    weir.write(
        "agents/helper/spec.yaml",
        "name: helper\nmodel: offline/echo\ntools: [{ name: bash, access: write }]\n",
    );
    weir.ok(&["build"]);
    assert_snapshot!(weir.show(&["chat", "helper", "-m", "hello"]), @"
    exit 2
    -- stderr
    error: this version does not do yet: `knowledge` of the project, `routing` of the project
    help: it builds, but running it without them would not be what its spec says; remove them to try the rest
    ");
}
