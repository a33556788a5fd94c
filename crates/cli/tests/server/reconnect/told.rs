//! What a stream tells: its frames, with adjacent deltas joined, so that it does not matter how they were cut into pieces.

use serde_json::Value;

use crate::kit::Frame;

/// The frames that are complete in these bytes.
pub(crate) fn complete(bytes: &[u8]) -> Vec<Frame> {
    let end = bytes.windows(2).rposition(|pair| pair == b"\n\n").map_or(0, |at| at + 2);
    let text = std::str::from_utf8(&bytes[..end]).unwrap();
    text.split_terminator("\n\n").filter(|text| !text.starts_with(':')).map(frame).collect()
}

fn frame(text: &str) -> Frame {
    let mut frame = Frame::default();
    for line in text.lines() {
        match line.split_once(": ").unwrap() {
            ("id", id) => frame.id = Some(id.to_owned()),
            ("event", event) => frame.event = Some(event.to_owned()),
            ("data", data) => data.clone_into(&mut frame.data),
            other => panic!("{other:?}"),
        }
    }
    frame
}

/// What a frame adds to which text, if it adds to one.
pub(crate) fn delta(format: &str, frame: &Frame) -> Option<(String, String)> {
    let data: Value = serde_json::from_str(&frame.data).ok()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match format {
        "native" if data["kind"] == "text.delta" => {
            let key =
                format!("{} {} {} {}", data["request"], data["attempt"], data["block"], data["channel"]);
            Some((key, text(&data["delta"])?))
        }
        "openai" => {
            let delta = data["choices"][0]["delta"].as_object().filter(|delta| delta.len() == 1)?;
            let (key, value) = delta.iter().next()?;
            Some((key.clone(), text(value)?))
        }
        "anthropic" if data["type"] == "content_block_delta" => {
            let delta = &data["delta"];
            Some((
                format!("{} {}", data["index"], delta["type"]),
                text(&delta["text"]).or(text(&delta["thinking"]))?,
            ))
        }
        "vercel" if data["type"].as_str()?.ends_with("-delta") => {
            Some((data["id"].to_string(), text(&data["delta"])?))
        }
        _ => None,
    }
}

/// Whether a frame takes back what was said of an attempt.
pub(crate) fn takes_back(format: &str, frame: &Frame) -> bool {
    match format {
        "native" => frame.event.as_deref() == Some("reset"),
        "vercel" => frame.data == r#"{"type":"reset-step"}"#,
        _ => false,
    }
}

/// Whether a frame ends a stream, because what was said in it is gone and its format has no word for that.
pub(crate) fn is_gone(format: &str, frame: &Frame) -> bool {
    let data: Value = serde_json::from_str(&frame.data).unwrap_or_default();
    ["openai", "anthropic"].contains(&format) && data["error"].is_object()
}

/// What frames tell, without what they take back.
pub(crate) fn told(format: &str, frames: &[Frame]) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    let mut open: Option<String> = None;
    for frame in frames {
        if takes_back(format, frame) {
            take_back(format, frame, &mut told);
            open = None;
            continue;
        }
        match delta(format, frame) {
            Some((key, text)) if open.as_ref() == Some(&key) => told.last_mut().unwrap().push_str(&text),
            Some((key, text)) => {
                told.push(format!("{key}: {text}"));
                open = Some(key);
            }
            None => {
                told.push(format!("{:?} {:?} {}", frame.id, frame.event, frame.data));
                open = None;
            }
        }
    }
    told
}

/// As a client does that is told to.
fn take_back(format: &str, frame: &Frame, told: &mut Vec<String>) {
    if format == "vercel" {
        let step = told.iter().rposition(|told| told.contains(r#""type":"start-step""#));
        told.truncate(step.unwrap() + 1);
        return;
    }
    let data = frame.json();
    let attempt = format!("{} {} ", data["request"], data["attempt"]);
    let kept = told.iter().rposition(|told| !told.starts_with(&attempt)).map_or(0, |last| last + 1);
    assert!(kept < told.len(), "nothing of it was told: {frame:?}");
    told.truncate(kept);
}
