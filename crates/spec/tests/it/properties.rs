//! No bytes make the readers panic, and every place they name is a place of the file.

use proptest::prelude::*;
use weir_spec::{AgentSpec, Diagnostic, Project, Script};

const AGENT: &str = "name: a\nmodel: offline/echo\ndescription: |\n  You — é.\n  \ttabs\ntools:\n  - name: get_time\nlimits: { usd: 0.50, wall_clock: 5m }\n";
const SCRIPT: &str = "replies:\n  - when: { user: '(\\w+)' }\n    call: [{ tool: t, input: { a: \"{{1}}\", b: [1.5, ~] } }]\n  - &x\n    say: >-\n      folded\n      text\n  - *x\n";
const PROJECT: &str = "project: p\nmodels:\n  a/b: { wire: gemini, context_window: 9, output_max: 1, price: { input: 1, output: 2 } }\n";

/// Pieces that YAML gives a meaning to.
const PIECES: &[&str] = &[
    ": ",
    "- ",
    "? ",
    "[",
    "]",
    "{",
    "}",
    ",",
    "\n",
    "\r\n",
    "\r",
    "\t",
    " ",
    "  ",
    "#",
    "&a ",
    "*a",
    "!",
    "!!str ",
    "!<",
    "|",
    ">",
    "|2-",
    "'",
    "\"",
    "\\",
    "%",
    "%YAML 1.2",
    "%TAG ! x",
    "---",
    "...",
    "@",
    "`",
    "<<",
    "~",
    "\u{feff}",
    "é",
    "\u{85}",
    "\u{2028}",
    "0",
    "{{1}}",
    "name",
    "x",
];

fn read_all(bytes: &[u8]) {
    let problems: [Vec<Diagnostic>; 3] = [
        AgentSpec::read("f", bytes).err().unwrap_or_default(),
        Script::read("f", bytes).err().unwrap_or_default(),
        Project::read("f", bytes).err().unwrap_or_default(),
    ];
    for problem in problems.iter().flatten() {
        let span = problem.span;
        assert!(span.start <= span.end && span.end <= bytes.len(), "{problem:?}");
        assert!(span.line >= 1 && span.column >= 1, "{problem:?}");
        if let Ok(text) = std::str::from_utf8(bytes) {
            assert!(text.is_char_boundary(span.start) && text.is_char_boundary(span.end), "{problem:?}");
        }
    }
}

/// A valid file with a few pieces put in, taken out or cut off.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let edit = (any::<prop::sample::Index>(), 0_usize..4, prop::sample::select(PIECES));
    (prop::sample::select(&[AGENT, SCRIPT, PROJECT][..]), prop::collection::vec(edit, 1..6)).prop_map(
        |(text, edits)| {
            let mut bytes = text.as_bytes().to_vec();
            for (at, removed, piece) in edits {
                let start = at.index(bytes.len() + 1);
                let end = (start + removed).min(bytes.len());
                bytes.splice(start..end, piece.bytes());
            }
            bytes
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_all(&bytes);
    }

    #[test]
    fn pieces_of_yaml_never_panic(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40)) {
        read_all(pieces.concat().as_bytes());
    }

    #[test]
    fn mutated_files_never_panic(bytes in mutated()) {
        read_all(&bytes);
    }
}

#[test]
fn the_files_that_are_mutated_are_valid() {
    assert_eq!(AgentSpec::read("agents/a/spec.yaml", AGENT.as_bytes()).err(), None);
    assert_eq!(Script::read("f", SCRIPT.as_bytes()).err(), None);
    assert_eq!(Project::read("f", PROJECT.as_bytes()).err(), None);
}
