//! `weir prompt show`, and what a command says about the files of a project.

use insta::assert_snapshot;

use crate::weir::Weir;

#[test]
fn the_prompt_and_its_sections() {
    let weir = Weir::new();
    weir.write("agents/helper/spec.yaml", "name: helper\nmodel: offline/echo\ndescription: |\n  You help.\n");
    weir.write("agents/helper/SOUL.md", "# Soul\r\n\r\nBe kind.\r\n");
    weir.write("agents/helper/TOOLS.md", "Use tools\u{1b}[2J.\n");
    weir.write("agents/helper/NOTES.md", "Not an identity file.\n");
    assert_snapshot!(weir.show(&["prompt", "show", "helper"]), @r"
    exit 0
    -- stdout
    # Soul

    Be kind.

    Use tools\u{1b}[2J.

    You help.
    -- stderr

    section               tokens
    SOUL.md                    4
    TOOLS.md                   4
    description                3
    (tool definitions)         0
    total                     11
    ");
    let document = weir.json(&["prompt", "show", "helper"]);
    assert_eq!(document["prompt"], "# Soul\n\nBe kind.\n\nUse tools\u{1b}[2J.\n\nYou help.");
    assert_eq!(document["sections"][2], serde_json::json!({ "name": "description", "tokens": 3 }));
    // From elsewhere, with a model of the project's own.
    weir.write(
        "weir.yaml",
        "project: p\nmodels:\n  acme/m: { wire: gemini, context_window: 9000, output_max: 100 }\n",
    );
    weir.write("agents/helper/spec.yaml", "name: helper\nmodel: m\n");
    let mut command = weir.command();
    let directory = weir.path().to_string_lossy().into_owned();
    command.current_dir("/").args(["prompt", "show", "helper", "--json", "--project", &directory]);
    let document: serde_json::Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    assert_eq!((&document["model"], &document["context_window"]), (&"acme/m".into(), &9000.into()));
}

#[test]
fn an_empty_prompt_is_no_error() {
    let weir = Weir::new();
    weir.write("agents/helper/spec.yaml", "name: helper\nmodel: offline/echo\n");
    assert_snapshot!(weir.show(&["prompt", "show", "helper"]), @"
    exit 0
    -- stderr
    note: the system prompt is empty: add a `description`, or a file such as SOUL.md
    ");
}

#[test]
fn agents_that_are_not_there() {
    let weir = Weir::new();
    assert_snapshot!(weir.show(&["prompt", "show", "helper"]), @"
    exit 2
    -- stderr
    error: there is no project in `[dir]`
    help: a project has a `weir.yaml`: go to its directory or one below it, name it with `--project DIR` or WEIR_PROJECT, or begin one with `weir init DIR`
    ");
    for name in ["helper", "writer"] {
        weir.write(&format!("agents/{name}/spec.yaml"), &format!("name: {name}\nmodel: offline/echo\n"));
    }
    assert_snapshot!(weir.show(&["prompt", "show", "helpr"]), @"
    exit 1
    -- stderr
    error: there is no agent `helpr` in `agents`
    help: the agents here are: helper, writer
    ");
    weir.write("spec.yaml", "name: spec");
    assert_snapshot!(weir.show(&["prompt", "show", "../agents/helper"]), @"
    exit 1
    -- stderr
    error: there is no agent `../agents/helper` in `agents`
    help: the agents here are: helper, writer
    ");
}

#[test]
fn problems_of_all_files_are_told_at_once() {
    let weir = Weir::new();
    weir.write("weir.yaml", "project: p\nrulse: []\n");
    weir.write("agents/helper/spec.yaml", "name: helper\nmodel: scripted/demo\n");
    weir.write("models/demo.yaml", "replies:\n  - say: [hello]\n");
    assert_snapshot!(weir.show(&["prompt", "show", "helper"]), @"
    exit 2
    -- stderr
    error[spec::wrong-value]: `say` is text, not a list
       ╭─[models/demo.yaml:2:10]
     1 │ replies:
     2 │   - say: [hello]
       ·          ───┬───
       ·             ╰── write the text after the `:`
       ╰────
    error[spec::unknown-key]: a project has no field `rulse`
       ╭─[weir.yaml:2:1]
     1 │ project: p
     2 │ rulse: []
       · ──┬──
       ·   ╰── did you mean `rules`?
       ╰────
    error: 2 errors
    ");
    assert_eq!(weir.error(&["prompt", "show", "helper"]), (2, "spec::problems".to_owned()));
    std::fs::remove_file(weir.path().join("models/demo.yaml")).unwrap();
    weir.write("weir.yaml", "project: p\n");
    assert_snapshot!(weir.show(&["prompt", "show", "helper"]), @r#"
    exit 2
    -- stderr
    error[spec::no-file]: there is no `models/demo.yaml`
       ╭─[agents/helper/spec.yaml:2:8]
     1 │ name: helper
     2 │ model: scripted/demo
       ·        ─────────────
       ╰────
    help: write `models/demo.yaml`, for example `replies: [{ say: "Hello." }]`
    "#);
}

#[test]
fn files_that_cannot_be_read() {
    let weir = Weir::new();
    weir.write("agents/helper/spec.yaml", "name: helper\nmodel: offline/echo\n");
    weir.write("agents/helper/SOUL.md", &"x".repeat(1024 * 1024 + 1));
    assert_snapshot!(weir.show(&["prompt", "show", "helper"]), @"
    exit 2
    -- stderr
    error[spec::too-large]: the file has 1048577 bytes; 1048576 are the most
       ╭─[agents/helper/SOUL.md:1:1]
     1 │ xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…
       · ─
       ╰────
    help: is it the right file? long texts belong into files of their own, beside the spec
    ");
    std::fs::create_dir(weir.path().join("weir.yaml")).unwrap();
    assert_snapshot!(weir.show(&["prompt", "show", "helper"]), @"
    exit 2
    -- stderr
    error[spec::too-large]: the file has 1048577 bytes; 1048576 are the most
       ╭─[agents/helper/SOUL.md:1:1]
     1 │ xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…
       · ─
       ╰────
    help: is it the right file? long texts belong into files of their own, beside the spec
    error[build::unreadable]: `weir.yaml` cannot be read: is a directory
       at weir.yaml:1:1
    help: rename it; a file of this name belongs there
    error: 2 errors
    ");
}
