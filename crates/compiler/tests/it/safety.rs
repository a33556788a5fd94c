//! Building is safe on a project that was just cloned, and no secret gets into a manifest.

use weir_compiler::{Mode, Options};

use crate::project::{HELPER, Project, everything_below, server, told};

/// A project with a server that leaves a mark when it is started.
fn marking() -> Project {
    let program = server(r#"[{"name":"a","inputSchema":{"type":"object"}}]"#);
    let program = program.replacen("#!/bin/sh\n", "#!/bin/sh\ntouch started\n", 1);
    let spec = format!("{}tools: [{{ server: \"mcp://./servers/x.sh\", access: read }}]\n", HELPER.1);
    Project::new(&[(HELPER.0, &spec), ("servers/x.sh", &program)])
}

#[tokio::test]
async fn a_command_that_was_never_approved_here_is_not_started() {
    let author = marking();
    author.build_and_save().await;
    assert!(author.file("started").exists());

    // The lock names the server and its tools; that is the author's approval, not this user's.
    let mut clone = marking();
    clone.write("weir.lock", author.read("weir.lock"));
    clone.says_yes = false;
    let refused = clone.build(Mode::Online).await;
    assert_eq!(
        told(&refused),
        ["build::not-approved agents/helper/spec.yaml:4 `./servers/x.sh` was never approved on this machine"]
    );
    let update = Options { update_lock: true, ..clone.options(Mode::Online) };
    assert_eq!(clone.build_with(&update).await.built, None);
    for mode in [Mode::Check, Mode::Offline] {
        assert_eq!(told(&clone.build(mode).await), [""; 0], "{mode:?}");
    }
    assert!(!clone.file("started").exists());
    assert_eq!(clone.asked.lock().unwrap().as_slice(), ["./servers/x.sh", "./servers/x.sh"]);
}

#[tokio::test]
async fn an_approval_is_remembered_until_the_program_changes() {
    let mut project = marking();
    project.build_and_save().await;
    project.build_and_save().await;
    assert_eq!(project.asked.lock().unwrap().len(), 1);
    let program = project.read("servers/x.sh");
    project.write("servers/x.sh", format!("{program}# changed\n"));
    project.says_yes = false;
    assert_eq!(
        told(&project.build(Mode::Online).await),
        [
            "build::not-approved agents/helper/spec.yaml:4 `./servers/x.sh` has changed since it was approved on this machine, or code in its directory has"
        ]
    );
    project.says_yes = true;
    project.build_and_save().await;
    project.build_and_save().await;
    assert_eq!(project.asked.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_program_that_prints_a_secret_is_approved_with_the_command_it_is_for() {
    let entry =
        "tools: [{ server: \"mcp://./servers/x.sh\", access: read, env: { KEY: \"exec:sh secret.sh\" } }]\n";
    let spec = format!("{}{entry}", HELPER.1);
    let mut project = marking();
    project.write(HELPER.0, &spec);
    project.write("secret.sh", "touch printed; echo one\n");
    project.says_yes = false;
    project.build(Mode::Online).await;
    assert!(!project.file("printed").exists());

    project.says_yes = true;
    project.build_and_save().await;
    assert!(project.file("printed").exists());
    std::fs::remove_file(project.file("printed")).unwrap();
    project.write("secret.sh", "touch printed; echo another\n");
    project.says_yes = false;
    assert_eq!(project.build(Mode::Online).await.built, None);
    assert!(!project.file("printed").exists());

    // Where nothing is started there is nothing to approve, and no variable to look up.
    let remote = entry.replace("mcp://./servers/x.sh", "mcp://localhost:1/x");
    project.write(HELPER.0, format!("{}{remote}", HELPER.1));
    project.says_yes = true;
    assert_eq!(project.build(Mode::Online).await.built, None);
    assert!(!project.file("printed").exists());
}

#[tokio::test]
async fn checking_and_building_offline_start_nothing_and_write_nothing() {
    let project = marking();
    let before = everything_below(&project.path());
    for mode in [Mode::Check, Mode::Offline] {
        project.build(mode).await;
    }
    assert_eq!(everything_below(&project.path()), before);
    assert_eq!(project.asked.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn no_code_of_a_project_runs_while_it_is_built() {
    // A script that would never end, and whose name is only known once it has.
    let endless = "import { defineTool } from 'weir';\nwhile (true) {}\nexport default defineTool({ description: 'd', execute: () => 1 });\n";
    let spec = format!("{}tools: [{{ name: tools/endless, access: read }}]\n", HELPER.1);
    let project = Project::new(&[(HELPER.0, &spec), ("tools/endless.ts", endless)]);
    assert_eq!(told(&project.build(Mode::Online).await), [""; 0]);
}

/// Looks like a key, but only once it is put together.
fn key() -> String {
    format!("{}-ant-{}", "sk", "aB3dE5gH7jK9mN1pQ2sT4vW6yZ8")
}

#[tokio::test]
async fn a_key_is_refused_wherever_it_would_enter_the_manifest() {
    let key = key();
    let tool = |body: &str| {
        format!(
            "import {{ defineTool }} from 'weir';\nexport default defineTool({{ description: 'd', execute: () => {body} }});\n"
        )
    };
    let described = server(&format!(r#"[{{"name":"a","description":"{key}","inputSchema":{{}}}}]"#));
    let soul = format!("Use {key}.\n");
    let skill = "---\nname: s\ndescription: d\nprompt: more.md\n---\n".to_owned();
    let argument = format!("tools: [{{ server: \"mcp://npx/x?arg={key}\", access: read }}]\n");
    /// Lines of the spec, other files, and where the key is found.
    type Case<'c> = (&'c str, Vec<(&'c str, String)>, &'c str);
    let cases: Vec<Case<'_>> = vec![
        ("", vec![("agents/helper/SOUL.md", soul.clone())], "agents/helper/SOUL.md"),
        ("", vec![("policies/x.cedar", format!("// {key}\n"))], "policies/x.cedar"),
        (
            "tools: [{ name: tools/x, access: read }]\n",
            vec![("tools/x.ts", tool(&format!("'{key}'")))],
            "tools/x.ts",
        ),
        (
            "tools: [{ name: tools/x, access: read }]\n",
            vec![
                ("tools/x.ts", format!("import {{ k }} from '../lib/k.ts';\n{}", tool("k"))),
                ("lib/k.ts", format!("export const k = '{key}';\n")),
            ],
            "lib/k.ts",
        ),
        (
            "skills: [./skills/s]\n",
            vec![
                ("agents/helper/skills/s/SKILL.md", skill.clone()),
                ("agents/helper/skills/s/more.md", soul.clone()),
            ],
            "agents/helper/skills/s/more.md",
        ),
        (
            "tools: [{ server: \"mcp://./x.sh\", access: read }]\n",
            vec![("x.sh", described)],
            "agents/helper/spec.yaml",
        ),
        (&argument, vec![], "agents/helper/spec.yaml"),
    ];
    for (lines, files, expected) in cases {
        let project = Project::new(&[(HELPER.0, &format!("{}{lines}", HELPER.1))]);
        for (path, text) in &files {
            project.write(path, text);
        }
        let built = project.build(if lines.contains("x.sh") { Mode::Online } else { Mode::Offline }).await;
        let secrets: Vec<&str> = built
            .diagnostics
            .iter()
            .filter(|each| each.code == "spec::secret")
            .map(|each| each.file.as_str())
            .collect();
        assert_eq!(secrets, [expected]);
        assert_eq!(built.built, None);
        assert!(!format!("{:?}", built.diagnostics).contains(&key), "{expected}");
    }
}

#[tokio::test]
async fn what_a_server_is_given_is_not_repeated_when_it_fails() {
    let spec = format!(
        "{}tools: [{{ server: \"mcp://./x.sh\", access: read, env: {{ TOKEN: \"file:token\" }} }}]\n",
        HELPER.1
    );
    let program = "#!/bin/sh\necho \"refused: $TOKEN\" >&2\nexit 1\n";
    let project = Project::new(&[(HELPER.0, &spec), ("x.sh", program), ("token", "hunter2hunter2\n")]);
    assert_eq!(
        told(&project.build(Mode::Online).await),
        [
            "build::no-answer agents/helper/spec.yaml:4 the tools of `mcp://./x.sh` are not known: the server ended before it answered (exit status: 1); it said: refused: ***"
        ]
    );
}
