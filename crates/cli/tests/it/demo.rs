//! `weir demo`.

use crate::weir::Weir;

#[test]
fn the_tour_does_everything_once_and_ends_twice() {
    let weir = Weir::new();
    let seen = weir.json(&["demo"]);
    let done =
        ["blue_room_reserved", "green_room_reserved", "invitations_sent"].map(|name| seen[name].as_u64());
    assert_eq!(done, [Some(1); 3], "{seen}");
    assert_eq!(seen["sound"], true);
    assert_eq!(seen["endings"][1], "The green room is booked. Nobody has been invited yet.");
    let first = seen["endings"][0].as_str().unwrap();
    assert!(
        first.starts_with("The blue room is booked. Whether the invitations went out I cannot tell"),
        "{first}"
    );
    assert_eq!(seen["approved"], "3 words, 9 characters.");
    assert!(seen["cost_usd"].as_f64().unwrap() > 0.0);
    assert_eq!(std::fs::read_dir(weir.path()).unwrap().count(), 0, "the tour left something behind");
}

#[test]
fn the_tour_tells_its_steps_and_cleans_up() {
    let weir = Weir::new();
    let temporary = tempfile::tempdir().unwrap();
    let tour = |args: &[&str]| {
        let output = weir.command().args(args).env("TMPDIR", temporary.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = tour(&["demo"]);
    let headings: Vec<&str> =
        text.lines().filter(|line| !line.is_empty() && !line.starts_with(' ')).skip(2).collect();
    assert_eq!(
        headings,
        [
            "1. A turn",
            "2. kill -9",
            "3. Resume",
            "4. Fork",
            "5. Verify and account",
            "6. Tools, and agents as tools",
            "7. Approve",
            "What next"
        ]
    );
    assert!(text.contains("outcome unknown"), "{text}");
    // A tool in TypeScript was called, and a second agent answered in a session of its own.
    for line in [
        "    count_words  script   read    read    low   read   live   tools/count_words",
        "    editor       agent    read    read    low   read   live   weir://editor",
        r#"    {"words":3,"characters":9}"#,
        "    The editor says: It has 9 words.",
    ] {
        assert!(text.lines().any(|told| told == line), "{line}: {text}");
    }
    // A call waited for a yes, and ran when it had one.
    assert!(text.contains("    note: 1 call of session "), "{text}");
    assert!(text.lines().any(|told| told == "    3 words, 9 characters."), "{text}");
    let agents = ["helper", "editor", "desk"];
    let sessions = |agent: &&str| text.lines().any(|line| line.contains(&format!("  {agent}  ")));
    assert!(agents.iter().all(sessions), "{text}");
    assert!(!text.contains('\u{1b}'), "colour without a terminal");
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0, "the tour left something behind");

    let text = tour(&["demo", "--keep"]);
    let kept = std::fs::read_dir(temporary.path()).unwrap().next().unwrap().unwrap().path();
    let command = text.lines().find(|line| line.contains("--data-dir")).unwrap();
    let words: Vec<&str> = command.split_whitespace().skip(1).collect();
    assert!(words.contains(&format!("{}/data", kept.display()).as_str()), "{command}");
    assert!(weir.ok(&words).contains("blue"));
}
