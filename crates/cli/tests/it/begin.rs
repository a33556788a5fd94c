//! `weir init` and `weir new`, as a new user meets them: every printed next step is a command that works.

use insta::assert_snapshot;

use crate::weir::{Ran, Weir};

/// Runs a printed command in a shell, with `weir` on the path and nothing else of ours.
fn follow(weir: &Weir, commands: &str) -> Ran {
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_weir")).parent().unwrap();
    let path = format!("{}:/usr/bin:/bin", binary.display());
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-ec", commands]).current_dir(weir.path()).env_clear().env("PATH", path);
    shell.env("HOME", weir.path()).stdin(std::process::Stdio::null());
    Ran::from(shell.output().unwrap())
}

#[test]
fn a_new_project_works_at_once() {
    let weir = Weir::new();
    let made = weir.run(&["init", "my agents"]);
    assert_snapshot!(weir.mask(&made.to_string()), @"
    exit 0
    -- stdout
    made a project in my agents:
      weir.yaml
      agents/helper/spec.yaml
      agents/helper/SOUL.md
      agents/editor/spec.yaml
      tools/count_words.ts
      models/helper.yaml
      models/editor.yaml
      tests/helper.yaml
      tsconfig.json
      .gitignore
      README.md

    next:
      cd 'my agents'
      weir build
      weir chat helper
      weir test
      weir run
    ");
    // The commands that it printed, in the order in which it printed them; the chat reads what is piped into it.
    let next = made.stdout.split("next:\n").nth(1).unwrap();
    assert_eq!(
        next.lines().map(str::trim).collect::<Vec<_>>(),
        ["cd 'my agents'", "weir build", "weir chat helper", "weir test", "weir run"]
    );
    // The last one serves until it is told to stop, which has tests of its own.
    let next = next.strip_suffix("  weir run\n").unwrap();
    let script = next.replace("weir chat helper", "echo 'What time is it?' | weir chat helper");
    let followed = follow(&weir, &script).to_string();
    // How long it took, and what time it was.
    let (before, after) = followed.split_once("all passed (").unwrap();
    let (_, after) = after.split_once(" s)").unwrap();
    let followed = format!("{before}all passed ([seconds] s){after}").replace("Z.\n", "Z .\n");
    assert_snapshot!(weir.mask(&followed), @"
    exit 0
    -- stdout
    ✓ built 2 agents, 1 tool source (7.2 KB)
      [hash]
    Let me look at the clock.
    It is [time] .
    tests/helper.yaml
      ✓ greets
      ✓ looks at the clock instead of guessing
      ✓ counts with its own tool, and asks the editor
    3 scenarios: all passed ([seconds] s)
    -- stderr
    → get_time {}
    session [id]
    ");
    // Nothing in it is left to be complained about.
    let checked = follow(&weir, "cd 'my agents' && weir check --json");
    let document: serde_json::Value = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!(document["diagnostics"], serde_json::json!([]));
}

#[test]
fn the_account_of_a_new_project_may_use_its_agents() {
    let weir = Weir::new();
    weir.ok(&["init"]);
    for said in ["What time is it?", "count: a low dam", "review: a low dam"] {
        let told = weir.json(&["chat", "helper", "-m", said, "--as", "serviceaccount:digest-bot"]);
        let answer = told["answer"].as_str().unwrap();
        assert!(!answer.contains("blocked") && !answer.contains("{{"), "{said}: {answer}");
    }
    for agent in ["helper", "editor"] {
        let listed = weir.ok(&["tools", "list", agent, "--as", "serviceaccount:digest-bot"]);
        assert!(!listed.contains("none") && !listed.contains("denied"), "{listed}");
    }
}

/// The comments of the scaffold say how a real model is used. Its tests go on without key and network.
#[test]
fn a_new_project_passes_its_tests_with_a_real_model() {
    let weir = Weir::new();
    weir.ok(&["init"]);
    let path = weir.path().join("agents/helper/spec.yaml");
    let spec = std::fs::read_to_string(&path).unwrap();
    let real = spec.replace("model: scripted/helper", "model: anthropic/claude-sonnet-4-5");
    assert_ne!(real, spec);
    std::fs::write(&path, real).unwrap();
    let built = weir.run(&["build"]);
    assert_eq!((built.code, built.stderr.as_str()), (0, ""), "{built}");
    let tested = weir.run(&["test"]);
    assert_eq!(tested.code, 0, "{tested}");
}

#[test]
fn an_existing_directory_keeps_what_it_has() {
    let weir = Weir::new();
    weir.write("README.md", "mine");
    weir.write(".gitignore", "mine");
    weir.ok(&["init"]);
    assert_eq!(std::fs::read_to_string(weir.path().join("README.md")).unwrap(), "mine");
    assert_eq!(std::fs::read_to_string(weir.path().join(".gitignore")).unwrap(), "mine");
    weir.ok(&["build"]);
    // A project is not made twice, and nothing of a project is written over.
    assert_snapshot!(weir.show(&["init", "."]), @"
    exit 2
    -- stderr
    error: `.` has a project already
    help: add to it with `weir new agent NAME`, or choose another directory
    ");
    let other = Weir::new();
    other.write("models/helper.yaml", "mine");
    assert_eq!(other.error(&["init"]), (2, "cli::exists".to_owned()));
    assert_eq!(std::fs::read_dir(other.path()).unwrap().count(), 1);
}

#[test]
fn a_project_grows_and_keeps_building() {
    let weir = Weir::new();
    weir.ok(&["init"]);
    for (args, next) in [
        (["new", "agent", "scout"], "weir chat scout -m hello"),
        (["new", "loop", "evening"], "weir build"),
        (["new", "tool", "look-up"], "weir build"),
    ] {
        let made = weir.ok(&args);
        assert_eq!(made.lines().last(), Some(&*format!("next: {next}")), "{made}");
        let followed = follow(&weir, next);
        assert_eq!(followed.code, 0, "{followed}");
    }
    assert_snapshot!(weir.show(&["new", "agent", "scout"]), @"
    exit 2
    -- stderr
    error: `./agents/scout/spec.yaml` already exists
    help: choose another name, or remove it; nothing was changed
    ");
    assert_snapshot!(weir.show(&["new", "agent", "../scout"]), @"
    exit 2
    -- stderr
    error: `../scout` is not a name: letters, digits, `-` and `_`, at most 64
    help: choose one like `release-notes`
    ");
}

#[test]
fn a_loop_needs_somebody_to_talk_to_and_to_be() {
    let weir = Weir::new();
    assert_snapshot!(weir.show(&["new", "loop", "evening"]), @"
    exit 1
    -- stderr
    error: a loop needs an agent, and `.` has none
    help: make one first: `weir new agent helper`
    ");
    weir.ok(&["new", "agent", "scout"]);
    assert_snapshot!(weir.show(&["new", "loop", "evening"]), @"
    exit 1
    -- stderr
    error: a loop runs as a service account, and weir.yaml declares none
    help: add `service_accounts: [{ name: clock-bot }]` to weir.yaml
    ");
    weir.write("weir.yaml", "service_accounts: [{ name: clock-bot }]\n");
    weir.ok(&["new", "loop", "evening"]);
    weir.ok(&["build"]);
}

#[test]
fn a_loop_is_made_unless_weir_yaml_itself_is_broken() {
    let weir = Weir::new();
    weir.ok(&["new", "agent", "scout"]);
    let other_files = "
service_accounts: [{ name: clock-bot }]
tool_grants: [{ tool: bash, grants: [{ principal: \"serviceaccount:later\", access: read }] }]
rules: [{ id: careful, when: { agent: scout }, then: require_approval }]
hooks: { pre_append: [{ script: hooks/check.ts }] }
";
    weir.write("weir.yaml", other_files);
    weir.ok(&["new", "loop", "evening"]);
    weir.write("weir.yaml", &format!("{other_files}rulse: []\n"));
    assert_eq!(weir.error(&["new", "loop", "morning"]), (2, "spec::unknown-key".to_owned()));
    assert!(!weir.path().join("loops/morning.yaml").exists());
}

/// The declarations for editors name what a script really has.
#[test]
fn the_types_of_tools_are_kept_for_editors_and_name_what_there_is() {
    let weir = Weir::new();
    weir.ok(&["init"]);
    let types = weir.ok(&["schema", "types"]);
    assert_eq!(types, std::fs::read_to_string(weir.data().join("schema/weir.d.ts")).unwrap());
    let config = std::fs::read_to_string(weir.path().join("tsconfig.json")).unwrap();
    let config: serde_json::Value = serde_json::from_str(&config).unwrap();
    assert_eq!(config["files"], serde_json::json!([".weir/schema/weir.d.ts"]));
    let declared = types.lines().filter_map(|line| {
        let rest = ["declare class ", "declare function ", "declare const "]
            .iter()
            .find_map(|word| line.strip_prefix(word))?;
        rest.split(|c: char| !c.is_alphanumeric()).next()
    });
    let declared: Vec<&str> = declared.collect();
    assert!(declared.contains(&"fetch") && declared.len() > 15, "{declared:?}");
    let names = serde_json::to_string(&declared).unwrap();
    weir.write(
        "tools/names.ts",
        &format!("import {{ defineTool }} from 'weir';\nexport default defineTool({{ name: 'names', description: 'd', execute: () => {names}.filter((name) => typeof (globalThis as any)[name] === 'undefined') }});\n"),
    );
    weir.write(
        "agents/a/spec.yaml",
        "name: a\nmodel: offline/echo\ntools: [{ name: tools/names, access: read }]\n",
    );
    assert_eq!(weir.ok(&["tools", "call", "a", "names"]).trim(), "[]");
}

#[test]
fn schemas_are_printed_and_kept_for_editors() {
    let weir = Weir::new();
    weir.ok(&["init"]);
    for name in ["project", "agent", "loop", "script", "tests"] {
        let printed = weir.ok(&["schema", name]);
        let kept = std::fs::read_to_string(weir.data().join(format!("schema/{name}.json"))).unwrap();
        assert_eq!(printed, kept, "{name}");
        let schema: serde_json::Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    }
    // The first line of every file that `init` makes names a schema that is there.
    for file in ["weir.yaml", "agents/helper/spec.yaml", "models/helper.yaml", "tests/helper.yaml"] {
        let path = weir.path().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        let schema = text.lines().next().unwrap().split("$schema=").nth(1).unwrap();
        assert!(path.parent().unwrap().join(schema).is_file(), "{file}: {schema}");
    }
}
