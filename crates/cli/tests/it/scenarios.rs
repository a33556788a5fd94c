//! `weir test`: what passes, what fails and how that is shown.

use insta::assert_snapshot;

use crate::chat::project;

const TESTS: &str = r#"agent: helper
scenarios:
  - name: greets
    steps:
      - say: hello
        expect: { answer: '^Hello', calls: [], stop: end, cost_below: 0.01 }
  - name: looks at the clock
    steps:
      - say: "What time is it?"
        expect: { calls: [{ tool: get_time, input: {} }], answer: 'It is 20\d\d' }
      - say: hello
        expect: { answer: "Hello, you." }
"#;

#[test]
fn scenarios_that_pass() {
    let weir = project();
    weir.write("tests/helper.yaml", TESTS);
    let seconds = |text: String| {
        let (before, after) = text.split_once("all passed (").unwrap();
        format!("{before}all passed ([time]{}", after.split_once(" s").map_or("", |(_, rest)| rest))
    };
    assert_snapshot!(seconds(weir.show(&["test"])), @"
    exit 0
    -- stdout
    tests/helper.yaml
      ✓ greets
      ✓ looks at the clock
    2 scenarios: all passed ([time])
    ");
    assert_snapshot!(seconds(weir.show(&["test", "clock"])), @"
    exit 0
    -- stdout
    tests/helper.yaml
      ✓ looks at the clock
    1 scenario: all passed ([time])
    ");
    assert_snapshot!(weir.show(&["test", "weather"]), @"
    exit 1
    -- stderr
    error: no scenario and no file in tests/ has `weather` in its name
    help: run all of them with `weir test`
    ");
    // What an agent does not list is refused, and a test can expect that.
    weir.write(
        "models/shell.yaml",
        "replies:\n  - when: { user: shell }\n    call: [{ tool: bash, input: { command: ls } }]\n  - when: { tool: bash, failed: true }\n    say: I may not.\n",
    );
    weir.write(
        "tests/shell.yaml",
        "agent: helper\nmodel: scripted/shell\nscenarios:\n  - name: has no shell\n    steps: [{ say: use the shell, expect: { denied: [bash], answer: may not } }]\n",
    );
    weir.ok(&["test", "shell"]);
    // Nothing of it is kept.
    assert!(!weir.journal().exists());
}

#[test]
fn what_fails_is_shown_where_it_was_expected() {
    let weir = project();
    weir.write(
        "tests/wrong.yaml",
        r#"agent: helper
scenarios:
  - name: every expectation
    steps:
      - say: "What time is it?"
        expect:
          answer: 'no idea'
          calls: []
          denied: [get_time]
          cost_below: 0.000001
          stop: iterations
      - say: hello
        expect: { answer: "never looked at" }
  - name: other arguments
    steps:
      - say: "What time is it?"
        expect: { calls: [{ tool: get_time, input: { zone: UTC } }] }
  - name: a failure nobody expected
    steps: [{ say: broken }]
  - name: a failure that is expected
    steps: [{ say: broken, expect: { stop: failed } }]
"#,
    );
    let ran = weir.run(&["test"]);
    let text = weir.mask(&ran.to_string());
    let (shown, _) =
        text.split_once(" (").map_or((text.as_str(), ""), |_| (text.rsplit_once(" (").unwrap().0, ""));
    assert_snapshot!(shown, @r#"
    exit 1
    -- stdout
    tests/wrong.yaml
      ✗ every expectation
    error[test::answer]: the answer is another one
       ╭─[tests/wrong.yaml:7:19]
     6 │         expect:
     7 │           answer: 'no idea'
       ·                   ────┬────
       ·                       ╰── the answer was: It is [time] now.
       ╰────
    error[test::calls]: the calls were others: get_time
       ╭─[tests/wrong.yaml:8:18]
     7 │           answer: 'no idea'
     8 │           calls: []
       ·                  ─┬
       ·                   ╰── it called: get_time {}
       ╰────
    error[test::denied]: no call of `get_time` was refused
       ╭─[tests/wrong.yaml:9:19]
     8 │           calls: []
     9 │           denied: [get_time]
       ·                   ─────┬────
       ·                        ╰── it called: get_time {}
       ╰────
    error[test::stop]: the turn ended with `end`
        ╭─[tests/wrong.yaml:11:17]
     10 │           cost_below: 0.000001
     11 │           stop: iterations
        ·                 ─────┬────
        ·                      ╰── see `stop` in `weir schema tests`
        ╰────
    error: 4 errors
      ✗ other arguments
    error[test::calls]: the calls were others: get_time
        ╭─[tests/wrong.yaml:17:26]
     16 │       - say: "What time is it?"
     17 │         expect: { calls: [{ tool: get_time, input: { zone: UTC } }] }
        ·                          ─────────────────────┬────────────────────
        ·                                               ╰── it called: get_time {}
        ╰────
      ✗ a failure nobody expected
    error[test::failed]: the run failed: the script fails here: auth
        ╭─[tests/wrong.yaml:19:20]
     18 │   - name: a failure nobody expected
     19 │     steps: [{ say: broken }]
        ·                    ───┬──
        ·                       ╰── a turn that is to fail expects `stop: failed`
        ╰────
      ✓ a failure that is expected
    4 scenarios: 3 failed
    "#);
    let lines = weir.run(&["test", "--json"]);
    let reports: Vec<serde_json::Value> =
        lines.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let passed: Vec<_> = reports
        .iter()
        .map(|report| (report["passed"].clone(), report["problems"].as_array().unwrap().len()))
        .collect();
    assert_eq!(lines.code, 1);
    assert_eq!(passed, [(false.into(), 4), (false.into(), 1), (false.into(), 1), (true.into(), 0)]);
}

/// Streams of other kinds, however many, do not hide the session of a recording.
#[test]
fn the_session_of_a_recording_is_found_among_many_streams() {
    let weir = project();
    weir.say("What time is it?");
    for n in 0..21 {
        weir.ok(&["append", "--stream", &format!("note-{n}"), "--kind", "note.added"]);
    }
    std::fs::create_dir_all(weir.path().join("tests/recordings")).unwrap();
    weir.ok(&["export", "-o", "tests/recordings/clock.jsonl"]);
    weir.write(
        "tests/recorded.yaml",
        "agent: helper\nmodel: recorded/clock\nscenarios:\n  - name: as recorded\n    steps: [{ say: \"What time is it?\", expect: { calls: [get_time] } }]\n",
    );
    weir.ok(&["test"]);
}

#[test]
fn a_recorded_session_is_a_test() {
    let weir = project();
    let session = weir.say("What time is it?");
    std::fs::create_dir_all(weir.path().join("tests/recordings")).unwrap();
    let stream = format!("session:{session}");
    weir.ok(&["export", "--stream", &stream, "-o", "tests/recordings/clock.jsonl"]);
    let expected = "agent: helper\nmodel: recorded/clock\nscenarios:\n  - name: as recorded\n    steps: [{ say: \"What time is it?\", expect: { calls: [get_time], answer: 'It is 20' } }]\n";
    weir.write("tests/recorded.yaml", expected);
    // The agent has another model by now, which needs a key; the recording does not.
    weir.write(
        "agents/helper/spec.yaml",
        "name: helper\nmodel: anthropic/claude-sonnet-4-5\ntools: [{ name: get_time }]\n",
    );
    weir.ok(&["test"]);
    weir.write("tests/recorded.yaml", &expected.replace("recorded/clock", "recorded/gone"));
    assert_snapshot!(weir.show(&["test"]), @"
    exit 2
    -- stderr
    warning[spec::no-instructions]: nothing says what the agent `helper` is: its system prompt is empty
       ╭─[agents/helper/spec.yaml:1:7]
     1 │ name: helper
       ·       ───┬──
       ·          ╰── add a `description`, or a SOUL.md beside the spec
       ╰────
    warning[spec::unused-script]: no agent and no test uses the model `scripted/demo`
       at models/demo.yaml:1:1
    help: write `model: scripted/demo` in a spec or a test, or remove the file
    error[spec::no-file]: there is no `tests/recordings/gone.jsonl`
       ╭─[tests/recorded.yaml:2:8]
     1 │ agent: helper
     2 │ model: recorded/gone
       ·        ─────────────
       ╰────
    help: record it: `weir export --stream session:ID > tests/recordings/gone.jsonl`
    error: 1 error, 2 warnings
    ");
    weir.write("tests/recorded.yaml", &expected.replace("model: recorded/clock\n", ""));
    assert_snapshot!(weir.show(&["test"]), @"
    exit 2
    -- stdout
    tests/recorded.yaml
    -- stderr
    error: `tests/recorded.yaml` tests `helper` on its own model `anthropic/claude-sonnet-4-5`, which answers differently each time
    help: add `model: scripted/NAME` or `model: recorded/NAME` to the file
    ");
}

#[test]
fn a_project_without_tests_says_so() {
    assert_snapshot!(project().show(&["test"]), @"
    exit 1
    -- stderr
    error: there are no tests: `./tests` has no .yaml file with scenarios
    help: `weir init DIR` makes a project that has some; `weir schema tests` says what to write
    ");
}
