//! `weir deploy` and `weir rollback`, while a server runs and while none does.

use rustix::process::Signal;

use crate::kit::{Frame, Project, Server, Told};

/// What new sessions begin with.
async fn build_of(server: &Server) -> Option<String> {
    server.get("/ready").await.ok()["build"].as_str().map(str::to_owned)
}

/// Makes another build of the project, of which nothing is deployed yet.
fn rebuilt(project: &Project, description: &str) -> String {
    project.write(
        "agents/echo/spec.yaml",
        &format!("name: echo\nmodel: offline/echo\ndescription: {description}\n"),
    );
    project.build()
}

#[tokio::test]
async fn a_running_server_takes_up_what_is_deployed_and_goes_back() {
    let project = Project::new();
    let server = project.serve().start().await;
    let first = build_of(&server).await.unwrap();
    let second = rebuilt(&project, "You repeat loudly.");
    assert_eq!(build_of(&server).await.unwrap(), first, "a build alone changes nothing");

    let told = project.json(&["deploy", &second[..12]]);
    assert_eq!((&told["manifest"], &told["previous"]), (&second.clone().into(), &first.clone().into()));
    let line = server.logged("deployed").await;
    assert_eq!((line["manifest"].as_str(), line["rollback"].as_bool()), (Some(&*second), Some(false)));
    assert_eq!(build_of(&server).await.unwrap(), second);

    assert_eq!(project.json(&["rollback"])["manifest"], first);
    server.logged_times("deployed", 2).await;
    assert_eq!(build_of(&server).await.unwrap(), first);
    assert!(project.run(&["rollback"]).stderr.contains("no deployment to go back to"));

    // A server that starts again comes up with what was deployed last, whatever was built since.
    project.ok(&["deploy", &second]);
    server.logged_times("deployed", 3).await;
    rebuilt(&project, "Never deployed.");
    let server = server.kill();
    drop(server);
    let server = project.serve_as(&["serve"]).start().await;
    assert_eq!(build_of(&server).await.unwrap(), second);
    let events = project.lines(&["cat", "--stream", "engine:deployments"]);
    let kinds: Vec<&str> = events.iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["deployment.made"; 4]);
    assert!(events.iter().all(|event| event["meta"]["actor"].as_str().unwrap().starts_with("user:")));
}

#[tokio::test]
async fn what_cannot_be_deployed_changes_nothing() {
    let project = Project::new();
    let server = project.serve().start().await;
    let first = build_of(&server).await;
    let second = rebuilt(&project, "You repeat loudly.");
    let manifest = project.data().join("build").join(format!("{second}.json"));
    let content = std::fs::read(&manifest).unwrap();

    let refused = |args: &[&str]| {
        let ran = project.run(&[args, &["--json"]].concat());
        let document: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
        (ran.code, document["error"]["code"].as_str().unwrap().to_owned())
    };
    assert_eq!(refused(&["deploy", "feed"]), (1, "build::no-manifest".to_owned()));
    std::fs::write(&manifest, &content[..content.len() / 2]).unwrap();
    assert_eq!(refused(&["deploy", "latest"]), (1, "build::damaged".to_owned()));
    std::fs::remove_file(&manifest).unwrap();
    assert_eq!(refused(&["deploy", &second]), (1, "build::no-manifest".to_owned()));
    assert_eq!(project.lines(&["cat", "--stream", "engine:deployments"]).len(), 1);

    // Nor can anybody write there by hand.
    let words = ["append", "--stream", "engine:deployments", "--kind", "deployment.made", "--payload", "{}"];
    assert_eq!(refused(&words).1, "cli::reserved-stream");
    assert_eq!(build_of(&server).await, first);

    // What was good when it was deployed may be gone when the server starts again: it says so, and how to go on.
    std::fs::write(&manifest, &content).unwrap();
    project.ok(&["deploy", &second]);
    server.logged("deployed").await;
    drop(server);
    std::fs::remove_file(&manifest).unwrap();
    let ran = project.serve_as(&["serve"]).refused();
    assert!(ran.stderr.contains("build::no-manifest"), "{}", ran.stderr);
    let first = first.unwrap();
    let server = project.serve_as(&["serve", "--manifest", &first]).start().await;
    assert_eq!(build_of(&server).await, Some(first));
}

#[tokio::test]
async fn what_a_running_server_cannot_take_up_changes_nothing() {
    let project = Project::new();
    let server = project.serve().start().await;
    let first = build_of(&server).await;
    let second = rebuilt(&project, "You repeat loudly.");
    let manifest = project.data().join("build").join(format!("{second}.json"));
    // It was there when it was deployed, and is gone when the server looks.
    server.signal(Signal::STOP);
    project.ok(&["deploy", &second]);
    std::fs::remove_file(&manifest).unwrap();
    server.signal(Signal::CONT);
    let line = server.logged("cannot deploy: what was there before goes on").await;
    assert_eq!((line["level"].as_str(), line["manifest"].as_str()), (Some("ERROR"), Some(&*second)));
    assert_eq!(line["code"], "build::no-manifest");
    assert!(line["help"].as_str().unwrap().contains("weir build"), "{line}");
    assert_eq!(build_of(&server).await, first);
    assert_eq!(server.say("helper", "hello", None).await.answer, "You said: hello");
    // What comes after it is taken up as ever.
    let third = rebuilt(&project, "You whisper.");
    project.ok(&["deploy", &third]);
    server.logged("deployed").await;
    assert_eq!(build_of(&server).await, Some(third));
}

#[tokio::test]
async fn without_a_build_the_persistence_layer_is_served_until_one_is_deployed() {
    let project = Project::empty();
    let server = project.serve_as(&["serve"]).start().await;
    assert_eq!(build_of(&server).await, None);
    let told = "nothing was built: the persistence layer is served alone, until `weir build` and `weir deploy latest`";
    assert_eq!(server.logged(told).await["level"], "WARN");
    project.write("agents/echo/spec.yaml", "name: echo\nmodel: offline/echo\ndescription: Repeats.\n");
    project.write("weir.yaml", "project: later\n");
    let hash = project.build();
    project.ok(&["deploy", "latest"]);
    server.logged("deployed").await;
    assert_eq!(build_of(&server).await, Some(hash));
}

#[tokio::test]
async fn the_first_build_is_served_without_a_word() {
    let project = Project::new();
    let hash = project.build();
    let server = project.serve_as(&["serve"]).start().await;
    assert_eq!(build_of(&server).await, Some(hash));
    assert_eq!(project.lines(&["cat", "--stream", "engine:deployments"]).len(), 1);
}

#[tokio::test]
async fn sessions_finish_on_the_build_they_began_with() {
    let project = Project::new();
    let server = project.serve().start().await;
    let old = server.say("helper", "hello", None).await;
    let body = serde_json::json!({ "message": "slow" });
    let mut frames = server.stream("/agents/helper/chat/stream?format=native", &body).await;
    let underway = frames.header("x-weir-session").unwrap().to_owned();
    let mut seen = Vec::new();
    while !seen.iter().any(|frame: &Frame| frame.event.as_deref() == Some("text.delta")) {
        seen.push(frames.next().await.unwrap());
    }

    project.write("models/helper.yaml", "replies:\n  - say: \"The second build.\"\n");
    project.build();
    project.ok(&["deploy", "latest"]);
    server.logged("deployed").await;

    // What is under way is not disturbed, in the middle of its answer.
    seen.extend(frames.all().await);
    let told = Told::of(underway.clone(), &seen);
    assert!(told.answer.starts_with("This answer (attempt 1) comes in many small pieces"), "{told:?}");
    assert_eq!(told.stop, "end");
    for session in [&old.session, &underway] {
        assert_eq!(server.say("helper", "again", Some(session)).await.answer, "You said: again");
    }
    assert_eq!(server.say("helper", "again", None).await.answer, "The second build.");

    // Also in a server that has never seen the first build deployed, and after a rollback the other way round.
    let server = server.kill().start_again().await;
    assert_eq!(server.say("helper", "again", Some(&old.session)).await.answer, "You said: again");
    let new = server.say("helper", "hello", None).await;
    assert_eq!(new.answer, "The second build.");
    project.ok(&["rollback"]);
    server.logged("deployed").await;
    assert_eq!(server.say("helper", "again", None).await.answer, "You said: again");
    assert_eq!(server.say("helper", "again", Some(&new.session)).await.answer, "The second build.");
}
