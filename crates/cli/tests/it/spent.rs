//! Budgets as people meet them: what is left, what stopped, who puts more in, and how it goes on.

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::outside::Project;
use crate::running::eventually;
use crate::typed::Terminal;
use crate::weir::Ran;

/// A project with an agent that looks at the clock as often as it is told to, each time with a model call.
fn project(budgets: &str) -> Project {
    let project = Project::new();
    project.write(
        "weir.yaml",
        &format!(
            "project: purse\nmodels:\n  scripted/helper: {{ wire: scripted, context_window: 100000, output_max: 1000, \
             price: {{ input: 1000, output: 1000 }} }}\n{budgets}"
        ),
    );
    let usage = json!({"input": 100, "output": 10});
    let look = json!([{"tool": "get_time", "input": {}}]);
    let replies = json!([
        {"when": {"user": "^look"}, "call": look, "usage": usage},
        {"when": {"user": "^slow"}, "say": "At last.", "delay": "60s", "usage": usage},
        {"when": {"tool": "get_time"}, "say": "I have looked.", "usage": usage},
        {"say": "Hello.", "usage": usage},
    ]);
    let acl = "acl: [{ principal: \"user:zoe\", role: execute }]\n";
    project.agent("helper", &format!("tools: [{{ name: get_time }}]\n{acl}"), &replies);
    project
}

fn show(project: &Project, args: &[&str]) -> String {
    let ran = project.run(args).to_string();
    let today = weir_engine::day(weir_journal::now());
    let me = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().name;
    let ran = ran.replace(&today, "[today]").replace(&format!("principal:user:{me}:"), "[me]:");
    // Columns are as wide as the names in them.
    let lines = ran.lines().map(|line| match line.split_once("  ") {
        Some((name, rest)) if !name.is_empty() => format!("{name}  {}", rest.trim_start()),
        _ => line.to_owned(),
    });
    project.weir.mask(&lines.collect::<Vec<_>>().join("\n"))
}

/// The session that called one which a limit stopped has been told that the call failed, and how the other goes on.
#[test]
fn a_resumed_child_says_that_its_parent_has_gone_on_without_it() {
    let project = Project::new();
    let work = json!([{"tool": "clerk", "input": {"message": "work"}}]);
    let replies =
        json!([{"when": {"user": "^go"}, "call": work}, {"when": {"tool": "clerk"}, "say": "{{result}}"}]);
    project.agent("boss", "tools: [{ server: \"weir://clerk\", access: write }]\n", &replies);
    let look = json!([{"tool": "get_time", "input": {}}]);
    let replies = json!([
        {"when": {"user": "^work"}, "call": look},
        {"when": {"tool": "get_time"}, "say": "It is late."},
    ]);
    project.agent("clerk", "limits: { model_calls: 1 }\ntools: [{ name: get_time }]\n", &replies);
    project.write("weir.yaml", "project: office\n");
    project.build();
    let told = project.json(&["chat", "boss", "-m", "go", "--live-writes"]);
    let answer = told["answer"].as_str().unwrap();
    let paste = answer.split("`weir ").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
    let words: Vec<&str> = paste.split(' ').collect();
    assert_eq!(words[..2], ["session", "resume"], "{answer}");
    let resumed = project.run(&words);
    assert_eq!((resumed.code, resumed.stdout.trim()), (0, "It is late."), "{resumed}");
    let parent = told["session"].as_str().unwrap();
    let hint = format!("`weir chat boss --session {parent} -m TEXT`");
    assert!(resumed.stderr.contains("has gone on without this answer"), "{resumed}");
    assert!(resumed.stderr.replace('\n', " ").contains(&hint), "{resumed}");
}

#[test]
fn a_run_that_a_budget_stops_says_which_and_how_it_goes_on() {
    let project = project("budgets: { per_session: { model_calls: 1 } }\n");
    let stopped = project.run(&["chat", "helper", "-m", "look"]);
    assert_snapshot!(project.weir.mask(&stopped.to_string()), @"
    exit 5
    -- stderr
    → get_time {}
    note: the budget of this session is too small: of 1 model call 1 model call are spent or set aside, and the next call may take 1 model call; go on with `weir session resume [id] --budget model_calls=1`
    ");
    // Someone who may not put more in is told so, about a session of their own; those of others are not there for them.
    let pasted = |ran: &Ran| -> Vec<String> {
        let paste = ran.stderr.rsplit('`').nth(1).unwrap();
        paste.split_whitespace().skip(1).map(str::to_owned).collect()
    };
    let zoes = project.run(&["chat", "helper", "-m", "look", "--as", "user:zoe"]);
    let zoes = pasted(&zoes);
    let words: Vec<&str> = zoes.iter().map(String::as_str).chain(["--as", "user:zoe"]).collect();
    assert_snapshot!(show(&project, &words), @"
    exit 3
    -- stderr
    error: `[actor]` may not raise a budget; only an administrator of the data directory may
    help: ask an administrator of the data directory; nothing was done
    ");
    // What is pasted works; without more it stops again.
    let mine = pasted(&stopped);
    let words: Vec<&str> = mine.iter().map(String::as_str).collect();
    assert_eq!(project.run(&[&words[..], &["--as", "user:zoe"]].concat()).code, 1);
    assert_eq!(project.run(&words[..3]).code, 5);
    assert_snapshot!(show(&project, &words), @"
    exit 0
    -- stdout
    I have looked.
    ");
    assert_snapshot!(show(&project, &words), @"
    exit 1
    -- stderr
    error: session [id] was not stopped by a limit that a budget could raise
    help: see why it stopped with `weir session show [id]`, and resume it without giving it more
    ");
    for (budget, code) in [("usd", 2), ("usd=-1", 2), ("euros=5", 2), ("tokens=0", 2)] {
        let error = project.error(&[&words[..3], &["--budget", budget]].concat());
        assert_eq!(error, (code, "cli::budget".to_owned()), "{budget}");
    }
}

#[test]
fn what_is_left_is_shown_for_people_and_programs() {
    let project = project(
        "budgets: { per_day: { usd: 10, tokens: 100000 }, per_agent: { model_calls: 3 }, per_principal: { tokens: 5000 } }\n",
    );
    project.run(&["session", "list"]);
    project.chat("helper", "hello", &["--as", "user:zoe"]);
    assert_snapshot!(show(&project, &["budget", "show"]), @"
    exit 0
    -- stdout
    SCOPE  OF           LIMIT    SETTLED  IN FLIGHT  LEFT
    agent:helper:[today]  model calls  3        1        0          2
    day:[today]  usd          $10.00   $0.11    $0.00      $9.89
    day:[today]  tokens       100,000  110      0          99,890
    [me]:[today]  tokens       5,000    0        0          5,000
    principal:user:zoe:[today]  tokens       5,000    110      0          4,890
    ");
    project.chat("helper", "look", &[]);
    let stopped = project.run(&["chat", "helper", "-m", "hello"]);
    assert_eq!(stopped.code, 5, "{stopped}");
    assert_snapshot!(show(&project, &["budget", "show"]), @"
    exit 0
    -- stdout
    SCOPE  OF           LIMIT    SETTLED  IN FLIGHT  LEFT
    agent:helper:[today]  model calls  3        3        0          0
    day:[today]  usd          $10.00   $0.33    $0.00      $9.67
    day:[today]  tokens       100,000  330      0          99,670
    [me]:[today]  tokens       5,000    220      0          4,780
    principal:user:zoe:[today]  tokens       5,000    110      0          4,890
    -- stderr
    note: session [id] waits: the budget of agent `helper` on [today] (UTC) is too small: of 3 model calls 3 model calls are spent or set aside, and the next call may take 1 model call
      weir session resume [id] --budget model_calls=3
    ");
    assert_snapshot!(show(&project, &["budget", "show", "--agent", "helper"]), @"
    exit 0
    -- stdout
    SCOPE  OF           LIMIT  SETTLED  IN FLIGHT  LEFT
    agent:helper:[today]  model calls  3      3        0          0
    -- stderr
    note: session [id] waits: the budget of agent `helper` on [today] (UTC) is too small: of 3 model calls 3 model calls are spent or set aside, and the next call may take 1 model call
      weir session resume [id] --budget model_calls=3
    ");
    let lines = project.lines(&["budget", "show", "--agent", "helper"]);
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["limit"], json!({"model_calls": 3}));
    assert_eq!(
        (&lines[0]["settled"], &lines[0]["left"]),
        (&json!({"model_calls": 3}), &json!({"model_calls": 0}))
    );
    assert_eq!(lines[0]["stopped"], json!([project.latest()]));
    // More in the purse is more for everybody who draws from it.
    let resume = ["session", "resume", "-1", "--budget", "model_calls=2"];
    project.ok(&resume);
    let line = &project.lines(&["budget", "show", "--agent", "helper"])[0];
    assert_eq!((&line["raised"], &line["left"]), (&json!({"model_calls": 2}), &json!({"model_calls": 1})));
    assert_eq!(line["stopped"], json!([]));
    let of_session = project.lines(&["budget", "show", "--session", "-1"]);
    let scopes: Vec<&str> =
        of_session.iter().filter_map(|line| line["scope"].as_str()?.split(':').next()).collect();
    assert_eq!(scopes, ["agent", "principal", "day"]);
    assert_snapshot!(show(&project, &["budget", "show", "--day", "2020-02-02"]), @"
    exit 0
    -- stderr
    note: there is no budget for 2020-02-02; `budgets` in weir.yaml would set one
    ");
    assert_snapshot!(show(&project, &["budget", "show", "--day", "yesterday"]), @"
    exit 2
    -- stderr
    error: `yesterday` is not a day
    help: write it as year, month and day: `2026-07-31`
    ");
}

/// Dollars, too: what is set aside before a call must fit.
#[test]
fn a_budget_in_dollars_stops_before_the_call_that_would_exceed_it() {
    let project = project("budgets: { per_day: { usd: 1.5 } }\n");
    project.chat("helper", "hello", &[]);
    let stopped = project.run(&["chat", "helper", "-m", "hello"]);
    assert_eq!(stopped.code, 0, "{stopped}");
    let spent = &project.lines(&["budget", "show"])[0];
    assert!(spent["settled"]["usd"].as_f64().unwrap() > 0.0, "{spent}");
    let tight = Value::from(spent["settled"]["usd"].as_f64().unwrap() + 0.01);
    project.write(
        "weir.yaml",
        &std::fs::read_to_string(project.weir.path().join("weir.yaml"))
            .unwrap()
            .replace("1.5", &tight.to_string()),
    );
    let stopped = project.run(&["chat", "helper", "-m", "hello"]);
    assert_eq!(stopped.code, 5, "{stopped}");
    assert!(
        stopped.stderr.contains("the budget of everybody on ") && stopped.stderr.contains("--budget usd="),
        "{stopped}"
    );
    let paste = stopped.stderr.rsplit('`').nth(1).unwrap().to_owned();
    project.ok(&paste.split_whitespace().skip(1).collect::<Vec<_>>());
}

#[test]
fn at_a_terminal_what_is_left_is_told_and_more_can_be_given() {
    let project = project("budgets: { per_session: { model_calls: 2 } }\n");
    let mut chat = Terminal::run(project.command(&["chat", "helper"]));
    let say = |chat: &mut Terminal, text: &str| {
        chat.see("you › ");
        chat.press(text);
        chat.press("\r");
    };
    say(&mut chat, "hello");
    chat.see("Hello.");
    say(&mut chat, "/usage");
    chat.see("1 model call of 2 model calls left for this session");
    say(&mut chat, "look");
    chat.see("the budget of this session is too small");
    chat.see("go on with /resume model_calls=2");
    say(&mut chat, "/resume nothing");
    chat.see("`nothing` says no amount");
    say(&mut chat, "/resume model_calls=2");
    chat.see("I have looked.");
    say(&mut chat, "/usage");
    chat.see("1 model call of 4 model calls left for this session");
    say(&mut chat, "/quit");
    assert_eq!(chat.end(), Some(0));
}

/// What a call may take is set aside before it, seen by everybody, and given back or kept whoever dies.
#[test]
fn what_is_set_aside_is_seen_and_settled_after_a_kill() {
    let project = project("budgets: { per_day: { model_calls: 10, tokens: 100000 } }\n");
    project.run(&["chat", "helper", "-m", "hello"]);
    let day = || project.lines(&["budget", "show"]).remove(0);
    let settled = day()["settled"]["tokens"].as_u64().unwrap();
    assert_eq!((settled, &day()["held"]), (110, &json!({"tokens": 0, "model_calls": 0})));
    let chat = project.start(&["chat", "helper", "-m", "slow"]);
    let held = eventually(|| day()["held"]["tokens"].as_u64().filter(|held| *held > 0));
    assert_eq!((&day()["calls"], &day()["left"]["tokens"]), (&json!(1), &json!(100_000 - 110 - held)));
    chat.kill();
    assert_eq!(day()["held"]["tokens"], held, "nobody knows yet what it took");
    let script = project.weir.path().join("models/helper.yaml");
    let text = std::fs::read_to_string(&script).unwrap();
    std::fs::write(&script, text.replace("60s", "1ms")).unwrap();
    project.ok(&["session", "resume", "-1"]);
    // What nobody knows counts in full, and the second attempt for what it took.
    assert_eq!(day()["held"], json!({"tokens": 0, "model_calls": 0}));
    assert_eq!(day()["settled"], json!({"tokens": 110 + held + 110, "model_calls": 3}));
}

/// A run that goes round in circles is told so, stopped, and can be let go on.
#[test]
fn a_run_that_goes_round_in_circles_is_stopped_and_says_so() {
    let project = Project::new();
    project.write("file.txt", "the same");
    let replies = json!([
        {"when": {"user": "^go"}, "call": [{"tool": "fs_list", "input": {}}]},
        {"when": {"tool": "fs_list"}, "call": [{"tool": "fs_list", "input": {}}]},
    ]);
    project.agent("helper", "tools: [{ name: fs }]\nlimits: { iterations: 30 }\n", &replies);
    assert_snapshot!(show(&project, &["chat", "helper", "-m", "go"]), @"
    exit 5
    -- stderr
    → fs_list {}
    → fs_list {}
    → fs_list {}
    → fs_list {}
    → fs_list {}
    → fs_list {}
    note: the run is going round in circles: it called `fs_list` 6 times with the same arguments and the same result; go on with `weir session resume [id]`
    ");
    let told = project.ok(&["session", "show", "-1", "--request", "4"]);
    assert!(told.contains("3 times now; repeating it changes nothing"), "{told}");
}
