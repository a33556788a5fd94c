//! Round trips.

use super::*;

#[test]
fn an_empty_manifest_round_trips() {
    let manifest = Manifest::default();
    let bytes = manifest.to_bytes().unwrap();
    assert_eq!(Manifest::from_bytes(&bytes).unwrap(), manifest);
}
