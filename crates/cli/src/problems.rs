//! Problems in the files of a project, each with the line it is on.

use std::fmt::{self, Write as _};

use serde::Serialize;
use unicode_width::UnicodeWidthStr;
use weir_compiler::Compiled;
use weir_spec::{Diagnostic, Severity, mask};

use crate::paint::Paint;
use crate::report::{Snippet, sentence};
use crate::show::{count, printable, printable_lines};

/// Advice that is not longer stands at the mark itself.
const LABEL_COLUMNS_MAX: usize = 60;

/// Everything that is wrong with some files. Never empty.
#[derive(Debug, Default)]
pub(crate) struct Problems(Vec<Problem>);

#[derive(Debug)]
struct Problem {
    diagnostic: Diagnostic,
    snippet: Option<Snippet>,
}

#[derive(Serialize)]
struct Document<'a> {
    error: Body<'a>,
}

#[derive(Serialize)]
struct Body<'a> {
    code: &'static str,
    message: String,
    help: String,
    problems: Vec<&'a Diagnostic>,
}

impl Problems {
    /// Adds the problems of one file, whose content is needed to show them. Secrets in it are not shown.
    pub(crate) fn add(&mut self, diagnostics: Vec<Diagnostic>, content: &[u8]) {
        let hidden = diagnostics.iter().filter(|diagnostic| diagnostic.hide);
        let content = mask(content, hidden.map(|diagnostic| diagnostic.span.start..diagnostic.span.end));
        self.0.extend(diagnostics.into_iter().map(|diagnostic| {
            let snippet = snippet(&diagnostic, &content);
            Problem { diagnostic, snippet }
        }));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Everything that a compiler has found.
    pub(crate) fn of(compiled: &Compiled) -> Self {
        let mut problems = Self::default();
        for of_one_file in compiled.diagnostics.chunk_by(|one, next| one.file == next.file) {
            let content = compiled.files.get(&of_one_file[0].file).map_or(&[][..], Vec::as_slice);
            problems.add(of_one_file.to_vec(), content);
        }
        problems
    }

    fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.0.iter().map(|problem| &problem.diagnostic).filter(|diagnostic| diagnostic.is_error())
    }

    /// Whether all errors are in files of agents other than this one.
    pub(crate) fn are_of_others_than(&self, agent: &str) -> bool {
        let own = format!("agents/{agent}/");
        self.errors().all(|error| error.file.starts_with("agents/") && !error.file.starts_with(&own))
    }

    /// A stable name for all of them together.
    pub(crate) fn code(&self) -> &'static str {
        let mut errors = self.errors();
        match (errors.next(), errors.next()) {
            (Some(only), None) => only.code,
            _ => "spec::problems",
        }
    }

    /// What to do about the first.
    pub(crate) fn help(&self) -> String {
        self.errors().next().map(|error| error.help.clone()).unwrap_or_default()
    }

    pub(crate) fn to_json(&self) -> String {
        let problems = self.0.iter().map(|problem| &problem.diagnostic).collect();
        let body = Body { code: self.code(), message: self.to_string(), help: self.help(), problems };
        let document = Document { error: body };
        serde_json::to_string(&document).unwrap_or_else(|_| r#"{"error":{"code":"cli::bug"}}"#.to_owned())
    }

    pub(crate) fn to_text(&self, paint: Paint) -> String {
        let mut text: String = self.0.iter().map(|problem| problem.to_text(paint)).collect();
        if self.0.len() > 1 {
            let errors = self.errors().count();
            let label = if errors > 0 { paint.error("error:") } else { paint.warn("warning:") };
            let _ = writeln!(text, "{label} {}", counts(errors, self.0.len() - errors));
        }
        text
    }
}

fn counts(errors: usize, warnings: usize) -> String {
    match (count(errors as u64, "error"), count(warnings as u64, "warning")) {
        (errors, _) if warnings == 0 => errors,
        (_, warnings) if errors == 0 => warnings,
        (errors, warnings) => format!("{errors}, {warnings}"),
    }
}

/// What stands in the way, on one line, for a log.
impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, error) in self.errors().enumerate() {
            let separator = if n > 0 { "; " } else { "" };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl Problem {
    fn to_text(&self, paint: Paint) -> String {
        let Diagnostic { code, severity, file, span, message, help, related, .. } = &self.diagnostic;
        let head = match severity {
            Severity::Error => paint.error(&format!("error[{code}]:")).into_owned(),
            Severity::Warning => paint.warn(&format!("warning[{code}]:")).into_owned(),
        };
        let mut text = sentence(&head, &printable_lines(message), paint);
        let labelled = match &self.snippet {
            Some(snippet) => {
                text.push_str(&snippet.draw(paint));
                snippet.is_labelled(paint)
            }
            None => {
                let _ = writeln!(text, "   at {}:{}:{}", printable(file), span.line, span.column);
                false
            }
        };
        for other in related {
            let place = format!("{}:{}:{}", printable(&other.file), other.span.line, other.span.column);
            let words = format!("{}: {place}", printable(&other.message));
            text.push_str(&sentence(&paint.hint("note:"), &words, paint));
        }
        if !labelled {
            text.push_str(&sentence(&paint.hint("help:"), &printable(help), paint));
        }
        text
    }
}

/// The line of the problem, marked as far as the problem goes on it.
fn snippet(diagnostic: &Diagnostic, content: &[u8]) -> Option<Snippet> {
    let span = diagnostic.span;
    let start = content.get(..span.start)?.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let before = content[..start].strip_suffix(b"\n").unwrap_or_default();
    let before = &before[before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)..];
    let length = content[start..].iter().position(|byte| *byte == b'\n').unwrap_or(content.len() - start);
    let line = &content[start..start + length];
    if line.iter().all(u8::is_ascii_whitespace) {
        return None;
    }
    // A file that is no text is shown as far as it is; what is replaced keeps the places before it.
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end();
    let marked = span.start - start..span.end.min(start + text.len()).max(span.start) - start;
    let help = printable(&diagnostic.help);
    let label = if help.width() <= LABEL_COLUMNS_MAX { help.into_owned() } else { String::new() };
    let name = printable(&diagnostic.file).into_owned();
    let before = String::from_utf8_lossy(before);
    let before = before.trim_start_matches('\u{feff}');
    Some(Snippet::cut(name, (span.line, span.column), [before.trim_end(), text], marked, label))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use weir_types::Catalog;

    use super::*;
    use crate::report::Failure;

    const FILE: &str = "agents/helper/spec.yaml";

    fn failure(content: &[u8]) -> Failure {
        let mut problems = Problems::default();
        let files = BTreeMap::from([(FILE.to_owned(), content.to_owned())]);
        problems.add(weir_spec::read(&files, &Catalog::builtin().unwrap()).diagnostics, content);
        Failure::Problems(Box::new(problems))
    }

    #[test]
    fn a_problem_is_shown_as_in_the_design() {
        let shown = failure(b"name: helper\nmodel: anthropic/claude-sonet-4-5\n").render(false, Paint::OFF);
        insta::assert_snapshot!(shown, @"
        error[spec::unknown-model]: unknown model `anthropic/claude-sonet-4-5`
           ╭─[agents/helper/spec.yaml:2:8]
         1 │ name: helper
         2 │ model: anthropic/claude-sonet-4-5
           ·        ─────────────┬────────────
           ·                     ╰── did you mean `anthropic/claude-sonnet-4-5`?
           ╰────
        ");
    }

    #[test]
    fn all_problems_are_shown_with_their_lines() {
        let long = "x".repeat(200);
        let content = format!(
            "\u{feff}name: helper\r\nmodle: a\r\nname: again\r\nlimits: {{ {long}: 1, iterations: 0 }}\r\ntools:\r\n  - name:\r\n      - deep\r\n"
        );
        let failure = failure(content.as_bytes());
        assert_eq!(failure.exit(), crate::exit::Exit::Usage);
        insta::assert_snapshot!(failure.render(false, Paint::OFF), @"
        error[spec::unknown-key]: an agent has no field `modle`
           ╭─[agents/helper/spec.yaml:2:1]
         1 │ name: helper
         2 │ modle: a
           · ──┬──
           ·   ╰── did you mean `model`?
           ╰────
        error[spec::duplicate-key]: `name` is here twice
           ╭─[agents/helper/spec.yaml:3:1]
         2 │ modle: a
         3 │ name: again
           · ──┬─
           ·   ╰── keep one of them
           ╰────
        note: first here: agents/helper/spec.yaml:1:1
        error[spec::unknown-key]: `limits` has no field `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…`
           ╭─[agents/helper/spec.yaml:4:11]
         3 │ name: again
         4 │ limits: { xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…
           ·           ────────────────────────────────────────────────────────────
           ╰────
        help: its fields are: iterations, usd, wall_clock, output_tokens, context_tokens, tokens, model_calls
        error[spec::wrong-value]: `iterations` cannot be 0
           ╭─[agents/helper/spec.yaml:4:228]
         3 │ name: again
         4 │ …xxxxxxxxxxxxxxxxxxxxxxx: 1, iterations: 0 }
           ·                                          ┬
           ·                                          ╰── use 1 or more, or remove it
           ╰────
        error[spec::wrong-value]: `name` is text, not a list
           ╭─[agents/helper/spec.yaml:7:7]
         6 │   - name:
         7 │       - deep
           ·       ───┬──
           ·          ╰── write the text after the `:`
           ╰────
        error: 5 errors
        ");
    }

    #[test]
    fn problems_without_a_line_to_show() {
        insta::assert_snapshot!(failure(b"").render(false, Paint::OFF), @"
        error[spec::empty]: the file is empty
           at agents/helper/spec.yaml:1:1
        help: give it its fields, such as `name: …`
        ");
        insta::assert_snapshot!(failure(b"name: \x1b[2J\xff\n").render(false, Paint::OFF), @"
        error[spec::not-text]: byte 0xff is not UTF-8 text
           ╭─[agents/helper/spec.yaml:1:11]
         1 │ name: ·[2J�
           ·           ┬
           ·           ╰── save the file as UTF-8
           ╰────
        ");
        insta::assert_snapshot!(failure(b"name: a\x1b[2J\n").render(false, Paint::OFF), @r"
        error[spec::not-text]: control character U+001B in a text file
           ╭─[agents/helper/spec.yaml:1:8]
         1 │ name: a·[2J
           ·        ─
           ╰────
        help: remove it; inside double quotes, `\uXXXX` stands for a character that cannot be written
        ");
    }

    #[test]
    fn secrets_are_not_shown() {
        let key = format!("sk-ant-{}", "a1b2c3d4".repeat(4));
        let content = format!("name: helper\ndescription: use {key}\nmodle: offline/echo\n");
        let shown = failure(content.as_bytes());
        for text in [shown.render(false, Paint::OFF), shown.render(true, Paint::OFF)] {
            assert!(text.contains("spec::secret") && text.contains("spec::unknown-key"), "{text}");
            assert!(!text.contains("a1b2c3d4"), "{text}");
        }
    }

    #[test]
    fn programs_get_them_as_data() {
        insta::assert_snapshot!(failure(b"model: a\nnmae: helper\nfoo: 1").render(true, Paint::OFF), @r#"{"error":{"code":"spec::problems","message":"agents/helper/spec.yaml:1:8: unknown model `a`; agents/helper/spec.yaml:2:1: an agent has no field `nmae`; agents/helper/spec.yaml:3:1: an agent has no field `foo`","help":"write `provider/name`; add a model the catalog lacks under `models:` in weir.yaml; `offline/echo` needs no network","problems":[{"code":"spec::unknown-model","severity":"error","file":"agents/helper/spec.yaml","span":{"start":7,"end":8,"line":1,"column":8},"message":"unknown model `a`","help":"write `provider/name`; add a model the catalog lacks under `models:` in weir.yaml; `offline/echo` needs no network","related":[],"hide":false},{"code":"spec::unknown-key","severity":"error","file":"agents/helper/spec.yaml","span":{"start":9,"end":13,"line":2,"column":1},"message":"an agent has no field `nmae`","help":"did you mean `name`?","related":[],"hide":false},{"code":"spec::unknown-key","severity":"error","file":"agents/helper/spec.yaml","span":{"start":22,"end":25,"line":3,"column":1},"message":"an agent has no field `foo`","help":"its fields are: name, model, description, tools, skills, limits, acl, region","related":[],"hide":false}]}}"#);
        insta::assert_snapshot!(failure(b"name: helper").render(true, Paint::OFF), @r#"{"error":{"code":"spec::missing","message":"agents/helper/spec.yaml:1:1: an agent needs `model`","help":"add it, for example `model: offline/echo`","problems":[{"code":"spec::missing","severity":"error","file":"agents/helper/spec.yaml","span":{"start":0,"end":4,"line":1,"column":1},"message":"an agent needs `model`","help":"add it, for example `model: offline/echo`","related":[],"hide":false}]}}"#);
    }
}
