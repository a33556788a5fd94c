//! JSON with one value a line, spelled as it was.

/// Canonical JSON with line breaks and indentation. Numbers keep their spelling, which reading and writing would change.
pub(crate) fn pretty(canonical: &str) -> String {
    let mut out = String::with_capacity(canonical.len() * 2);
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let mut characters = canonical.chars().peekable();
    while let Some(character) = characters.next() {
        if in_string {
            out.push(character);
            in_string = escaped || character != '"';
            escaped = character == '\\' && !escaped;
            continue;
        }
        match character {
            '{' | '[' => {
                out.push(character);
                if matches!(characters.peek(), Some('}' | ']')) {
                    continue;
                }
                depth += 1;
                line(&mut out, depth);
            }
            '}' | ']' => {
                if !out.ends_with(['{', '[']) {
                    depth = depth.saturating_sub(1);
                    line(&mut out, depth);
                }
                out.push(character);
            }
            ',' => {
                out.push(',');
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            other => {
                in_string = other == '"';
                out.push(other);
            }
        }
    }
    out
}

fn line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_but_white_space_stays() {
        let json = r#"{"a":[],"b":{},"c":[1.50,"x,\"{:\\",{"d":null}],"e":"\\"}"#;
        let expected = "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    1.50,\n    \"x,\\\"{:\\\\\",\n    {\n      \"d\": null\n    }\n  ],\n  \"e\": \"\\\\\"\n}";
        assert_eq!(pretty(json), expected);
        let value: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&pretty(json)).unwrap(), value);
    }
}
