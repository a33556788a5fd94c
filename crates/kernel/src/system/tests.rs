use super::*;

fn source(name: &str, text: &str) -> (String, String) {
    (name.to_owned(), text.to_owned())
}

#[test]
fn sections_come_in_their_order_whatever_order_they_are_found_in() {
    let sources = Sources {
        identity: vec![
            source("TOOLS.md", "6"),
            source("README.md", "never"),
            source("USER.md", "3"),
            source("SOUL.md", "1"),
            source("AGENTS.md", "5"),
            source("MEMORY.md", "4"),
            source("IDENTITY.md", "2"),
        ],
        description: "7".into(),
        skills: vec![source("b", "8"), source("a", "9")],
        tools: "10".into(),
    };
    assert_eq!(prompt(&sources), "1\n\n2\n\n3\n\n4\n\n5\n\n6\n\n7\n\n8\n\n9\n\n10");
    let names: Vec<String> = sections(&sources).into_iter().map(|section| section.name).collect();
    let expected = [
        "SOUL.md",
        "IDENTITY.md",
        "USER.md",
        "MEMORY.md",
        "AGENTS.md",
        "TOOLS.md",
        "description",
        "skill b",
        "skill a",
        "tools",
    ];
    assert_eq!(names, expected);
}

#[test]
fn empty_files_leave_no_trace() {
    let sources = Sources {
        identity: vec![source("SOUL.md", " \r\n\t"), source("USER.md", "\u{feff}"), source("TOOLS.md", "t")],
        description: "d\n".into(),
        ..Sources::default()
    };
    assert_eq!(prompt(&sources), "t\n\nd");
    assert_eq!(prompt(&Sources::default()), "");
}

#[test]
fn the_prompt_is_the_same_on_every_system() {
    let of = |text: &str| prompt(&Sources { description: text.into(), ..Sources::default() });
    assert_eq!(of("\u{feff}one\r\n\r\ntwo\r\n"), of("one\n\ntwo"));
    // A lone carriage return is somebody's own.
    assert_eq!(of("one\rtwo"), "one\rtwo");
}

#[test]
fn sections_know_their_size() {
    let sources = Sources { description: "abcde ".into(), ..Sources::default() };
    let section = Section { name: "description".into(), text: "abcde".into(), tokens: 2 };
    assert_eq!(sections(&sources), [section]);
}
