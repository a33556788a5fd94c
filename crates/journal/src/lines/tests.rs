//! Lines come back as what they were made from, whatever they carry.

use proptest::prelude::*;
use weir_types::{EventId, Position, Timestamp};

use super::*;

fn event(payload: impl Into<Bytes>) -> Event {
    let payload = payload.into();
    Event {
        position: Position(7),
        stream: "s".parse().unwrap(),
        branch: BranchName::main(),
        seq: Seq(3),
        id: EventId::from_u128(5),
        ts: Timestamp::from_micros(1_700_000_000_120_000).unwrap(),
        kind: "note.made".parse().unwrap(),
        payload_hash: Hash::of(&payload),
        payload,
        meta: Default::default(),
        refs: vec![Hash::ZERO],
        chain: Hash::of(b"chain"),
    }
}

fn reread(line: &str) -> Event {
    match parse(line.as_bytes()) {
        Ok(Line::Event(event)) => event,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn the_fields_have_their_order() {
    let event = event(r#"{"a": 1}"#);
    let (zeros, hash, chain) = ("0".repeat(64), event.payload_hash, event.chain);
    let rest = format!(
        r#""stream":"s","branch":"main","seq":3,"id":"00000000000000000000000005","ts":"2023-11-14T22:13:20.120000Z","kind":"note.made","payload":{{"a": 1}},"meta":{{}},"refs":["{zeros}"],"payload_hash":"{hash}","chain":"{chain}"}}"#
    );
    assert_eq!(to_line(&event, Positions::Shown), format!(r#"{{"position":7,{rest}"#));
    assert_eq!(to_line(&event, Positions::Hidden), format!("{{{rest}"));
}

/// Payloads that are JSON stand in the line as they are, the others as base64; all come back byte for byte.
#[test]
fn payloads_survive_byte_for_byte() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    #[rustfmt::skip]
    let raw: &[&str] = &[
        "null", "true", "0", "-0.0", "\"\"", "{}", "[]", "1e400", "123456789012345678901234567890.5",
        r#"{"a":1,"a":2}"#, r#""\ud800""#, r#""\u0000""#, "\"\u{2028}\"", "\"\u{FEFF}\"", r#"{ "a" :	[ 1 ] }"#, &deep,
    ];
    #[rustfmt::skip]
    let encoded: &[&[u8]] = &[
        b"", b" ", b"{", b"{} ", b" {}", b"\t{}", b"{}\t", b"{\n}", b"{\r}", b"{}\n", b"{}{}", b"nul", b"NaN", b"01", b"'a'", b"[1,]",
        b"\"\0\"", b"\0", "\u{FEFF}{}".as_bytes(), b"\"\xff\"", b"\xed\xa0\x80", b"\"\x1f\"", b"\xa0{}", "\u{a0}1".as_bytes(),
    ];
    let cases =
        raw.iter().map(|text| (text.as_bytes(), true)).chain(encoded.iter().map(|&bytes| (bytes, false)));
    for (payload, is_raw) in cases {
        let event = event(Bytes::copy_from_slice(payload));
        let line = to_line(&event, Positions::Shown);
        let name = String::from_utf8_lossy(&payload[..payload.len().min(40)]);
        assert!(!line.contains(['\n', '\r']), "{name}");
        assert_eq!(line.contains("\"payload\":"), is_raw, "{name}");
        assert_eq!(reread(&line), event, "{name}");
        assert_eq!(reread(&format!("{line}\r\n")), event, "{name}");
    }
}

#[test]
fn the_largest_payload_fits_into_a_line() {
    let line = to_line(&event(vec![0xff; crate::PAYLOAD_MAX]), Positions::Shown);
    assert!(line.len() + 16 * 1024 + 70 * crate::REFS_MAX < LINE_BYTES_MAX, "{}", line.len());
}

#[test]
fn unknown_fields_are_ignored() {
    let line = to_line(&event("1"), Positions::Shown);
    assert_eq!(reread(&line.replacen('{', r#"{"colour":{"deep":[1e999]},"#, 1)), event("1"));
    let header = parse(br#"{"weir_export":1,"by":"someone"}"#).unwrap();
    assert_eq!(header, Line::Header { version: 1 });
}

#[test]
fn what_is_wrong_is_named() {
    let line = to_line(&event("1"), Positions::Shown);
    let swap = |from: &str, to: &str| {
        assert!(line.contains(from), "{from}");
        line.replacen(from, to, 1)
    };
    let zeros = "0".repeat(64);
    #[rustfmt::skip]
    let cases = [
        (swap("\"seq\":3", "\"seq\":\"3\""), "field `seq` of the event is wrong: invalid type: string \"3\", expected u64 at line 1 column 3"),
        (swap("\"seq\":3", "\"seq\":0"), "field `seq` of the event is wrong: events are counted from 1"),
        (swap("\"seq\":3,", ""), "the event has no field `seq`"),
        (swap("\"seq\":3,", "\"seq\":3,\"seq\":4,"), "the line is not a JSON object with unique fields"),
        (swap("\"s\"", "\"a\\nb\""), "field `stream` of the event is wrong: stream name `a\\nb` contains the control character U+000A"),
        (swap("\"s\"", "\"\\ud800\""), "field `stream` of the event is wrong: unexpected end of hex escape at line 1 column 8"),
        (swap("\"meta\":{}", "\"meta\":[]"), "field `meta` of the event is wrong: meta is not a JSON object"),
        (swap("\"payload\":1,", ""), "the event has no field `payload`"),
        (swap("\"payload\":1", "\"payload_base64\":\"*\""), "field `payload_base64` of the event is wrong: Invalid symbol 42, offset 0."),
        (swap("\"payload\":1", "\"payload\":1,\"payload_base64\":\"\""), "field `payload_base64` of the event is wrong: there is a `payload` too"),
        (swap("\"id\":\"0", "\"id\":\"u"), "field `id` of the event is wrong: `u0000000000000000000000005` is not an id (a ULID has 26 characters, like `01J9ZDQ8M3E4F5G6H7J8K9MNPQ`)"),
        (swap(&zeros, "ab"), "field `refs` of the event is wrong: `ab` is not a SHA-256 hash (64 hex digits) at line 1 column 6"),
        ("[]".into(), "the line is not a JSON object with unique fields"),
        ("".into(), "the line is not a JSON object with unique fields"),
        (line[..line.len() - 1].into(), "the line is not a JSON object with unique fields"),
        ("{}".into(), "the event has no field `stream`"),
        (r#"{"weir_export":2}"#.into(), "the export has format 2; this version reads formats up to 1"),
        (r#"{"weir_export":0}"#.into(), "field `weir_export` of the header is wrong: there is no format 0"),
        (r#"{"fork":7}"#.into(), "field `fork` of the fork is wrong: invalid type: integer `7`, expected an object at line 1 column 1"),
        (r#"{"fork":["s"]}"#.into(), "field `fork` of the fork is wrong: invalid type: sequence, expected an object"),
        (r#"{"fork":{"stream":"s"}}"#.into(), "the fork has no field `branch`"),
        (r#"{"key":{"stream":"s","branch":"b","key":"","first":1,"last":1}}"#.into(), "field `key` of the key is wrong: an idempotency key has 1 to 255 bytes and no control characters; this one has 0 bytes"),
        (r#"{"key":{"stream":"s","branch":"b","key":"k","first":2,"last":1}}"#.into(), "field `last` of the key is wrong: 2 to 1 is no range of events"),
        (r#"{"blob":{"hash":"","data":"","more":false}}"#.into(), "field `hash` of the blob is wrong: `` is not a SHA-256 hash (64 hex digits)"),
    ];
    for (line, expected) in cases {
        assert_eq!(parse(line.as_bytes()).expect_err(&line).to_string(), expected, "{line}");
    }
    assert_eq!(parse(b"\xff").unwrap_err().to_string(), "the line is not UTF-8");
    let long = vec![b' '; LINE_BYTES_MAX + 1];
    assert_eq!(parse(&long).unwrap_err().to_string(), "the line has more than 33554432 bytes");
}

fn name<T: std::str::FromStr + std::fmt::Debug>() -> impl Strategy<Value = T> {
    let hostile =
        proptest::sample::select(vec!["\"", "\\", "{}", "a@main", "'", "日本", "\u{10FFFF}", "\\u0000"]);
    prop_oneof!["\\PC{1,60}", hostile.prop_map(str::to_owned)]
        .prop_filter_map("not a name", |text| text.parse().ok())
}

fn hash() -> impl Strategy<Value = Hash> {
    any::<[u8; 32]>().prop_map(Hash::from_bytes)
}

fn payload() -> impl Strategy<Value = Bytes> {
    let json = proptest::sample::select(vec!["null", "{\"a\":[1,{}]}", "\"x\"", "[", "{\"a\": 1e400 }"]);
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..80).prop_map(Bytes::from),
        any::<String>().prop_map(Bytes::from),
        any::<String>().prop_map(|text| serde_json::Value::from(text).to_string().into()),
        json.prop_map(Bytes::from),
        "[\\[\\]{}\",:0-9eE. \\t\\r\\n\\\\u-]{0,20}".prop_map(Bytes::from),
    ]
}

fn meta() -> impl Strategy<Value = weir_types::Meta> {
    let object = proptest::collection::btree_map(any::<String>(), any::<String>(), 0..4)
        .prop_map(|map| serde_json::to_string(&map).unwrap());
    let odd =
        proptest::sample::select(vec!["{ }", "{\n\"a\" : 1\r\n}", "{\"a\":1,\"a\":2}", "{\"\u{2028}\":\t1}"]);
    prop_oneof![object, odd.prop_map(str::to_owned)].prop_map(|text| weir_types::Meta::new(&text).unwrap())
}

prop_compose! {
    fn any_event()(
        (position, seq, id) in (any::<u64>(), 1..=u64::MAX, any::<u128>()),
        (stream, branch, kind) in (name(), name(), name()),
        ts in any::<i64>().prop_filter_map("not a time", |micros| Timestamp::from_micros(micros / 1_000).ok()),
        payload in payload(),
        meta in meta(),
        refs in proptest::collection::vec(hash(), 0..4),
        chain in hash(),
    ) -> Event {
        let payload_hash = Hash::of(&payload);
        let (position, seq, id) = (Position(position), Seq(seq), EventId::from_u128(id));
        Event { position, stream, branch, seq, id, ts, kind, payload, meta, refs, payload_hash, chain }
    }
}

fn any_line() -> impl Strategy<Value = Line> {
    let branch = || (name(), name()).prop_map(|(stream, branch)| BranchId { stream, branch });
    prop_oneof![
        Just(Line::Header { version: EXPORT_VERSION }),
        (branch(), name(), any::<u64>(), hash()).prop_map(|(branch, parent, at, chain)| Line::Fork(
            ForkLine { branch, parent, at: Seq(at), chain }
        )),
        (branch(), name(), 1..=u64::MAX, any::<u64>()).prop_map(|(branch, key, first, more)| {
            let last = Seq(first.saturating_add(more));
            Line::Key(KeyLine { branch, key, first: Seq(first), last })
        }),
        (hash(), proptest::collection::vec(any::<u8>(), 0..80), any::<bool>())
            .prop_map(|(hash, data, more)| Line::Blob(BlobLine { hash, data: data.into(), more })),
        any_event().prop_map(|event| Line::Event(Event { position: Position(0), ..event })),
    ]
}

proptest! {
    #[test]
    fn an_event_comes_back_from_its_line(event in any_event()) {
        let line = to_line(&event, Positions::Shown);
        prop_assert!(!line.contains(['\n', '\r']));
        prop_assert_eq!(reread(&line), event);
    }

    #[test]
    fn every_line_comes_back_from_its_text(line in any_line()) {
        let text = line.to_text();
        prop_assert!(!text.contains(['\n', '\r']));
        prop_assert_eq!(parse(text.as_bytes()).unwrap(), line);
    }

    #[test]
    fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes);
    }
}

#[test]
fn a_reader_sees_json_whatever_lines_it_was_written_on() {
    let event = event("{\"a\": \"one\\ntwo\",\r\n \"b\": [1,\n 2]}\n");
    assert!(to_line(&event, Positions::Shown).contains("payload_base64"));
    let line = to_view_line(&event, Positions::Shown);
    assert_eq!(line.lines().count(), 1);
    let view: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(view["payload"], serde_json::json!({"a": "one\ntwo", "b": [1, 2]}));
    assert!(view.get("payload_base64").is_none());
}
