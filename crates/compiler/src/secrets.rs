//! The last look before a manifest: nothing in it may look like a key.
//!
//! Files of the project are searched where they are read, and shown with their lines. Here is what enters a manifest
//! from elsewhere: skills of registries, and what servers say.

use std::collections::BTreeMap;

use weir_spec::manifest::{Manifest, Source};
use weir_spec::{Diagnostic, Span, find_secrets};

use crate::skill::Package;

/// What looks like a key in the manifest, and came from `packages` or from a server. `places` says where agents list them.
pub(crate) fn check(
    manifest: &Manifest,
    packages: &BTreeMap<String, Package>,
    places: &BTreeMap<String, (String, Span)>,
) -> Vec<Diagnostic> {
    let mut problems = Vec::new();
    let mut look = |name: &str, text: &str, subject: String| {
        if find_secrets(text).is_empty() {
            return;
        }
        let (file, span) =
            places.get(name).cloned().unwrap_or_else(|| (crate::lock::FILE.to_owned(), Span::START));
        let message = format!("something in {subject} looks like a secret, and would end up in the manifest");
        let help = "do not use it until its author has removed that";
        problems.push(Diagnostic::error("spec::secret", &file, span, message, help));
    };
    for (name, source) in &manifest.sources {
        if let Source::Mcp(server) = source {
            for (tool, pin) in &server.tools {
                look(name, pin.definition.as_str(), format!("the definition of `{tool}`"));
            }
        }
    }
    for (name, skill) in manifest.skills.iter().filter(|(name, _)| packages.contains_key(*name)) {
        let texts = skill.fragments.iter().chain([&skill.description]);
        texts.for_each(|text| look(name, text, format!("the skill `{name}`")));
    }
    problems
}
