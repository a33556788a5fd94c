//! The tools that come with the program: which ones an entry stands for, and how strict to be with them.
//!
//! What they do and which arguments they take is said by the program that runs them, not by the manifest.

use weir_types::{Effect, Risk};

/// One tool of the program.
pub(crate) struct Builtin {
    /// What an entry calls it, or the group it is in.
    pub(crate) entry: &'static str,
    /// The name the model sees.
    pub(crate) name: &'static str,
    pub(crate) effect: Effect,
    pub(crate) risk: Risk,
}

const fn reads(entry: &'static str, name: &'static str) -> Builtin {
    Builtin { entry, name, effect: Effect::Read, risk: Risk::Low }
}

/// What changes only files and notes of its session, by events that are appended with the result: a call that was cut off has
/// changed nothing, and can be made again.
const fn changes(entry: &'static str, name: &'static str, risk: Risk) -> Builtin {
    Builtin { entry, name, effect: Effect::Idempotent, risk }
}

const fn writes(entry: &'static str, name: &'static str, risk: Risk) -> Builtin {
    Builtin { entry, name, effect: Effect::Write, risk }
}

/// All of them, in the order in which a model is told about them. Files and notes are versioned: nothing is lost there.
pub(crate) const ALL: [Builtin; 13] = [
    reads("fs", "fs_read"),
    reads("fs", "fs_list"),
    reads("fs", "fs_glob"),
    reads("fs", "fs_search"),
    changes("edit", "edit_write", Risk::Low),
    changes("edit", "edit_replace", Risk::Low),
    changes("edit", "edit_multi", Risk::Low),
    changes("bash", "bash", Risk::High),
    writes("http", "http", Risk::Medium),
    changes("memory", "memory_store", Risk::Low),
    reads("memory", "memory_search"),
    reads("memory", "memory_related"),
    reads("get_time", "get_time"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spec_knows_the_same_names() {
        for entry in weir_spec::BUILTIN_TOOLS {
            let ours: Vec<&str> =
                ALL.iter().filter(|each| each.entry == *entry).map(|each| each.name).collect();
            assert_eq!(ours, weir_spec::builtin_names(entry), "{entry}");
        }
    }
}
