//! Calls that must be approved: who is told, who decides, and what then happens outside. A bell counts.

use std::time::Duration;

use insta::assert_snapshot;
use serde_json::Value;

use crate::outside::{Desk, field, without_why};
use crate::running::eventually_or;
use crate::weir::Ran;

#[test]
fn who_cannot_be_asked_is_told_what_to_paste() {
    let desk = Desk::new();
    let asked = desk.project.run(&["chat", "helper", "-m", "ring twice", "--live-writes"]);
    assert_snapshot!(desk.mask(&asked), @r#"
    exit 5
    -- stdout
    May I?
    -- stderr
    → ring {"n":1}
    → ring {"n":2}
    note: 2 calls of session [id] must be approved
      ring {"n":1}
        tool 'ring' requires approval: [why]
        weir approve [id] --live-writes
        weir deny [id] -m WHY --live-writes
      ring {"n":2}
        tool 'ring' requires approval: [why]
        weir approve [id] --live-writes
        weir deny [id] -m WHY --live-writes
    "#);
    // What is pasted works.
    let paste = asked.stderr.lines().find(|line| line.trim().starts_with("weir approve")).unwrap();
    let words: Vec<&str> = paste.split_whitespace().skip(1).collect();
    assert_eq!(desk.project.run(&words).code, 5, "one is left to decide");
    assert_eq!(desk.rings(), 1);
    let told = desk.project.run(&["chat", "boss", "-m", "ring", "--json"]);
    assert_snapshot!(desk.mask(&told), @r#"
    exit 5
    -- stdout
    {"session":"[id]","branch":"main","run":"[id]","answer":null,"stop":"approval","usage":{"input_tokens":267,"output_tokens":5,"cache_read_tokens":0,"cache_write_tokens":0},"cost_usd":0.0,"approvals":[{"id":"[id]","tool":"ring","input":{"n":1},"why":"tool 'ring' requires approval: [why]"}]}
    "#);
    // Pipes are asked nothing either.
    let piped = desk.project.weir.run_with(&["chat", "helper"], b"ring");
    assert_eq!(piped.code, 5, "{piped}");
}

#[test]
fn what_waits_is_listed_for_people_and_programs() {
    let desk = Desk::new();
    assert_eq!(desk.project.run(&["approvals"]).code, 1, "there is no data directory yet");
    desk.project.chat("helper", "hello", &[]);
    assert_snapshot!(desk.show(&["approvals"]), @"
    exit 0
    -- stderr
    note: nothing waits for approval
    ");
    let (first, calls) = desk.ask("helper", "ring twice", &[]);
    let (root, inner) = desk.ask("boss", "ring", &[]);
    let listed = desk.project.run(&["approvals"]);
    let row = |line: &str| {
        let mut cells: Vec<&str> = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        if let Some(why) = cells.get_mut(8).filter(|why| **why != "WHY") {
            *why = "[why]";
        }
        let age = cells.get(4).filter(|age| age.ends_with(" s")).copied().unwrap_or("no age");
        cells.join(" | ").replace(age, "[age]")
    };
    let rows: Vec<String> = listed.stdout.lines().map(row).collect();
    let mut text = desk.mask(&Ran { stdout: rows.join("\n"), ..listed });
    for id in calls.iter().chain(&inner) {
        text = text.replace(&id[20..], "[end]");
    }
    assert_snapshot!(text, @r#"
    exit 0
    -- stdout
    ID | SESSION | AGENT | TOOL | AGE | EXPIRES | CALL | INPUT | WHY
    [end] | [id] | helper | ring | [age] | never | dry run | {"n":1} | [why]
    [end] | [id] | helper | ring | [age] | never | dry run | {"n":2} | [why]
    [end] | [id] | helper | ring | [age] | never | dry run | {"n":1} | [why]
    -- stderr
    note: decide with `weir approve [end] --live-writes` or `weir deny [end] -m WHY`
    note: a call that is a dry run needs `--live-writes` to happen, or `--dry-run` to be approved as one
    "#);
    let ids = |args: &[&str]| -> Vec<String> {
        let lines = desk.project.lines(&[&["approvals"], args].concat());
        lines.iter().map(|line| field(line, "id")).collect()
    };
    assert_eq!(ids(&[]), [&calls[..], &inner].concat());
    assert_eq!(ids(&["--limit", "1"]), calls[..1]);
    assert_eq!(ids(&["--session", &first]), calls);
    // What an agent asks that works for another is asked at the root, with its name.
    assert_eq!(ids(&["--session", &root]), inner);
    assert_eq!(ids(&["--session", &root, "--agent", "boss"]), [""; 0]);
    assert_eq!(ids(&["--agent", "boss"]), [""; 0]);
    assert_eq!(ids(&["--agent", "helper"]).len(), 3);
    let line = desk.project.run(&["approvals", "--json", "--session", &root]).stdout;
    assert_snapshot!(desk.project.weir.mask(&without_why(&line)), @r#"{"id":"[id]","session":"[id]","agent":"helper","tool":"ring","input":{"n":1},"why":"tool 'ring' requires approval: [why]","expires":null,"escalates":null,"dry_run":true}"#);
}

#[test]
fn an_approved_call_really_runs_and_once() {
    let desk = Desk::new();
    let (session, calls) = desk.ask("helper", "ring", &["--live-writes"]);
    assert_eq!(desk.rings(), 0);
    // A yes to something real is no yes to something pretended.
    assert_snapshot!(desk.show(&["approve", &calls[0]]), @"
    exit 2
    -- stderr
    error: the call of `ring` would be a dry run: nothing would happen, and the approval would be used up
    help: let it happen with `weir approve [id] --live-writes`, or approve the dry run with `--dry-run`; it still waits
    ");
    assert_snapshot!(desk.show(&["approve", &calls[0], "--live-writes"]), @r#"
    exit 0
    -- stdout
    It said: ring is done
    -- stderr
    approved ring {"n":1}
    "#);
    assert_eq!(desk.rings(), 1);
    assert_snapshot!(desk.show(&["approve", &calls[0], "--live-writes"]), @"
    exit 1
    -- stderr
    error: call [id] was approved by `[actor]` already
    help: see `weir session history [id] --all`
    ");
    assert_eq!(desk.project.error(&["deny", &calls[0], "-m", "oh"]).1, "engine::approval-decided");
    assert_eq!(desk.project.run(&["session", "resume", &session, "--live-writes"]).code, 1);
    assert_eq!(desk.rings(), 0);
}

#[test]
fn a_denied_call_never_runs_and_the_agent_is_told_why() {
    let desk = Desk::new();
    let (session, calls) = desk.ask("helper", "ring", &["--live-writes"]);
    assert_snapshot!(desk.show(&["deny", &calls[0], "-m", "not on a Friday"]), @r#"
    exit 0
    -- stdout
    It said: tool 'ring' blocked: [actor] said no: not on a Friday
    -- stderr
    denied ring {"n":1}
    ✗ ring: tool 'ring' blocked: [actor] said no: not on a Friday
    "#);
    assert_eq!(desk.project.error(&["approve", &calls[0], "--live-writes"]).1, "engine::approval-decided");
    assert_eq!(desk.rings(), 0);
    assert_eq!(desk.project.payloads(&session, "tool.started"), [Value::Null; 0]);
}

#[test]
fn several_are_decided_one_by_one_by_the_ends_of_their_ids() {
    let desk = Desk::new();
    let (_, calls) = desk.ask("helper", "ring twice", &["--live-writes"]);
    let mut common = calls[0].bytes().zip(calls[1].bytes()).take_while(|(a, b)| a == b).count();
    common = common.min(25);
    let ambiguous = desk.project.run(&["approve", &calls[0][..common.max(1)]]);
    assert_snapshot!(desk.mask(&ambiguous).replace(&calls[0][..common], "[beginning]"), @"
    exit 2
    -- stderr
    error: several calls that wait for approval have ids that begin or end with `[beginning]`
    help: write more of it: [id], [id]
    ");
    assert_snapshot!(desk.show(&["approve", &calls[1][18..].to_lowercase(), "--live-writes"]), @r#"
    exit 5
    -- stderr
    approved ring {"n":2}
    note: 1 call of session [id] must be approved
      ring {"n":1}
        tool 'ring' requires approval: [why]
        weir approve [id] --live-writes
        weir deny [id] -m WHY --live-writes
    "#);
    assert_eq!(desk.rings(), 1);
    assert_snapshot!(desk.show(&["deny", &calls[0], "--json"]), @r#"
    exit 0
    -- stdout
    {"session":"[id]","branch":"main","run":"[id]","answer":"It said: tool 'ring' blocked: [actor] said no","stop":"end","usage":{"input_tokens":638,"output_tokens":17,"cache_read_tokens":0,"cache_write_tokens":0},"cost_usd":0.0,"approvals":[]}
    "#);
    assert_eq!(desk.rings(), 0);
}

#[test]
fn arguments_can_be_changed_to_what_is_allowed() {
    let desk = Desk::new();
    let (_, calls) = desk.ask("helper", "ring", &["--live-writes"]);
    let edit = |input: &str| desk.show(&["approve", &calls[0], "--live-writes", "--input", input]);
    assert_snapshot!(edit("{n: 1}"), @r#"
    exit 2
    -- stderr
    error: the arguments are not JSON
      caused by: key must be a string at line 1 column 2
    help: write all of them as one object: `--input '{"to":"staging"}'`
    "#);
    assert_snapshot!(edit(r#"{"n":"many"}"#), @r#"
    exit 2
    -- stderr
    error: with these arguments the call would be refused: schema: the arguments do not fit: "many" is not of type "integer" at `/n`; call it again with arguments that fit its schema
    help: change the arguments, approve it as it is, or deny it; it still waits
    "#);
    // `null` is no way to say "as it is".
    assert_snapshot!(edit("null"), @r#"
    exit 2
    -- stderr
    error: with these arguments the call would be refused: schema: the arguments do not fit: null is not of type "object"; call it again with arguments that fit its schema
    help: change the arguments, approve it as it is, or deny it; it still waits
    "#);
    assert_eq!(desk.rings(), 0);
    assert_snapshot!(edit(r#"{"n":7}"#), @r#"
    exit 0
    -- stdout
    It said: (an approver changed the arguments to: {"n":7})
    ring is done
    -- stderr
    approved ring {"n":7}
    "#);
    let rung = desk.project.calls("bell");
    assert_eq!(rung.last().unwrap()["arguments"], serde_json::json!({"n": 7}));
}

#[test]
fn a_yes_for_the_session_covers_later_calls_and_no_other_session() {
    let desk = Desk::new();
    let (session, calls) = desk.ask("helper", "ring", &["--live-writes"]);
    assert_eq!(desk.project.run(&["approve", &calls[0], "--session", "--live-writes"]).code, 0);
    let again = ["chat", "helper", "-m", "ring", "--session", &session, "--live-writes"];
    assert_eq!(desk.project.run(&again).code, 0);
    assert_eq!(desk.rings(), 2);
    desk.ask("helper", "ring", &["--live-writes"]);
    assert_eq!(desk.rings(), 0);
}

#[test]
fn what_an_inner_agent_asks_is_decided_and_the_root_goes_on() {
    let desk = Desk::new();
    let (_, calls) = desk.ask("boss", "ring", &["--live-writes"]);
    assert_snapshot!(desk.show(&["approve", &calls[0], "--live-writes"]), @r#"
    exit 0
    -- stdout
    The helper: It said: ring is done
    -- stderr
    approved ring {"n":1}
    "#);
    assert_eq!(desk.rings(), 1);
}

#[test]
fn who_may_not_does_not_and_what_is_no_call_is_told() {
    let desk = Desk::new();
    let (session, calls) = desk.ask("helper", "ring", &[]);
    let before = desk.project.events(&session).len();
    assert_snapshot!(desk.show(&["approve", &calls[0], "--as", "user:eve"]), @"
    exit 3
    -- stderr
    error: grant: `[actor]` may not approve what agent `helper` does for `[actor]`; an `acl` entry with role `approve` in agents/helper/spec.yaml would allow it; an admin may, and so may `[actor]`
    help: ask an administrator of the data directory; nothing was done
    ");
    assert_eq!(
        desk.project.error(&["deny", &calls[0], "--as", "user:eve"]),
        (3, "engine::denied".to_owned())
    );
    assert_snapshot!(desk.show(&["approve", "01J9ZDQ8M3E4F5G6H7J8K9MNPQ"]), @"
    exit 1
    -- stderr
    error: there is no call [id]
    help: see `weir approvals` for what waits
    ");
    assert_snapshot!(desk.show(&["approve", "0000"]), @"
    exit 1
    -- stderr
    error: no call that waits for approval has an id that begins or ends with `0000`
    help: see `weir approvals` for what waits
    ");
    assert_snapshot!(desk.show(&["deny", "no/id"]), @"
    exit 2
    -- stderr
    error: `no/id` is not the id of a call
    help: write an id from `weir approvals`, or its beginning or end
    ");
    assert_eq!(desk.project.events(&session).len(), before, "what is refused is not written down");
    desk.project.ok(&["session", "halt", &session]);
    assert_snapshot!(desk.show(&["approve", &calls[0]]), @"
    exit 1
    -- stderr
    error: session [id] is halted
    help: go on with `weir session resume [id]`
    ");
}

#[test]
fn a_decision_can_be_left_to_whoever_goes_on() {
    let desk = Desk::new();
    let (session, calls) = desk.ask("helper", "ring", &["--live-writes"]);
    assert_snapshot!(desk.show(&["approve", &calls[0], "--no-run"]), @"
    exit 0
    -- stdout
    approved [id]
    -- stderr
    note: nobody runs it now; `weir session resume [id] --live-writes` does
    ");
    assert_eq!(desk.rings(), 0);
    desk.project.ok(&["session", "resume", &session, "--live-writes"]);
    assert_eq!(desk.rings(), 1);
    let (_, calls) = desk.ask("helper", "ring", &[]);
    let written = desk.project.json(&["deny", &calls[0], "--no-run"]);
    assert_eq!((&written["decision"], &written["call"]), (&"denied".into(), &calls[0].clone().into()));
}

/// While a call beside it is at work, its process takes the decision up.
#[test]
fn a_living_process_takes_a_decision_up() {
    let desk = Desk::new();
    desk.project.hold("eye", true);
    let chat = desk.project.start(&["chat", "helper", "-m", "ring and look", "--live-writes"]);
    desk.project.await_call("eye");
    let look = || desk.project.lines(&["approvals"]).first().map(|line| field(line, "id"));
    let call = eventually_or(look, || "nothing is asked".to_owned());
    let said = desk.project.run(&["approve", &call]);
    let said = desk.mask(&said).replace(&chat.pid().to_string(), "[pid]");
    assert_snapshot!(said, @"
    exit 0
    -- stdout
    approved [id]
    -- stderr
    note: process [pid] runs session [id] and takes this up
    ");
    desk.project.hold("eye", false);
    let ran = chat.wait(Duration::from_secs(60));
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(desk.rings(), 1);
}

#[test]
fn nothing_uses_an_approval_up_for_nothing() {
    let desk = Desk::new();
    let asked = desk.project.run(&["chat", "helper", "-m", "ring"]);
    // Both ways to go on are there to paste, and neither of them is the default.
    for flag in ["--live-writes", "--dry-run"] {
        let pasted = format!("weir approve [id] {flag}\n");
        assert!(desk.mask(&asked).contains(&pasted), "{asked}");
    }
    let listed = desk.project.lines(&["approvals"]).remove(0);
    let call = field(&listed, "id");
    assert_eq!(listed["dry_run"], true);
    assert_eq!(desk.project.error(&["approve", &call]), (2, "cli::would-pretend".to_owned()));
    assert_eq!(desk.project.error(&["approve", &call, "--no-run"]), (2, "cli::would-pretend".to_owned()));
    assert_eq!(desk.project.error(&["approve", &call, "--dry-run", "--live-writes"]).0, 2);
    assert_eq!(desk.project.lines(&["approvals"]).len(), 1, "it still waits");
    desk.project.ok(&["approve", &call, "--live-writes"]);
    assert_eq!(desk.rings(), 1);
    let (_, calls) = desk.ask("helper", "ring", &[]);
    assert!(desk.project.ok(&["approve", &calls[0], "--dry-run"]).contains("DRY RUN"));
    assert_eq!(desk.rings(), 0);
}

#[test]
fn an_approval_that_nobody_gives_in_time_expires() {
    let desk = Desk::new();
    let rules = "rules:\n  - { id: soon, when: { tool: ring }, then: require_approval, within: 1s }\n";
    let yaml = std::fs::read_to_string(desk.project.weir.path().join("weir.yaml")).unwrap();
    desk.project.write("weir.yaml", &format!("{yaml}{rules}"));
    desk.project.build();
    let (session, calls) = desk.ask("helper", "ring", &["--live-writes"]);
    // Whichever list is asked for brings it about.
    let expired = || {
        let listed = desk.project.lines(&["session", "list"]);
        let is_open = listed.iter().any(|row| row["id"] == session.as_str() && row["status"] == "waiting");
        (!is_open).then_some(())
    };
    eventually_or(expired, || "it does not expire".to_owned());
    assert_eq!(desk.project.lines(&["approvals"]), [] as [serde_json::Value; 0]);
    assert_eq!(desk.project.payloads(&session, "approval.expired").len(), 1);
    let late = desk.project.error(&["approve", &calls[0], "--live-writes"]);
    assert_eq!(late.1, "engine::approval-decided");
    let told = desk.project.ok(&["session", "resume", &session, "--live-writes"]);
    assert!(told.contains("nobody approved it in time"), "{told}");
    assert_eq!(desk.rings(), 0);
}
