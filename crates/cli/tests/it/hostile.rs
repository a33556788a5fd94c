//! Input that nobody means well with: an error or a plain answer, never a panic, a hang or a mouthful of memory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::weir::Weir;

#[test]
fn deep_json_is_a_payload_like_any_other() {
    let weir = Weir::new();
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    weir.ok(&["append", "--stream", "deep", "--kind", "a.b", "--payload", &deep]);
    assert!(weir.ok(&["cat", "--stream", "deep", "--json"]).contains(&deep));
    let (from, to) = (weir.ok(&["export"]), Weir::new());
    assert_eq!(to.run_with(&["import", "-"], from.as_bytes()).code, 0);
    assert_eq!(to.ok(&["export"]), from);
    let open = "[".repeat(100_000);
    assert_eq!(
        weir.error(&["append", "--stream", "deep", "--kind", "a.b", "--payload", &open]),
        (2, "cli::not-json".to_owned())
    );
    assert_eq!(weir.run_with(&["import", "-"], open.as_bytes()).code, 2);
}

#[test]
fn hostile_imports_are_refused() {
    let weir = Weir::new();
    let exit_of = |content: &[u8]| weir.run_with(&["import", "-", "--json"], content).error().0;
    let header = b"{\"weir_export\":1}\n".to_vec();
    let name = format!("{{\"stream\":\"{}\",\"branch\":\"main\"}}\n", "n".repeat(1_000_000));
    assert_eq!(exit_of(&[&header[..], name.as_bytes()].concat()), 2);
    assert_eq!(exit_of(&[&header[..], &[0xff, 0x00, b'\n']].concat()), 2);
    assert_eq!(exit_of(&(0..=255).cycle().take(3_000_000).collect::<Vec<u8>>()), 2);
    assert_eq!(exit_of(&[&header[..], &vec![b'x'; 40_000_000], b"\n"].concat()), 2);
    // Nothing at all is no export: every export has a first line.
    assert_eq!(weir.run_with(&["import", "-"], b"").code, 2);
}

#[test]
fn arguments_that_are_no_text_are_refused() {
    let weir = Weir::new();
    let bad = OsStr::from_bytes(b"\xff\x1b[2J");
    for args in [["streams", "--data-dir"], ["append", "--stream"], ["blob", "put"]] {
        let args: Vec<&OsStr> = args.iter().map(OsStr::new).chain([bad]).collect();
        let ran = weir.run(&args);
        assert!(ran.code == 1 || ran.code == 2, "{ran}");
        assert!(!ran.stderr.contains('\u{1b}'), "a control character was echoed: {ran:?}");
    }
    let ran = weir.run(&["cat", "--stream", "s", "--after", "\u{1b}[2J"]);
    assert_eq!(ran.code, 2);
    assert!(!ran.stderr.contains('\u{1b}'), "a control character was echoed: {ran:?}");
    let ran = weir.run(&["cat", "--stream", "s", "--after", &"9".repeat(100_000)]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.len() < 2_000, "an argument of 100,000 bytes was echoed");
}

#[test]
fn names_that_look_like_something_else_are_just_names() {
    let weir = Weir::new();
    let names = [
        "../../etc/passwd",
        "a@main",
        "a@main@b",
        "'; DROP TABLE events; --",
        "%s%n",
        "-",
        "--json",
        "é\u{301}",
        "a b",
    ];
    for name in names {
        weir.ok(&[
            "append",
            &format!("--stream={name}"),
            "--kind",
            "a.b",
            "--payload",
            &serde_json::Value::from(name).to_string(),
        ]);
    }
    for name in names {
        let event: serde_json::Value =
            serde_json::from_str(&weir.ok(&["cat", &format!("--stream={name}"), "--json"])).unwrap();
        assert_eq!(
            (&event["stream"], &event["payload"], &event["seq"]),
            (&name.into(), &name.into(), &1.into())
        );
    }
    let mut listed: Vec<String> = weir
        .ok(&["streams", "--json"])
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["stream"].as_str().unwrap().to_owned()
        })
        .collect();
    listed.sort();
    let mut expected = names.map(str::to_owned).to_vec();
    expected.sort();
    assert_eq!(listed, expected);
    weir.ok(&["verify"]);
}
