//! YAML of files that are not ours alone, such as the head of a skill: any keys, any values.

use weir_types::Json;

use crate::diagnostic::{Diagnostic, Findings};
use crate::{json, yaml};

/// The value that a YAML text stands for, with the limits that every file has.
///
/// # Errors
/// When it is no YAML, or more of it than a person would write.
pub fn read_yaml(file: &str, text: &str) -> Result<Json, Vec<Diagnostic>> {
    let mut findings = Findings::new(file);
    let read =
        yaml::document(text.as_bytes(), &mut findings).and_then(|node| json::json(&node, &mut findings));
    findings.conclude(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_yaml_is_a_value_or_a_problem() {
        let read = read_yaml("f", "name: a\nlist: [1, 2.50, yes]\n").unwrap();
        assert_eq!(read.as_str(), r#"{"name":"a","list":[1,2.50,"yes"]}"#);
        let problems = read_yaml("f", "a: [1\n").unwrap_err();
        assert_eq!((problems[0].file.as_str(), problems[0].span.line), ("f", 1));
    }
}
