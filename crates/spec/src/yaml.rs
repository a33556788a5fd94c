//! YAML as this project takes it: one document, text as keys, no key twice, no tags, and nothing that unfolds into more
//! than a person would write.
//!
//! Built on the parser's events and not on its loader: the loader is recursive, keeps only one of two equal keys and has
//! made floats of numbers before anyone could ask for their spelling.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Tag};

use crate::diagnostic::{Findings, Span, Spanned};
use crate::node::{Entry, Node, Value, excerpt};
use crate::secret::{self, find_secrets};
use crate::slip::{Place, Slip};
use crate::source::{FILE_BYTES_MAX, Source};

/// Deepest nesting of lists and mappings. What comes after may recurse, so this bounds its stack.
const DEPTH_MAX: usize = 64;

/// What a document may amount to.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    /// Most bytes of its file.
    pub(crate) file_bytes: usize,
    /// Most nodes, the copies that aliases make included.
    pub(crate) nodes: usize,
    /// Whether it may have aliases at all.
    pub(crate) aliases: bool,
}

impl Bounds {
    /// Of a file that people write.
    pub(crate) const WRITTEN: Self = Self { file_bytes: FILE_BYTES_MAX, nodes: 100_000, aliases: true };

    /// Most bytes of text in all nodes.
    fn text_bytes(self) -> usize {
        4 * self.file_bytes
    }
}

/// The document of a file, as far as it is one; what is wrong with it goes to `findings`.
pub(crate) fn document(bytes: &[u8], findings: &mut Findings) -> Option<Node> {
    document_within(bytes, Bounds::WRITTEN, findings)
}

/// The same, for files that may amount to more or less.
pub(crate) fn document_within(bytes: &[u8], bounds: Bounds, findings: &mut Findings) -> Option<Node> {
    let source = Source::of(bytes, bounds.file_bytes, findings)?;
    let mut parser = Parser::new_from_str(source.text);
    let mut builder = Builder::new(&source, bounds, findings);
    while let Some(event) = parser.next_event() {
        let (event, place) = match event {
            Ok((event, span)) => (event, source.between(span.start, span.end)),
            Err(error) => {
                builder.syntax(&error);
                return None;
            }
        };
        builder.take(event, place)?;
    }
    builder.finish()
}

/// A list or mapping whose end has not come yet.
struct Open {
    span: Span,
    anchor: usize,
    items: Items,
}

enum Items {
    List(Vec<Node>),
    Map {
        entries: Vec<Entry>,
        /// The key that waits for its value.
        key: Option<Key>,
        /// Where each key was first seen.
        seen: BTreeMap<String, Span>,
    },
}

enum Key {
    Text(Spanned<String>),
    /// It cannot be used, which was told; its value goes with it.
    Refused,
}

struct Builder<'s, 'f> {
    source: &'s Source<'s>,
    bounds: Bounds,
    findings: &'f mut Findings,
    open: Vec<Open>,
    anchored: BTreeMap<usize, Node>,
    size: Size,
    documents: usize,
    root: Option<Node>,
}

/// A reason to stop was found and told.
type Step = Option<()>;

impl<'s, 'f> Builder<'s, 'f> {
    fn new(source: &'s Source<'s>, bounds: Bounds, findings: &'f mut Findings) -> Self {
        let (open, anchored) = (Vec::new(), BTreeMap::new());
        Self { source, bounds, findings, open, anchored, size: Size::default(), documents: 0, root: None }
    }

    fn take(&mut self, event: Event<'_>, span: Span) -> Step {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Some(()),
            Event::DocumentStart(_) => self.document(span),
            Event::Alias(anchor) => self.alias(anchor, span),
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span);
                let value = match style {
                    _ if self.holds_secret(&text, span) => Value::Refused,
                    ScalarStyle::Plain => Value::Plain(text.into_owned()),
                    _ => Value::Quoted(text.into_owned()),
                };
                self.complete(Node { span, value }, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span);
                self.begin(Open { span, anchor, items: Items::List(Vec::new()) })
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span);
                let items = Items::Map { entries: Vec::new(), key: None, seen: BTreeMap::new() };
                self.begin(Open { span, anchor, items })
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(span),
        }
    }

    fn document(&mut self, span: Span) -> Step {
        self.documents += 1;
        if self.documents == 1 {
            return Some(());
        }
        let help = "keep one document per file; remove the `---`";
        self.findings.add("spec::syntax", span, "a second document begins here", help);
        None
    }

    fn begin(&mut self, open: Open) -> Step {
        self.check_depth(1, open.span)?;
        self.open.push(open);
        Some(())
    }

    fn end(&mut self, end: Span) -> Step {
        let Open { mut span, anchor, items } = self.open.pop()?;
        // Where a block ends, nothing is written: its last part has the end that people see.
        if end.end > end.start {
            span.end = end.end;
        }
        let value = match items {
            Items::List(nodes) => Value::List(nodes),
            Items::Map { entries, .. } => Value::Map(entries),
        };
        self.complete(Node { span, value }, anchor)
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Step {
        let Some(node) = self.anchored.get(&anchor).filter(|_| self.bounds.aliases) else {
            let message = match self.bounds.aliases {
                true => "an alias stands inside what it stands for",
                false => "an alias has no meaning here",
            };
            self.findings.add("spec::syntax", span, message, "write the value out");
            return None;
        };
        let size = Size::of(node);
        self.check_depth(size.height, span)?;
        self.grow(size, span)?;
        let value = self.anchored.get(&anchor)?.value.clone();
        self.complete(Node { span, value }, 0)
    }

    fn check_depth(&mut self, more: usize, span: Span) -> Step {
        if self.open.len() + more <= DEPTH_MAX {
            return Some(());
        }
        let message = format!("lists and mappings are nested more than {DEPTH_MAX} deep");
        self.findings.add("spec::syntax", span, message, "nothing in a project needs more than a handful");
        None
    }

    fn grow(&mut self, by: Size, span: Span) -> Step {
        self.size.nodes += by.nodes;
        self.size.text_bytes += by.text_bytes;
        let text_bytes = self.bounds.text_bytes();
        if self.size.nodes <= self.bounds.nodes && self.size.text_bytes <= text_bytes {
            return Some(());
        }
        let (nodes, mebibytes) = (self.bounds.nodes, text_bytes / (1024 * 1024));
        let message =
            format!("the document unfolds into more than {nodes} values or {mebibytes} MiB of text");
        self.findings.add("spec::too-large", span, message, "split it, or use fewer aliases");
        None
    }

    /// A node is there: it goes into whatever is open.
    fn complete(&mut self, node: Node, anchor: usize) -> Step {
        self.grow(Size { nodes: 1, text_bytes: node.as_text().map_or(0, str::len), height: 0 }, node.span)?;
        if anchor > 0 && self.bounds.aliases {
            // An anchor keeps a copy, and anchors can nest.
            self.grow(Size::of(&node), node.span)?;
            self.anchored.insert(anchor, node.clone());
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Some(());
        };
        open.span.end = open.span.end.max(node.span.end);
        match &mut open.items {
            Items::List(items) => items.push(node),
            Items::Map { entries, key, seen } => match key.take() {
                None => *key = Some(key_of(&node, seen, self.findings)),
                Some(Key::Text(key)) => entries.push(Entry { key, value: node }),
                Some(Key::Refused) => {}
            },
        }
        Some(())
    }

    /// Whether a scalar looks like a key, which is told. It stops here: nothing later can repeat it.
    fn holds_secret(&mut self, text: &str, span: Span) -> bool {
        let found = find_secrets(text);
        for range in &found {
            let place = self.source.place_within(span, &text[range.clone()]);
            let problem = secret::problem(self.findings.file(), place.unwrap_or(span));
            self.findings.push(problem);
        }
        !found.is_empty()
    }

    fn refuse_tag(&mut self, tag: Option<&Tag>, span: Span) {
        if let Some(tag) = tag {
            let name = if tag.is_yaml_core_schema() { format!("!!{}", tag.suffix) } else { tag.to_string() };
            let message = format!("the tag `{}` has no meaning here", excerpt(&name));
            self.findings.add(
                "spec::syntax",
                span,
                message,
                "remove it; text that looks like a number goes in quotes",
            );
        }
    }

    fn syntax(&mut self, error: &ScanError) {
        let slip = Slip::of(error.info());
        let at = *error.marker();
        let span = match slip.place {
            Place::Here => self.source.character_at(at),
            Place::Before => self.source.character_before(at),
            Place::Tab => self.source.tab_near(at).unwrap_or_else(|| self.source.character_at(at)),
        };
        self.findings.add("spec::syntax", span, slip.message, slip.help);
    }

    fn finish(self) -> Option<Node> {
        if self.root.is_none() {
            let span = Span { line: 1, column: 1, ..Span::default() };
            self.findings.add(
                "spec::empty",
                span,
                "the file is empty",
                "give it its fields, such as `name: …`",
            );
        }
        self.root
    }
}

/// The key, unless it is no text or there already.
fn key_of(node: &Node, seen: &mut BTreeMap<String, Span>, findings: &mut Findings) -> Key {
    if matches!(node.value, Value::Refused) {
        return Key::Refused;
    }
    if matches!(&node.value, Value::Plain(text) if text == "<<") {
        let help = "write the fields out; an alias can stand for a whole value: `limits: *usual`";
        findings.add("spec::merge-key", node.span, "merge keys are not a part of YAML 1.2", help);
        return Key::Refused;
    }
    let Some(text) = node.as_text() else {
        let message = format!("a key is text, not {}", node.kind());
        let help = match node.value {
            // `city: {{1}}` is what people write when they mean `city: "{{1}}"`.
            Value::Map(_) => "text that begins with `{` needs quotes, like `\"{{1}}\"`",
            _ => "write `key: value`",
        };
        findings.add("spec::syntax", node.span, message, help);
        return Key::Refused;
    };
    if let Some(first) = seen.get(text) {
        let message = format!("`{}` is here twice", excerpt(text));
        findings.twice("spec::duplicate-key", [*first, node.span], message, "keep one of them");
        return Key::Refused;
    }
    seen.insert(text.to_owned(), node.span);
    Key::Text(Spanned { value: text.to_owned(), span: node.span })
}

/// How much a tree is.
#[derive(Clone, Copy, Default)]
struct Size {
    nodes: usize,
    text_bytes: usize,
    /// Lists and mappings within one another.
    height: usize,
}

impl Size {
    /// Recursion is bounded by `DEPTH_MAX`.
    fn of(node: &Node) -> Self {
        let leaf = Self { nodes: 1, text_bytes: node.as_text().map_or(0, str::len), height: 0 };
        match &node.value {
            Value::Plain(_) | Value::Quoted(_) | Value::Refused => leaf,
            Value::List(items) => Self::around(items.iter().map(Self::of)),
            Value::Map(entries) => Self::around(entries.iter().map(|entry| {
                let value = Self::of(&entry.value);
                Self { nodes: value.nodes + 1, text_bytes: value.text_bytes + entry.key.value.len(), ..value }
            })),
        }
    }

    fn around(parts: impl Iterator<Item = Self>) -> Self {
        parts.fold(Self { nodes: 1, text_bytes: 0, height: 1 }, |all, part| Self {
            nodes: all.nodes + part.nodes,
            text_bytes: all.text_bytes + part.text_bytes,
            height: all.height.max(part.height + 1),
        })
    }
}
