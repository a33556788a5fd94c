//! What a server says, against what weir.lock says it says.

use std::collections::BTreeMap;

use weir_mcp::Definition;
use weir_spec::lock::Pin;
use weir_spec::{Diagnostic, Span};

use super::Wanted;
use crate::{difference, lock};

/// The tools of a server that agents may use, by their names there.
pub(crate) type Pinned = BTreeMap<String, Pin>;

/// A server as agents may use it.
pub(crate) struct Offered {
    pub(crate) pins: Pinned,
    /// All that it has, for whoever names something else.
    pub(crate) names: Vec<String>,
    /// Whether it was asked, or only weir.lock.
    pub(crate) was_asked: bool,
}

/// The tools of a server as they are to be pinned from now on; `None` when there is a problem, which is told.
///
/// `answer` is what the server said, or `None` when nobody asked it; `update` accepts whatever that is.
pub(crate) fn pin(
    wanted: &Wanted,
    known: &lock::Known,
    answer: Option<&[Definition]>,
    update: bool,
    problems: &mut Vec<Diagnostic>,
) -> Option<Offered> {
    if known.is_silent_about(&wanted.address) {
        return None;
    }
    let locked = known.lock.mcp.get(&wanted.address);
    let Some(answer) = answer else {
        return from_lock(wanted, locked, problems);
    };
    let mut said = Pinned::new();
    for definition in answer.iter().filter(|definition| wanted.wants(&definition.name)) {
        let Some(pin) = lock::pin(&definition.json) else {
            let message = format!("the schema of `{}` is nested too deep", definition.name);
            let help = "leave the tool out with `only`";
            problems.push(Diagnostic::error("build::no-answer", &wanted.file, wanted.span, message, help));
            return None;
        };
        said.insert(definition.name.clone(), pin);
    }
    if let Some(locked) = locked.filter(|_| !update)
        && let Some(problem) = drift(wanted, locked, &said, known)
    {
        problems.push(problem);
        return None;
    }
    let names = answer.iter().map(|definition| definition.name.clone()).collect();
    Some(Offered { pins: said, names, was_asked: true })
}

fn from_lock(wanted: &Wanted, locked: Option<&Pinned>, problems: &mut Vec<Diagnostic>) -> Option<Offered> {
    let Some(locked) = locked else {
        let message = format!("`{}` is not pinned in weir.lock", wanted.address);
        let help = "run `weir build` once without `--offline`: it asks the server and pins its tools";
        problems.push(Diagnostic::error("build::not-pinned", &wanted.file, wanted.span, message, help));
        return None;
    };
    let pinned = locked.iter().filter(|(name, _)| wanted.wants(name));
    let pins = pinned.map(|(name, pin)| (name.clone(), pin.clone())).collect();
    Some(Offered { pins, names: locked.keys().cloned().collect(), was_asked: false })
}

/// What changed at the server since it was pinned. What an author newly names with `only` is no change of the server,
/// and what no agent uses any more may change as it likes.
fn drift(wanted: &Wanted, locked: &Pinned, said: &Pinned, known: &lock::Known) -> Option<Diagnostic> {
    let mut differences: Vec<(Span, String)> = Vec::new();
    for (name, pin) in locked.iter().filter(|(name, _)| wanted.wants(name)) {
        let place = known.places.tools.get(&(wanted.address.clone(), name.clone()));
        let span = place.copied().unwrap_or_default();
        match said.get(name) {
            None => differences.push((span, format!("`{name}` is gone"))),
            Some(now) if now.hash != pin.hash => {
                let changes = difference::of_values(&pin.definition.to_value(), &now.definition.to_value());
                differences.extend(changes.into_iter().map(|change| (span, format!("`{name}`: {change}"))));
            }
            Some(_) => {}
        }
    }
    if wanted.only.is_none() {
        let span = known.places.servers.get(&wanted.address).copied().unwrap_or_default();
        let new = said.keys().filter(|name| !locked.contains_key(*name));
        differences.extend(new.map(|name| (span, format!("`{name}` is new"))));
    }
    let first = match differences.as_slice() {
        [] => return None,
        [(_, only)] => only.clone(),
        [(_, first), rest @ ..] => format!("{first}; and {} more", rest.len()),
    };
    let message = format!("`{}` is not what weir.lock says: {first}", wanted.address);
    let help = "if you accept that, run `weir lock --update`";
    let problem = Diagnostic::error("build::drift", &wanted.file, wanted.span, message, help);
    Some(
        differences
            .into_iter()
            .fold(problem, |problem, (span, words)| problem.related(lock::FILE, span, words)),
    )
}
