//! Who asks: the owner of the data directory, or somebody it tries to be, who sees and does no more than that one may.

use insta::assert_snapshot;
use serde_json::json;

use crate::outside::{Project, script};

/// Bob and Carol may talk to the agent; Carol is an admin.
fn project() -> Project {
    let project = Project::new();
    let acl = "acl:\n  - { principal: \"user:bob\", role: execute }\n  - { principal: \"group:team\", role: execute }\n";
    project.agent("helper", acl, &script(&[]));
    project.write(
        "weir.yaml",
        "project: p\ngroups: { team: [\"user:bob\", \"user:dan\"], admin: [\"user:carol\"] }\n",
    );
    project
}

#[test]
fn whoami_says_who_and_where_that_comes_from() {
    let project = project();
    let me = project.json(&["whoami"]);
    assert_eq!((&me["from"], &me["admin"], &me["actor"]), (&json!("system"), &json!(true), &me["principal"]));
    assert_eq!(me["groups"], json!([{"group": "group:admin", "from": "owns the data directory"}]));
    let bob = project.json(&["whoami", "--as", "user:bob"]);
    assert_eq!(
        (&bob["principal"], &bob["from"], &bob["admin"]),
        (&json!("user:bob"), &json!("--as"), &json!(false))
    );
    assert_eq!(bob["groups"], json!([{"group": "group:team", "from": "weir.yaml"}]));
    assert_eq!(bob["actor"], me["principal"]);
    assert_eq!(project.json(&["whoami", "--as", "user:carol"])["admin"], true);
    let told =
        project.ok(&["whoami", "--as", "user:bob"]).replace(me["principal"].as_str().unwrap(), "user:me");
    assert_snapshot!(told, @"
    principal  user:bob (--as, tried by user:me)
    group      group:team (weir.yaml)
    admin      no
    ");
    // Without a project there are no groups but one.
    let elsewhere = crate::weir::Weir::new();
    assert_eq!(elsewhere.json(&["whoami"])["groups"].as_array().unwrap().len(), 1);
}

#[test]
fn only_somebody_can_be_tried_and_only_where_it_matters() {
    let project = project();
    let error = |args: &[&str]| project.run(&[args, &["--json"]].concat()).error();
    assert_eq!(error(&["whoami", "--as", "group:team"]), (2, "cli::as".to_owned()));
    for args in [
        &["cat", "--stream", "x"][..],
        &["export"],
        &["streams"],
        &["append", "--stream", "x", "--kind", "a.b"],
        &["verify"],
        &["backup", "x.tar"],
    ] {
        assert_eq!(
            error(&[args, &["--as", "user:bob"]].concat()),
            (2, "cli::as-meaningless".to_owned()),
            "{args:?}"
        );
    }
}

/// What belongs to others is not there; whoever asks cannot even tell whether it is.
#[test]
fn sessions_of_others_do_not_exist() {
    let project = project();
    let mine = project.chat("helper", "hello", &[]);
    let bobs = project.chat("helper", "hello", &["--as", "user:bob"]);
    let dans = project.chat("helper", "hello", &["--as", "user:dan"]);
    let ids = |who: &[&str]| {
        let listed = project.lines(&[&["session", "list"], who].concat());
        let mut ids: Vec<String> =
            listed.iter().map(|session| crate::outside::field(session, "id")).collect();
        ids.sort();
        ids
    };
    let mut all = vec![mine, bobs.clone(), dans.clone()];
    all.sort();
    assert_eq!(ids(&[]), all);
    assert_eq!(ids(&["--as", "user:carol"]), all, "an admin of the project sees all");
    assert_eq!(ids(&["--as", "user:bob"]), std::slice::from_ref(&bobs));
    assert_eq!(ids(&["--as", "user:nobody"]), [""; 0]);

    let bob = |args: &[&str]| project.run(&[args, &["--as", "user:bob", "--json"]].concat());
    let out = project.weir.path().join("out");
    let out = out.to_str().unwrap();
    let commands: [&[&str]; 14] = [
        &["session", "show", "ID"],
        &["session", "history", "ID"],
        &["session", "state", "ID"],
        &["session", "set", "ID", "--title", "t"],
        &["session", "message", "ID", "m"],
        &["session", "signal", "ID", "s"],
        &["session", "cancel", "ID"],
        &["session", "fork", "ID", "--at", "1"],
        &["session", "resume", "ID"],
        &["session", "halt", "ID"],
        &["session", "close", "ID"],
        &["fs", "ls", "ID"],
        &["fs", "export", "ID", out],
        &["chat", "helper", "-m", "more", "--session", "ID"],
    ];
    let before = project.events(&dans);
    for command in commands {
        let named =
            |id: &str| command.iter().map(|word| if *word == "ID" { id } else { word }.to_owned()).collect();
        let words: Vec<String> = named(&dans);
        let theirs = bob(&words.iter().map(String::as_str).collect::<Vec<_>>());
        // As if nobody had ever begun it.
        let nowhere = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
        let words: Vec<String> = named(nowhere);
        let nothing = bob(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(theirs.error(), (1, "engine::no-session".to_owned()), "{command:?}: {theirs}");
        assert_eq!(theirs.stderr.replace(&dans, nowhere), nothing.stderr, "{command:?}");
    }
    assert_eq!(project.events(&dans), before);
    // Neither the beginning of an id nor the latest leads to somebody else's.
    assert_eq!(bob(&["session", "show", &dans[..25]]).error(), (1, "engine::no-session".to_owned()));
    let latest: serde_json::Value = serde_json::from_str(&bob(&["session", "show", "-1"]).stdout).unwrap();
    assert_eq!(latest["id"], json!(bobs));
    let common = &bobs[..4];
    assert_eq!(bob(&["session", "show", common]).code, 0, "others are no reason for it to be ambiguous");
    // His own he can go on with.
    assert_eq!(bob(&["chat", "helper", "-m", "more", "--session", &bobs]).code, 0);
}
