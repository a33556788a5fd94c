//! What went wrong, from what a server said: every provider has its own words for the same nine classes.

mod delay;
mod words;

use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::ModelError;

/// The failure in a response that is no stream of events.
pub(crate) fn of_response(status: u16, headers: &HeaderMap, body: &str) -> ModelError {
    let said = serde_json::from_str(body).ok().and_then(|value| Said::read(&value));
    let Some(said) = said else {
        let class = words::class(Some(status), &Said::default());
        let kind = headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or("nothing");
        let about = if kind.contains("html") { "is `base_url` right? " } else { "" };
        let message = format!("the server answers {status} with `{kind}`: {about}{body}");
        return ModelError::said(class, message).retry_after(delay::of_headers(headers));
    };
    let message = format!("the server answers {status}: {}", said.sentence());
    let delay = delay::of_headers(headers).or_else(|| said.delay());
    ModelError::said(words::class(Some(status), &said), message).retry_after(delay)
}

/// The failure in an event, if there is one.
pub(crate) fn of_event(event: &Value) -> Option<ModelError> {
    let marked = |key: &str| event.get(key).is_some_and(|name| name == "error");
    if !marked("type") && !marked("object") && event.get("error").is_none_or(Value::is_null) {
        return None;
    }
    let said = Said::read(event).unwrap_or_default();
    let message = format!("the server breaks off its answer: {}", said.sentence());
    Some(ModelError::said(words::class(said.status(), &said), message).retry_after(said.delay()))
}

/// An error in any provider's shape.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    /// `type`, `code`, `status` and `reason`, whichever there are, in lower case.
    names: Vec<String>,
    message: String,
    /// Google's delay.
    retry_delay: Option<String>,
    /// Google's names of the limits that were hit.
    limits: Vec<String>,
}

impl Said {
    /// Reads `{"error": {…}}`, `{"error": "…"}`, `{"message": …, "type": …}` and `{"detail": …}`, alone or in a list.
    fn read(value: &Value) -> Option<Self> {
        if let Some(first) = value.as_array().and_then(|list| list.first()) {
            return Self::read(first);
        }
        let object = value.as_object()?;
        let inner = object.get("error").filter(|error| !error.is_null());
        match inner {
            Some(Value::Object(error)) => Some(Self::of(&Value::Object(error.clone()))),
            Some(other) => Some(Self { message: text(other), ..Self::of(value) }),
            None if object.contains_key("detail") || object.contains_key("message") => Some(Self::of(value)),
            None => None,
        }
    }

    fn of(error: &Value) -> Self {
        let message = ["message", "detail"].iter().find_map(|key| error.get(key)).map(text);
        let details = error.get("details").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut names: Vec<String> = (["type", "code", "status", "reason"].iter())
            .filter_map(|key| error.get(key))
            .filter(|name| !name.is_null())
            .map(|name| text(name).to_lowercase())
            .collect();
        names.extend(
            details.iter().filter_map(|detail| detail.get("reason")).map(|name| text(name).to_lowercase()),
        );
        let violations = details.iter().filter_map(|detail| detail.get("violations")?.as_array()).flatten();
        Self {
            names,
            message: message.unwrap_or_default(),
            retry_delay: details.iter().find_map(|detail| detail.get("retryDelay")).map(text),
            limits: violations.filter_map(|violation| violation.get("quotaId")).map(text).collect(),
        }
    }

    fn has(&self, names: &[&str]) -> bool {
        self.names.iter().any(|name| names.contains(&name.as_str()))
    }

    /// A status inside an event, as Google and vLLM put it.
    fn status(&self) -> Option<u16> {
        self.names.iter().find_map(|name| name.parse().ok()).filter(|status| (400..600).contains(status))
    }

    fn delay(&self) -> Option<std::time::Duration> {
        let google = self.retry_delay.as_deref().and_then(delay::of_words);
        google.or_else(|| delay::of_sentence(&self.message))
    }

    fn sentence(&self) -> String {
        let name = self.names.iter().find(|name| name.parse::<u16>().is_err() && *name != "error");
        match (name, self.message.is_empty()) {
            (Some(name), true) => name.clone(),
            (Some(name), false) => format!("{name}: {}", self.message),
            (None, true) => "no reason given".to_owned(),
            (None, false) => self.message.clone(),
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests;
