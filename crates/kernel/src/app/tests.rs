use serde_json::{Value, json};
use weir_types::Json;

use super::*;

fn patch(app: &Value, operations: &Value) -> Result<Value, PatchError> {
    patched(app, &Json::of(operations))
}

#[test]
fn every_operation_applies() {
    let app = json!({"a": 1, "l": [1, 2]});
    let after = patch(
        &app,
        &json!([
            {"op": "test", "path": "/a", "value": 1},
            {"op": "add", "path": "/l/-", "value": 3},
            {"op": "replace", "path": "/a", "value": {"b": null}},
            {"op": "copy", "from": "/a", "path": "/c"},
            {"op": "move", "from": "/l", "path": "/m"},
            {"op": "remove", "path": "/a/b"},
        ]),
    );
    assert_eq!(after.unwrap(), json!({"a": {}, "c": {"b": null}, "m": [1, 2, 3]}));
}

#[test]
fn what_does_not_apply_says_why() {
    let check = |operations: Value, message: &str, code: &str, help: &str| {
        let error = patch(&json!({}), &operations).unwrap_err();
        let shown = (error.to_string(), error.code(), error.help(), error.fault());
        assert_eq!(shown, (message.to_owned(), code, help.into(), Fault::Input));
    };
    check(
        json!("add"),
        "the patch cannot be read",
        "kernel::patch-unreadable",
        "send a JSON Patch (RFC 6902): an array of operations",
    );
    check(
        json!([{"op": "test", "path": "", "value": 1}]),
        "the patch does not apply",
        "kernel::patch-inapplicable",
        "read the state again and make the patch for it",
    );
    check(
        json!([{"op": "add", "path": "/x", "value": "x".repeat(BYTES_MAX)}]),
        "the state would have more than 1000000 bytes or 64 levels",
        "kernel::state-too-large",
        "keep large things in files and only their names in the state",
    );
}

#[test]
fn a_state_that_copies_itself_does_not_explode() {
    let double = json!({"op": "copy", "from": "", "path": "/x"});
    let doubles = |times: usize| Value::Array(vec![double.clone(); times]);
    assert!(patch(&json!({}), &doubles(DEPTH_MAX)).is_ok());
    assert!(matches!(patch(&json!({}), &doubles(DEPTH_MAX + 1)), Err(PatchError::TooLarge)));
    let both: Vec<Value> = (0..40)
        .flat_map(|n| {
            [
                json!({"op": "copy", "from": "", "path": format!("/{n}")}),
                json!({"op": "remove", "path": "/0"}),
            ]
        })
        .collect();
    assert!(patch(&json!({"s": "x".repeat(100)}), &Value::Array(both)).is_err());
    let wide: Vec<Value> = (0..40).map(|_| json!({"op": "copy", "from": "/l/0", "path": "/l/-"})).collect();
    let large = json!({"l": ["x".repeat(BYTES_MAX / 20)]});
    assert!(matches!(patch(&large, &Value::Array(wide)), Err(PatchError::TooLarge)));
}

#[test]
fn a_deep_state_is_refused_however_it_is_reached() {
    let nest = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!([inner]));
    let at = |path: &str, value: Value| json!([{"op": "add", "path": path, "value": value}]);
    assert!(patch(&json!({}), &at("/x", nest(DEPTH_MAX - 1))).is_ok());
    assert!(matches!(patch(&json!({}), &at("/x", nest(DEPTH_MAX))), Err(PatchError::TooLarge)));
    let deep = json!({"x": nest(40), "y": nest(40)});
    let into = "/0".repeat(39);
    let moved = json!([{"op": "move", "from": "/y", "path": format!("/x{into}")}]);
    assert!(matches!(patch(&deep, &moved), Err(PatchError::TooLarge)));
}

#[test]
fn making_room_counts() {
    let app = json!({"a": "x".repeat(BYTES_MAX * 6 / 10)});
    let more = json!({"op": "add", "path": "/b", "value": "y".repeat(BYTES_MAX * 6 / 10)});
    assert!(matches!(patch(&app, &json!([more])), Err(PatchError::TooLarge)));
    assert!(patch(&app, &json!([{"op": "remove", "path": "/a"}, more])).is_ok());
    assert!(patch(&app, &json!([{"op": "move", "from": "/a", "path": "/b"}])).is_ok());
}

#[test]
fn fractions_survive_a_snapshot() {
    let mut bits: u64 = 0x9E37_79B9_7F4A_7C15;
    for _ in 0..10_000 {
        bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let before = json!(f64::from_bits(bits));
        let after: Value = serde_json::from_str(&before.to_string()).unwrap();
        assert_eq!(after, before);
    }
}
