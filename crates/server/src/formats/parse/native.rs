//! Native frames: events as lines of the journal, pieces of answers, resets and ends.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use weir_events::{Payload, TextDelta, is_reserved_kind};
use weir_types::Json;

use super::left_out::Out;
use super::{Heard, Recorded};

#[derive(Deserialize)]
struct Line {
    kind: String,
    #[serde(default)]
    payload: Option<Json>,
    #[serde(default)]
    payload_base64: Option<String>,
    #[serde(default)]
    channel: Option<String>,
    #[serde(default)]
    delta: Option<String>,
    #[serde(default)]
    stop: Option<String>,
    #[serde(default)]
    meta: Value,
    #[serde(default)]
    refs: Value,
}

/// Whether the whole event is kept, since only the runtime writes such a kind.
fn is_reserved(kind: &str) -> bool {
    kind.parse().is_ok_and(|kind| is_reserved_kind(&kind))
}

pub(super) fn read(data: &str, heard: &mut Out<'_>) -> Result<(), String> {
    let line: Line = serde_json::from_str(data).map_err(|error| error.to_string())?;
    let is_event = line.payload.is_some() || line.payload_base64.is_some();
    match line.kind.as_str() {
        TextDelta::KIND if !is_event => {
            let delta = line.delta.ok_or("a piece without its text")?;
            match line.channel.as_deref() {
                _ if delta.is_empty() => {}
                Some("text") => heard.push(Heard::Text(delta)),
                Some("thinking") => heard.push(Heard::Reasoning(delta)),
                channel => heard.leave_out(&format!("text.delta of {}", channel.unwrap_or("no channel"))),
            }
        }
        "reset" if !is_event => heard.push(Heard::Reset),
        "end" if !is_event => heard.extend([Heard::Finished { reason: line.stop }, Heard::Done]),
        _ => {
            let payload = match (line.payload, line.payload_base64) {
                (Some(json), _) => json.as_str().as_bytes().to_vec(),
                (None, Some(text)) => STANDARD.decode(text).map_err(|error| error.to_string())?,
                (None, None) => b"{}".to_vec(),
            };
            let whole = Json::parse(data).map_err(|error| error.to_string())?;
            if !is_reserved(&line.kind) {
                // Its place, its id and its time are those of the new event.
                heard.leave_out_others("", &json!({ "meta": line.meta, "refs": line.refs }), &[]);
            }
            heard.push(Heard::Event(Box::new(Recorded { kind: line.kind, payload, line: whole })));
        }
    }
    Ok(())
}
