//! `weir run`: what is edited under a running process takes effect, and what is broken does not.

use crate::kit::{Project, Server};

/// A server of the project's sources.
async fn running(project: &Project) -> Server {
    project.serve_as(&["run"]).start().await
}

/// Lets the helper answer everything like this.
fn script(answer: &str) -> String {
    format!("replies:\n  - say: \"{answer}\"\n")
}

#[tokio::test]
async fn what_is_edited_takes_effect_also_in_sessions_that_began_before() {
    let project = Project::new();
    let server = running(&project).await;
    let first = server.say("helper", "hello", None).await;
    assert_eq!(first.answer, "You said: hello");

    project.write("models/helper.yaml", &script("Edited."));
    let line = server.logged("reloaded").await;
    assert_eq!((&line["changed"], &line["agents"]), (&"models/helper.yaml".into(), &4.into()));
    assert!(line["took_ms"].is_u64() && line["manifest"].as_str().unwrap().len() == 64, "{line}");
    assert_eq!(server.get("/ready").await.ok()["build"], line["manifest"]);
    assert_eq!(server.say("helper", "hello", None).await.answer, "Edited.");
    assert_eq!(server.say("helper", "and here?", Some(&first.session)).await.answer, "Edited.");
}

#[tokio::test]
async fn prompts_tools_and_new_agents_are_reloaded() {
    let project = Project::new();
    let server = running(&project).await;
    assert_eq!(server.say("helper", "weather in Oslo", None).await.answer, "It is 12 degrees in Oslo.");

    let tool = include_str!("kit/project/weather.ts").replace("city.length * 3", "40");
    project.write("tools/weather.ts", &tool);
    assert_eq!(server.logged("reloaded").await["changed"], "tools/weather.ts");
    assert_eq!(server.say("helper", "weather in Oslo", None).await.answer, "It is 40 degrees in Oslo.");

    project.write("agents/helper/SOUL.md", "You are calm.");
    let line = server.logged_times("reloaded", 2).await;
    assert_eq!(line["changed"], "agents/helper/SOUL.md");
    let told = server.say("helper", "hello", None).await;
    let shown = project.ok(&["prompt", "show", "helper"]);
    assert!(shown.contains("You are calm."), "{shown}");
    let asked = project.events(&told.session);
    let asked = asked.iter().find(|event| event["kind"] == "model.requested").unwrap();
    let prompt = project.ok(&["blob", "get", asked["payload"]["prompt"].as_str().unwrap()]);
    assert!(prompt.contains("You are calm."), "{prompt}");

    project.write("agents/new/spec.yaml", "name: new\nmodel: offline/echo\ndescription: Repeats.\n");
    assert_eq!(server.logged_times("reloaded", 3).await["agents"], 5);
    assert_eq!(server.say("new", "are you there?", None).await.answer, "are you there?");
}

#[tokio::test]
async fn a_mistake_is_shown_and_the_last_good_build_goes_on() {
    let project = Project::new();
    let server = running(&project).await;
    let spec = include_str!("kit/project/helper.yaml");
    project
        .write("agents/helper/spec.yaml", &spec.replace("model: scripted/helper", "modell: scripted/helper"));
    let told = "agents/helper/spec.yaml: not reloaded, the last good build goes on";
    let line = server.logged(told).await;
    assert_eq!(line["level"], "ERROR");
    let problems = line["problems"].as_str().unwrap();
    assert!(problems.contains("spec::unknown-key") && problems.contains("`model`"), "{problems}");
    assert_eq!(server.say("helper", "hello", None).await.answer, "You said: hello");

    // Mended, with something new besides.
    project.write("models/helper.yaml", &script("Mended."));
    project.write("agents/helper/spec.yaml", spec);
    let line = server.logged("reloaded").await;
    assert_eq!(line["changed"], "agents/helper/spec.yaml, models/helper.yaml");
    assert_eq!(server.say("helper", "hello", None).await.answer, "Mended.");
}

#[tokio::test]
async fn a_project_that_begins_with_a_mistake_is_waited_for() {
    let project = Project::empty();
    project.write("weir.yaml", "project: p\n");
    project.write("agents/echo/spec.yaml", "name: echo\nmodel: offline/ekko\ndescription: Repeats.\n");
    let server = running(&project).await;
    server.logged("there is no build yet: it comes when the mistakes are mended").await;
    assert_eq!(server.get("/ready").await.ok()["build"], serde_json::Value::Null);
    project.write("agents/echo/spec.yaml", "name: echo\nmodel: offline/echo\ndescription: Repeats.\n");
    server.logged("reloaded").await;
    assert_eq!(server.say("echo", "at last", None).await.answer, "at last");
}

#[test]
fn a_directory_without_a_project_is_told_apart_from_an_unfinished_one() {
    let ran = Project::empty().serve_as(&["run"]).refused();
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("cli::no-project") && ran.stderr.contains("weir init"), "{}", ran.stderr);
}
