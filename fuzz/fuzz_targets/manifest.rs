//! Any bytes are a manifest, which can be written, read and compared, or are refused; never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_spec::{Manifest, diff};

fuzz_target!(|input: &[u8]| {
    let Ok(manifest) = Manifest::from_bytes(input) else { return };
    let bytes = manifest.to_bytes().expect("what was read is not too deep to be written");
    let again = Manifest::from_bytes(&bytes).expect("what was written is a manifest");
    assert_eq!(again.to_bytes().expect("it was written before"), bytes);
    assert_eq!(diff(&again, &again), []);
    diff(&again, &Manifest::default());
});
