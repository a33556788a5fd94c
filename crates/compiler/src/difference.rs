//! What has changed, in words: field by field for values, line by line for texts.

use serde_json::Value;

/// Most differences that are told of one thing.
const SHOWN_MAX: usize = 12;

/// Most characters of a value that are shown.
const CHARACTERS_MAX: usize = 120;

/// The differences between two values, each with the way to it.
pub(crate) fn of_values(before: &Value, after: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk("", before, after, &mut found);
    shortened(found)
}

fn walk(path: &str, before: &Value, after: &Value, found: &mut Vec<String>) {
    if before == after || found.len() > SHOWN_MAX {
        return;
    }
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                match (old.get(key), new.get(key)) {
                    (Some(old), Some(new)) => walk(&path, old, new, found),
                    (Some(old), None) => found.push(format!("`{path}` was {}, is gone", shown(old))),
                    (None, Some(new)) => found.push(format!("`{path}` is new: {}", shown(new))),
                    (None, None) => {}
                }
            }
        }
        _ => found.push(format!("`{path}` was {}, is now {}", shown(before), shown(after))),
    }
}

/// The first lines in which two texts differ.
pub(crate) fn of_texts(before: &str, after: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let same_start = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[same_start..], &new[same_start..]);
    let same_end = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let removed = old[..old.len() - same_end].iter().map(|line| format!("- {}", cut(line)));
    let added = new[..new.len() - same_end].iter().map(|line| format!("+ {}", cut(line)));
    shortened(removed.chain(added).collect())
}

fn shortened(mut found: Vec<String>) -> Vec<String> {
    if found.len() > SHOWN_MAX {
        let left_out = found.len() - SHOWN_MAX;
        found.truncate(SHOWN_MAX);
        found.push(format!("… and {left_out} more"));
    }
    found
}

fn shown(value: &Value) -> String {
    cut(&value.to_string())
}

fn cut(text: &str) -> String {
    // A server's words may contain anything; on a terminal some of it would act.
    let plain = |character: char| if character.is_control() { ' ' } else { character };
    let mut characters = text.chars().map(plain);
    let start: String = characters.by_ref().take(CHARACTERS_MAX).collect();
    if characters.next().is_some() { start + "…" } else { start }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_differ_field_by_field() {
        let before =
            json!({"name": "a", "description": "reads", "annotations": {"readOnlyHint": true}, "x": 1});
        let after =
            json!({"name": "a", "description": "writes", "annotations": {"readOnlyHint": false, "y": 2}});
        assert_eq!(
            of_values(&before, &after),
            [
                "`annotations.readOnlyHint` was true, is now false",
                "`annotations.y` is new: 2",
                "`description` was \"reads\", is now \"writes\"",
                "`x` was 1, is gone",
            ]
        );
        assert_eq!(of_values(&before, &before), [""; 0]);
    }

    #[test]
    fn texts_differ_line_by_line() {
        assert_eq!(of_texts("a\nb\nc\n", "a\nB\nB2\nc\n"), ["- b", "+ B", "+ B2"]);
        let many: String = (0..30).map(|n| format!("{n}\n")).collect();
        assert_eq!(of_texts("", &many).last().unwrap(), "… and 18 more");
        assert_eq!(
            of_texts("x", &format!("x\n{}\u{1b}", "y".repeat(200))),
            [format!("+ {}…", "y".repeat(120))]
        );
    }
}
