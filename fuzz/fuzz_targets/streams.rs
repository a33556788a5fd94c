//! Recorded streams of any format: whatever the bytes are, and however they are cut, they are read the same or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_server::formats::{Format, Parser, joined};

fuzz_target!(|bytes: &[u8]| {
    let Some((first, stream)) = bytes.split_first() else { return };
    let format = Format::ALL[usize::from(*first) % Format::ALL.len()];
    let mut whole = Parser::new(format);
    let all = whole.push(stream).and_then(|mut heard| whole.finish().map(|rest| {
        heard.extend(rest);
        heard
    }));
    let mut cut = Parser::new(format);
    let mut heard = Vec::new();
    let mut refused = false;
    for piece in stream.chunks(1 + usize::from(*first) / 4) {
        match cut.push(piece) {
            Ok(more) => heard.extend(more),
            Err(_) => {
                refused = true;
                break;
            }
        }
    }
    refused = refused || match cut.finish() {
        Ok(more) => {
            heard.extend(more);
            false
        }
        Err(_) => true,
    };
    match all {
        Ok(all) => assert_eq!((joined(all, usize::MAX), false), (joined(heard, usize::MAX), refused)),
        Err(_) => assert!(refused),
    }
});
