//! The files of a project, through the public API.

#![allow(clippy::unwrap_used, reason = "a helper of a test fails like the test itself")]

mod agent;
mod hostile;
mod project;
mod properties;
mod script;

use weir_spec::Diagnostic;

/// Problems as a person would want them: place, the marked text, what is wrong, what to do.
fn shown(bytes: &[u8], problems: &[Diagnostic]) -> String {
    let mut lines = Vec::new();
    for problem in problems {
        let marked = String::from_utf8_lossy(&bytes[problem.span.start..problem.span.end]).into_owned();
        let place = format!("{}:{} ‹{}›", problem.span.line, problem.span.column, marked.escape_debug());
        lines.push(format!("{place} {}\n  {}\n  → {}", problem.code, problem.message, problem.help));
        for related in &problem.related {
            lines.push(format!("  ({}:{} {})", related.span.line, related.span.column, related.message));
        }
    }
    lines.join("\n")
}
