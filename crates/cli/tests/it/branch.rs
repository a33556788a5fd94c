//! `weir branch`.

use insta::assert_snapshot;

use crate::weir::Weir;

#[test]
fn branches_are_forked_and_drawn() {
    let weir = Weir::with_notes();
    let fork = |more: &[&str]| weir.show(&[&["branch", "fork", "--stream", "notes"], more].concat());
    assert_snapshot!(fork(&["--branch", "draft", "--at", "3", "--name", "draft of draft"]), @"
    exit 0
    -- stdout
    forked `draft of draft` from `draft` at event 3; its next event is 4
    ");
    assert_snapshot!(fork(&["--at", "1", "--name", "other", "--json"]), @r#"
    exit 0
    -- stdout
    {"version":1,"stream":"notes","branch":"other","parent":{"branch":"main","at":1,"chain":"[hash]"},"events":0,"seq":1,"chain":"[hash]","updated":"[time]","position":1}
    "#);
    assert_snapshot!(weir.show(&["branch", "list", "--stream", "notes"]), @"
    exit 0
    -- stdout
    main                  3 events, newest 3 at [time]
    ├─ draft              from 2, 1 event, newest 3 at [time]
    │  └─ draft of draft  from 3, 0 events, newest 3 at [time]
    └─ other              from 1, 0 events, newest 1 at [time]
    ");
    assert_snapshot!(weir.show(&["branch", "list", "--stream", "notes", "--json"]), @r#"
    exit 0
    -- stdout
    {"stream":"notes","branch":"main","parent":null,"events":3,"seq":3,"chain":"[hash]","updated":"[time]","position":3}
    {"stream":"notes","branch":"draft","parent":{"branch":"main","at":2,"chain":"[hash]"},"events":1,"seq":3,"chain":"[hash]","updated":"[time]","position":4}
    {"stream":"notes","branch":"draft of draft","parent":{"branch":"draft","at":3,"chain":"[hash]"},"events":0,"seq":3,"chain":"[hash]","updated":"[time]","position":4}
    {"stream":"notes","branch":"other","parent":{"branch":"main","at":1,"chain":"[hash]"},"events":0,"seq":1,"chain":"[hash]","updated":"[time]","position":1}
    "#);
}

#[test]
fn impossible_forks_are_refused() {
    let weir = Weir::with_notes();
    let fork =
        |stream: &str, more: &[&str]| weir.show(&[&["branch", "fork", "--stream", stream], more].concat());
    assert_snapshot!(fork("notes", &["--at", "2", "--name", "draft"]), @"
    exit 1
    -- stderr
    error: stream `notes` already has a branch `draft`
    help: list its branches with `weir branch list --stream 'notes'`
    ");
    assert_snapshot!(fork("notes", &["--at", "4", "--name", "late"]), @"
    exit 1
    -- stderr
    error: notes@main has no event 4; its newest is 3
    help: choose a seq from 1 to 3
    ");
    assert_snapshot!(fork("notes", &["--at", "0", "--name", "early"]), @"
    exit 1
    -- stderr
    error: notes@main has no event 0; its newest is 3
    help: choose a seq from 1 to 3
    ");
    assert_snapshot!(fork("nowhere", &["--at", "1", "--name", "b"]), @"
    exit 1
    -- stderr
    error: there is no stream `nowhere`
    help: list the streams with `weir streams`
    ");
    assert_snapshot!(fork("notes", &["--branch", "nowhere", "--at", "1", "--name", "b"]), @"
    exit 1
    -- stderr
    error: stream `notes` has no branch `nowhere`
    help: list its branches with `weir branch list --stream 'notes'`
    ");
    assert_snapshot!(fork("notes", &["--at", "1", "--name", " b"]), @"
    exit 2
    -- stderr
    error: branch name ` b` contains white space (U+0020) where none may be
    help: use visible characters, and spaces only inside the name
    ");
    assert_snapshot!(weir.show(&["branch", "list", "--stream", "nowhere"]), @"
    exit 1
    -- stderr
    error: there is no stream `nowhere`
    help: list the streams with `weir streams`
    ");
    let names = weir.ok(&["branch", "list", "--stream", "notes", "--json"]);
    assert_eq!(names.lines().count(), 2, "a refused fork made a branch");
}
