//! `weir.lock`: what was found elsewhere when somebody last looked, so that it cannot change unseen.
//!
//! A pin is believed only if it fits itself, so a line that somebody edited is noticed before anything is compared
//! with it.

use std::collections::BTreeSet;

use weir_spec::lock::{LockReading, Pin, Places};
use weir_spec::{Diagnostic, Lock, canonical};
use weir_types::{Hash, Json};

/// Where it is.
pub(crate) const FILE: &str = "weir.lock";

/// What is pinned, as far as it can be believed.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) lock: Lock,
    pub(crate) places: Places,
    /// Servers with a pin that does not fit itself, which was told.
    pub(crate) edited: BTreeSet<String>,
    /// Whether there is a lock of which parts cannot be read, which was told.
    pub(crate) is_broken: bool,
}

impl Known {
    /// Reads a lock, and tells what is wrong with it.
    pub(crate) fn read(bytes: &[u8]) -> (Self, Vec<Diagnostic>) {
        let LockReading { lock, places, diagnostics } = Lock::read(FILE, bytes);
        let is_broken = diagnostics.iter().any(Diagnostic::is_error);
        let mut known = Self { lock, places, edited: BTreeSet::new(), is_broken };
        let mut problems = diagnostics;
        for (server, tools) in &known.lock.mcp {
            for (name, _) in tools.iter().filter(|(_, tool)| !fits(tool)) {
                known.edited.insert(server.clone());
                problems.push(edited(&known.places, server, name));
            }
        }
        (known, problems)
    }

    /// Whether nothing can be said about a server, for a reason that was told.
    pub(crate) fn is_silent_about(&self, server: &str) -> bool {
        self.is_broken || self.edited.contains(server)
    }
}

/// A definition, pinned; `None` when it is nested too deep to have one spelling.
pub(crate) fn pin(definition: &Json) -> Option<Pin> {
    let text = canonical::text(definition.as_str()).ok()?;
    Some(Pin { hash: Hash::of(text.as_bytes()), definition: Json::parse(&text).ok()? })
}

fn fits(tool: &Pin) -> bool {
    pin(&tool.definition).is_some_and(|again| again.hash == tool.hash)
}

fn edited(places: &Places, server: &str, name: &str) -> Diagnostic {
    let place = places.tools.get(&(server.to_owned(), name.to_owned())).copied();
    let message = format!("the pin of `{name}` does not fit its own definition: somebody edited it");
    let help = "restore weir.lock from version control, or make it anew with `weir lock --update`";
    Diagnostic::error("build::lock-edited", FILE, place.unwrap_or_default(), message, help)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn text() -> String {
        let definition =
            Json::parse(r#"{"name":"a","inputSchema":{"maximum":1.50,"type":"object"}}"#).unwrap();
        let tools = BTreeMap::from([("a".to_owned(), pin(&definition).unwrap())]);
        let mcp = BTreeMap::from([("mcp://npx/x".to_owned(), tools)]);
        Lock { mcp, ..Lock::default() }.to_text().unwrap()
    }

    #[test]
    fn white_space_is_no_edit_but_anything_else_is() {
        let problems = |text: &str| Known::read(text.as_bytes()).1;
        assert_eq!(problems(&text()), []);
        assert_eq!(problems(&text().replace("\n", "\n   ")), []);
        let found = problems(&text().replace("1.50", "1.5"));
        let shown: Vec<(&str, usize)> = found.iter().map(|each| (each.code, each.span.line)).collect();
        assert_eq!(shown, [("build::lock-edited", 13)]);
    }

    #[test]
    fn half_a_lock_says_nothing() {
        let text = text();
        let (known, problems) = Known::read(&text.as_bytes()[..text.len() / 2]);
        assert!(known.is_silent_about("mcp://npx/x"));
        assert_eq!(problems.len(), 1, "{problems:?}");
    }
}
