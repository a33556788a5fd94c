//! What is wrong with YAML that does not parse. The parser speaks of tokens and scalars; people see quotes, brackets and
//! indentation.

/// A slip of the pen.
pub(crate) struct Slip<'e> {
    /// What it is.
    pub(crate) message: &'e str,
    /// What to do about it.
    pub(crate) help: &'static str,
    /// Where it is, seen from the place where the parser gave up.
    pub(crate) place: Place,
}

/// Where a slip is.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// Where the parser gave up.
    Here,
    /// Something is missing there, after what comes before.
    Before,
    /// At a tab.
    Tab,
}

const INDENTATION: &str = "check the indentation here and on the lines before";

/// A part of the parser's words, and ours. The first that fits is taken.
const KNOWN: [(&str, Slip<'static>); 16] = [
    ("tab", slip("a tab cannot indent", "indent with spaces", Place::Tab)),
    (
        "mapping values are not allowed",
        slip(
            "a `:` is not expected here",
            "put text with `: ` in quotes, or check the indentation",
            Place::Here,
        ),
    ),
    (
        "indentation in quoted scalar",
        slip(
            "a quote is not closed, or its next line is not indented",
            "close it on the line it began",
            Place::Here,
        ),
    ),
    (
        "quoted scalar, found unexpected end",
        slip(
            "a quote is opened and never closed",
            "close it, or write the text as a block after `|`",
            Place::Here,
        ),
    ),
    (
        "unknown escape character",
        slip("this escape is unknown", "write `\\\\` for a backslash, or use single quotes", Place::Here),
    ),
    (
        "found unknown anchor",
        slip(
            "no anchor of this name comes before it",
            "text that begins with `*` needs quotes; an alias needs `&name` at the value it repeats",
            Place::Here,
        ),
    ),
    (
        "expected ',' or '}'",
        slip(
            "a `,` or `}` is missing after this",
            "close the mapping; text with `,` or `}` needs quotes",
            Place::Before,
        ),
    ),
    (
        "expected ',' or ']'",
        slip(
            "a `,` or `]` is missing after this",
            "close the list; text with `,` or `]` needs quotes",
            Place::Before,
        ),
    ),
    ("unexpected character", slip("text cannot begin with this character", "put it in quotes", Place::Here)),
    (
        "recursion limit",
        slip(
            "lists and mappings are nested too deep",
            "nothing in a project needs more than a handful",
            Place::Here,
        ),
    ),
    ("simple key expect", slip("a `:` is missing after this", "write `key: value`", Place::Before)),
    (
        "did not find expected node content",
        slip("a value is missing here", "write it, and close what is open", Place::Here),
    ),
    (
        "misplaced bracket",
        slip(
            "nothing is open that this closes",
            "remove it; text that begins with it needs quotes",
            Place::Here,
        ),
    ),
    ("did not find expected key", slip("a key is expected here", INDENTATION, Place::Here)),
    ("expected '-' indicator", slip("a `-` is expected here", INDENTATION, Place::Here)),
    ("invalid indentation", slip("this is not indented like its neighbours", INDENTATION, Place::Here)),
];

impl<'e> Slip<'e> {
    /// From the parser's words.
    pub(crate) fn of(info: &'e str) -> Self {
        let known = KNOWN.into_iter().find(|(part, _)| info.contains(part));
        known.map_or(Slip { message: info, help: INDENTATION, place: Place::Here }, |(_, slip)| slip)
    }
}

const fn slip(message: &'static str, help: &'static str, place: Place) -> Slip<'static> {
    Slip { message, help, place }
}
