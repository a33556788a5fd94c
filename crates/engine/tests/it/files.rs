//! Files of a session: changed by tools, part of its events, forked with it, and exact at every event.

use weir_engine::{Address, StopReason};
use weir_events::{Body, MemoryStored};
use weir_journal::{NewEvent, Part};
use weir_tools::Builtin;
use weir_types::{Json, Seq};

use crate::kit::*;

/// The files of a session with their contents, now or at an event.
async fn files(
    world: &World,
    process: &Process,
    address: &Address,
    at: Option<Seq>,
) -> Vec<(String, String)> {
    let files = process.engine.files(address, at).await.unwrap();
    let mut contents = Vec::new();
    for (path, entry) in files.iter() {
        let content = world.blobs.get_bytes(entry.hash, 1_000_000).await.unwrap();
        contents.push((path.to_string(), String::from_utf8(content.to_vec()).unwrap()));
    }
    contents
}

fn entry(path: &str, content: &str) -> (String, String) {
    (path.to_owned(), content.to_owned())
}

fn write(path: &str, content: &str) -> String {
    Json::of(&serde_json::json!({ "path": path, "content": content })).as_str().to_owned()
}

async fn turn(process: &Process, address: &Address, text: &str) {
    process.engine.say(address, said(text)).await.unwrap();
    assert_eq!(process.engine.settle(address).await.unwrap().stop, StopReason::End);
}

/// Three turns: two files side by side, two edits of one file side by side, another file.
fn author() -> World {
    let world = World::new();
    let (one, two, late) =
        (write("one.txt", "red green"), write("dir/two.txt", "two"), write("late.txt", "late"));
    let replace = |old: &str, new: &str| {
        Json::of(&serde_json::json!({ "path": "one.txt", "old": old, "new": new })).as_str().to_owned()
    };
    let (red, green) = (replace("red", "RED"), replace("green", "GREEN"));
    let replies = vec![
        calling(on_user("begin", ""), &[("edit_write", &one), ("edit_write", &two)]),
        calling(on_user("change", ""), &[("edit_replace", &red), ("edit_replace", &green)]),
        calling(on_user("late", ""), &[("edit_write", &late)]),
        on_tool("edit_write", "written"),
        on_tool("edit_replace", "replaced"),
    ];
    world.equip(
        "author",
        replies,
        vec![builtin(Builtin::EditWrite), builtin(Builtin::EditReplace)],
        |_, _| {},
    );
    world
}

#[tokio::test(start_paused = true)]
async fn calls_beside_one_another_see_what_the_others_did() {
    let world = author();
    let process = world.start().await;
    let address = process.engine.new_address();
    process.engine.begin(&address, new("author"), said("begin")).await.unwrap();
    process.engine.settle(&address).await.unwrap();
    turn(&process, &address, "change").await;
    let now = files(&world, &process, &address, None).await;
    assert_eq!(now, [entry("dir/two.txt", "two"), entry("one.txt", "RED GREEN")]);
    // What a call changed is written down with its result: four commits for one call, as for any other tool.
    let before = process.fuse.appends();
    turn(&process, &address, "late").await;
    assert_eq!(process.fuse.appends() - before, 4);
    let kinds = world.kinds(&address).await;
    let written = kinds.iter().position(|kind| kind == "file.written").unwrap();
    assert_eq!(kinds[written + 1], "tool.completed");
}

/// However the tasks of calls are scheduled, files change in the order in which the model made the calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_last_of_several_calls_wins() {
    let world = World::new();
    let contents: Vec<String> = (0..12).map(|n| write("same.txt", &format!("version {n}"))).collect();
    let calls: Vec<(&str, &str)> = contents.iter().map(|content| ("edit_write", content.as_str())).collect();
    let replies = vec![calling(on_user("begin", ""), &calls), on_tool("edit_write", "written")];
    world.equip("author", replies, vec![builtin(Builtin::EditWrite)], |_, _| {});
    let process = world.start().await;
    for _ in 0..20 {
        let address = process.engine.new_address();
        process.engine.begin(&address, new("author"), said("begin")).await.unwrap();
        process.engine.settle(&address).await.unwrap();
        assert_eq!(files(&world, &process, &address, None).await, [entry("same.txt", "version 11")]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_fork_has_the_files_of_its_past_and_its_own_from_there() {
    let world = author();
    let process = world.start().await;
    let main = process.engine.new_address();
    process.engine.begin(&main, new("author"), said("begin")).await.unwrap();
    process.engine.settle(&main).await.unwrap();
    let at = process.engine.state(&main, None).await.unwrap().seq;
    let before = files(&world, &process, &main, None).await;
    assert_eq!(before, [entry("dir/two.txt", "two"), entry("one.txt", "red green")]);

    let (fork, _) = process.engine.fork(&main, at, "other".parse().unwrap()).await.unwrap();
    turn(&process, &fork, "late").await;
    turn(&process, &main, "change").await;
    assert_eq!(
        files(&world, &process, &fork, None).await,
        [before[0].clone(), entry("late.txt", "late"), before[1].clone()]
    );
    assert_eq!(
        files(&world, &process, &main, None).await,
        [before[0].clone(), entry("one.txt", "RED GREEN")]
    );

    // At every event of the past, the tree is exactly what the events until then say.
    for address in [&main, &fork] {
        let mut expected = std::collections::BTreeMap::new();
        for event in world.events(address).await {
            let payload: serde_json::Value = serde_json::from_slice(&event.payload).unwrap();
            if event.kind.as_str() == "file.written" {
                expected.insert(payload["path"].as_str().unwrap().to_owned(), payload["hash"].clone());
            }
            let found = process.engine.files(address, Some(event.seq)).await.unwrap();
            let found: Vec<_> =
                found.iter().map(|(path, entry)| (path.to_string(), serde_json::json!(entry.hash))).collect();
            assert_eq!(found, expected.clone().into_iter().collect::<Vec<_>>(), "{address} {}", event.seq);
        }
    }
}

/// Says everything, in as many processes as it takes; and how many appends the first of them made.
async fn play(world: &World, texts: &[&str], fuse: Fuse) -> (Process, Address, u64) {
    let address = Address::main(weir_types::SessionId::from_u128(9));
    let mut process = world.start_with(fuse, |_| {}).await;
    let mut first = None;
    loop {
        let done = tokio::select! {
            () = turns(world, &process, &address, texts) => true,
            () = process.fuse.blown() => false,
        };
        let appends = *first.get_or_insert_with(|| process.fuse.appends());
        if done {
            return (process, address, appends);
        }
        process.die();
        process = world.start().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_append_leaves_the_same_files() {
    let play = async |fuse: Fuse| {
        let world = author();
        let (process, address, appends) = play(&world, &["begin", "change", "late"], fuse).await;
        (files(&world, &process, &address, None).await, appends)
    };
    let (expected, appends) = play(Fuse::default()).await;
    assert_eq!(
        expected,
        [entry("dir/two.txt", "two"), entry("late.txt", "late"), entry("one.txt", "RED GREEN")]
    );
    assert!(appends >= 12, "{appends}");
    for append in 1..=appends {
        for side in [Side::Before, Side::After] {
            let (files, _) = play(Fuse::at(append, side)).await;
            assert_eq!(files, expected, "{side:?} append {append}");
        }
    }
}

/// A call that stores a note, cut off anywhere, runs again, and the note is there once: in the session and in the memory.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_append_stores_a_note_once() {
    let note = Json::of(&serde_json::json!({ "title": "Colour", "text": "The door is red." }));
    let play = async |fuse: Fuse| {
        let world = World::new();
        let replies = vec![
            calling(on_user("note", ""), &[("memory_store", note.as_str())]),
            on_tool("memory_store", "noted"),
        ];
        world.equip("author", replies, vec![builtin(Builtin::MemoryStore)], |_, _| {});
        let (_, address, appends) = play(&world, &["note"], fuse).await;
        let attempts = world.kinds(&address).await.iter().filter(|kind| *kind == "tool.started").count();
        let of = async |branch: &weir_types::BranchId| {
            let kind = "memory.stored".parse().unwrap();
            world.journal.by_kind(branch, &kind, Seq(0), 100).await.unwrap().len()
        };
        let memory = weir_types::BranchId::main("engine:memory:author:user:test".parse().unwrap());
        ([of(&address.branch_id()).await, of(&memory).await], attempts, appends)
    };
    let (stored, attempts, appends) = play(Fuse::default()).await;
    assert_eq!((stored, attempts), ([1, 1], 1));
    let mut repeated = 0;
    for append in 1..=appends {
        for side in [Side::Before, Side::After] {
            let (stored, attempts, _) = play(Fuse::at(append, side)).await;
            assert_eq!(stored, [1, 1], "{side:?} append {append}");
            repeated += attempts - 1;
        }
    }
    assert!(repeated > 0, "no crash cut the call off");
}

/// Says what has not been said yet, and waits for what comes of it.
async fn turns(world: &World, process: &Process, address: &Address, texts: &[&str]) {
    for (index, text) in texts.iter().copied().enumerate() {
        let exists = world.journal.head(&address.branch_id()).await.unwrap().is_some();
        let known = match exists {
            true => world.kinds(address).await.iter().filter(|kind| *kind == "user.message").count(),
            false => 0,
        };
        match (known, index) {
            (0, 0) => _ = process.engine.begin(address, new("author"), said(text)).await.unwrap(),
            (known, index) if known <= index => _ = process.engine.say(address, said(text)).await.unwrap(),
            _ => {}
        }
        let outcome = tokio::time::timeout(PATIENCE, process.engine.settle(address)).await;
        assert_eq!(outcome.expect("the session is not wedged").unwrap().stop, StopReason::End);
    }
}

#[tokio::test(start_paused = true)]
async fn files_come_in_from_outside_only_while_a_session_rests() {
    let world = author();
    world.agent("idle", vec![calling(on_user("slow", ""), &[("slow", "{}")])], &["slow"]);
    let process = world.start().await;
    let address = process.engine.new_address();
    let hash = world.blobs.put_bytes("given".into()).await.unwrap().hash;
    let given = weir_events::FileWritten { path: "given.txt".into(), hash, mode: 0o644, size: 5 };
    let begun = weir_engine::New { files: vec![given], ..new("idle") };
    process.engine.begin(&address, begun, said("slow")).await.unwrap();
    world.until(&address, "tool.started").await;
    let gone = [weir_workspace::Change::Deleted { path: "given.txt".parse().unwrap() }];
    let refused = process.engine.change_files(&address, &gone, "user:test").await;
    assert!(matches!(refused, Err(weir_engine::EngineError::Busy(_))), "{refused:?}");
    process.engine.cancel(&address, "user:test").await.unwrap();
    process.engine.settle(&address).await.unwrap();
    assert_eq!(files(&world, &process, &address, None).await, [entry("given.txt", "given")]);
    process.engine.change_files(&address, &gone, "user:test").await.unwrap();
    assert!(process.engine.files(&address, None).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn many_changes_fold_the_same_with_and_without_a_snapshot() {
    let world = author();
    let process = world.start().await;
    let address = process.engine.new_address();
    let hash = world.blobs.put_bytes("x".into()).await.unwrap().hash;
    let given = |n: u32| weir_events::FileWritten { path: format!("f{n}"), hash, mode: 0o755, size: 1 };
    let begun = weir_engine::New { files: (0..700).map(given).collect(), ..new("author") };
    process.engine.begin(&address, begun, said("begin")).await.unwrap();
    process.engine.settle(&address).await.unwrap();
    let first = process.engine.files(&address, None).await.unwrap();
    assert_eq!(first.len(), 702);
    let seq = process.engine.state(&address, None).await.unwrap().seq;
    turn(&process, &address, "late").await;
    let then = process.engine.files(&address, Some(seq)).await.unwrap();
    let now = process.engine.files(&address, None).await.unwrap();
    assert_eq!((then, now.len()), (first, 703));
}

/// Only the newest notes are searched. How many older ones there are is said, and storing one of them again replaces it.
#[tokio::test(start_paused = true)]
async fn notes_beyond_those_that_are_searched_are_counted_and_replaced() {
    let world = World::new();
    let oldest = Json::of(&serde_json::json!({ "title": "Note 0", "text": "The door is blue." }));
    let query = Json::of(&serde_json::json!({ "query": "door" }));
    let replies = vec![
        calling(on_user("store", ""), &[("memory_store", oldest.as_str())]),
        calling(on_user("search", ""), &[("memory_search", query.as_str())]),
        on_tool("memory_store", "{{result}}"),
        on_tool("memory_search", "{{result}}"),
    ];
    let offers = vec![builtin(Builtin::MemoryStore), builtin(Builtin::MemorySearch)];
    world.equip("author", replies, offers, |_, _| {});
    let hash = world.blobs.put_bytes("The door is red.".into()).await.unwrap().hash;
    let note = |n: usize| {
        let (doc, title) = (format!("note-{n}"), format!("Note {n}"));
        let body: Body = MemoryStored { doc, title, tags: Vec::new(), hash }.into();
        NewEvent::new("memory.stored".parse().unwrap(), body.encode().unwrap())
    };
    let memory = weir_types::BranchId::main("engine:memory:author:user:test".parse().unwrap());
    for first in (0..2_003).step_by(500) {
        let notes = (first..2_003.min(first + 500)).map(note).collect();
        world.journal.append(vec![Part::new(memory.clone(), notes)]).await.unwrap();
    }
    let process = world.start().await;
    let address = process.engine.new_address();
    let answer = async || process.engine.settle(&address).await.unwrap().answer.unwrap();
    process.engine.begin(&address, new("author"), said("search")).await.unwrap();
    let found = answer().await;
    assert!(found.ends_with("; 3 older notes were not searched]"), "{found}");
    process.engine.say(&address, said("store")).await.unwrap();
    assert_eq!(answer().await, "replaced the note `note-0`");
}
