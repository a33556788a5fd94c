//! The class of a tool: what repeating a call does, and how bad a wrong call can be.
//!
//! What nothing is known about writes and is of high risk. The author of the project says more with `access` and `effect`, the
//! server of a tool with its annotations, which are pinned in weir.lock.

use serde_json::Value;
use weir_spec::{Access, ToolEntry};
use weir_types::{Effect, Risk};

/// How strict to be with a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class {
    pub(super) effect: Effect,
    pub(super) risk: Risk,
}

/// What an entry makes of a tool of its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offered {
    /// It is offered, with this class.
    As(Class),
    /// It writes, and the entry offers reading only.
    Writes,
    /// Neither the author nor the server says whether it writes.
    Unknown,
}

/// What a server says about one of its tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Annotations {
    /// `readOnlyHint`.
    pub(super) reads: Option<bool>,
    /// `destructiveHint`.
    pub(super) destroys: Option<bool>,
    /// `requires_confirmation`, which is not of the protocol; any value but `false` and `null` counts.
    pub(super) wants_confirmation: bool,
}

impl Annotations {
    /// The annotations of a definition. Those of another type than the protocol's say nothing.
    pub(super) fn of(definition: &Value) -> Self {
        const CONFIRMATION: [&str; 3] =
            ["requires_confirmation", "requiresConfirmation", "requiresConfirmationHint"];
        let hint = |name: &str| definition.get("annotations").and_then(|hints| hints.get(name));
        let is_asked =
            |name: &&str| hint(name).is_some_and(|hint| !hint.is_null() && *hint != Value::Bool(false));
        Self {
            reads: hint("readOnlyHint").and_then(Value::as_bool),
            destroys: hint("destructiveHint").and_then(Value::as_bool),
            wants_confirmation: CONFIRMATION.iter().any(is_asked),
        }
    }

    /// Whether the server says that the tool writes. By the protocol, `destructiveHint` says nothing beside `readOnlyHint: true`.
    fn writes(self) -> Option<bool> {
        match (self.reads, self.destroys) {
            (Some(reads), _) => Some(!reads),
            (None, Some(true)) => Some(true),
            (None, Some(false) | None) => None,
        }
    }

    fn risk(self, effect: Effect) -> Risk {
        let destroys = self.destroys == Some(true) && self.reads != Some(true);
        match effect {
            _ if self.wants_confirmation => Risk::High,
            Effect::Read if destroys => Risk::Medium,
            Effect::Read => Risk::Low,
            // The server says that it writes, and that it only adds.
            Effect::Idempotent | Effect::Write
                if self.reads == Some(false) && self.destroys == Some(false) =>
            {
                Risk::Medium
            }
            Effect::Idempotent | Effect::Write => Risk::High,
        }
    }
}

/// A tool that describes no class of its own: a script, or another agent. What another agent does passes the gate itself.
pub(super) fn by_author(entry: &ToolEntry) -> Class {
    let effect = entry.effect.unwrap_or(match entry.ceiling() {
        Access::Read => Effect::Read,
        Access::Write => Effect::Write,
    });
    Class { effect, risk: if effect == Effect::Read { Risk::Low } else { Risk::High } }
}

/// A tool of a server. `effect` is the author's word for all tools of the entry; `access: read` is it for those of which the
/// server does not say that they write.
pub(super) fn of_server(access: Option<Access>, effect: Option<Effect>, annotations: Annotations) -> Offered {
    let effect = match (effect, annotations.writes(), access) {
        (Some(effect), ..) => effect,
        (None, Some(false), _) | (None, None, Some(Access::Read)) => Effect::Read,
        (None, Some(true), _) | (None, None, Some(Access::Write)) => Effect::Write,
        (None, None, None) => return Offered::Unknown,
    };
    if effect != Effect::Read && access != Some(Access::Write) {
        return Offered::Writes;
    }
    Offered::As(Class { effect, risk: annotations.risk(effect) })
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    /// Every value that a hint can have, the ones of another type included.
    fn hints() -> Vec<Option<Value>> {
        vec![
            None,
            Some(json!(true)),
            Some(json!(false)),
            Some(json!(null)),
            Some(json!("true")),
            Some(json!(1)),
        ]
    }

    /// All definitions that differ in what this module looks at.
    fn definitions() -> Vec<Value> {
        let mut all = vec![json!({}), json!({"annotations": null}), json!({"annotations": "readOnlyHint"})];
        for reads in hints() {
            for destroys in hints() {
                for repeats in [None, Some(json!(true))] {
                    for confirms in hints() {
                        let pairs = [
                            ("readOnlyHint", &reads),
                            ("destructiveHint", &destroys),
                            ("idempotentHint", &repeats),
                            ("requires_confirmation", &confirms),
                        ];
                        let map = pairs
                            .into_iter()
                            .filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)));
                        all.push(json!({"annotations": map.collect::<Map<_, _>>()}));
                    }
                }
            }
        }
        all
    }

    const ACCESS: [Option<Access>; 3] = [None, Some(Access::Read), Some(Access::Write)];
    const EFFECTS: [Option<Effect>; 4] =
        [None, Some(Effect::Read), Some(Effect::Idempotent), Some(Effect::Write)];

    /// The table of docs/policies.md, row by row, in words that share nothing with the code above.
    fn table(access: Option<Access>, effect: Option<Effect>, definition: &Value) -> Option<(Effect, Risk)> {
        let says = |name: &str, value: bool| definition["annotations"][name] == json!(value);
        let (reads, writes) = (says("readOnlyHint", true), says("readOnlyHint", false));
        let (destroys, adds) = (says("destructiveHint", true), says("destructiveHint", false));
        let confirms = &definition["annotations"]["requires_confirmation"];
        let confirms = !confirms.is_null() && *confirms != json!(false);
        let known_to_write = writes || (destroys && !reads);
        let effect = if let Some(effect) = effect {
            effect
        } else if reads {
            Effect::Read
        } else if known_to_write {
            Effect::Write
        } else {
            match access? {
                Access::Read => Effect::Read,
                Access::Write => Effect::Write,
            }
        };
        if effect != Effect::Read && access != Some(Access::Write) {
            return None;
        }
        let risk = if confirms {
            Risk::High
        } else if effect == Effect::Read {
            if destroys && !reads { Risk::Medium } else { Risk::Low }
        } else if writes && adds {
            Risk::Medium
        } else {
            Risk::High
        };
        Some((effect, risk))
    }

    #[test]
    fn every_combination_has_the_class_of_the_table() {
        let mut seen = std::collections::BTreeMap::<String, usize>::new();
        for definition in definitions() {
            for access in ACCESS {
                for effect in EFFECTS {
                    let found = of_server(access, effect, Annotations::of(&definition));
                    let as_row = match found {
                        Offered::As(Class { effect, risk }) => Some((effect, risk)),
                        Offered::Writes | Offered::Unknown => None,
                    };
                    let expected = table(access, effect, &definition);
                    assert_eq!(as_row, expected, "{access:?} {effect:?} {definition}");
                    *seen.entry(format!("{expected:?}")).or_default() += 1;
                }
            }
        }
        // Low, medium and high reads; medium and high writes, of both kinds; not offered.
        assert_eq!(seen.len(), 8, "{seen:#?}");
    }

    #[test]
    fn silence_never_makes_a_tool_looser() {
        for definition in definitions() {
            let annotations = Annotations::of(&definition);
            // Without a word of the author, only the server's own word that a tool reads has it offered, as a read.
            match of_server(None, None, annotations) {
                Offered::As(class) => {
                    assert_eq!((annotations.reads, class.effect), (Some(true), Effect::Read), "{definition}");
                }
                Offered::Unknown => assert_ne!(annotations.reads, Some(true), "{definition}"),
                Offered::Writes => {}
            }
            // A server that says less about a tool does not make it less strict.
            let silent = of_server(Some(Access::Write), None, Annotations::default());
            assert_eq!(silent, Offered::As(Class { effect: Effect::Write, risk: Risk::High }));
            // Annotations never widen what the author offers for reading.
            if let Offered::As(class) = of_server(Some(Access::Read), None, annotations) {
                assert_eq!(class.effect, Effect::Read, "{definition}");
            }
        }
    }
}
