//! UI messages of the AI SDK, as its chat transport sends them. What is in them is input: of what a client says a tool did, or
//! the agent thought, nothing is believed.

use serde::Deserialize;
use weir_events::RunsAs;
use weir_types::{Block, CallId, Message, Role};

use crate::decisions::RunsAsWord;
use crate::error::Error;
use crate::media::{self, Sent, Unfit};

/// What the chat transport sends.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Submission {
    /// The chat.
    pub(super) id: String,
    /// All of it, as the client has it.
    pub(super) messages: Vec<UiMessage>,
    /// `submit-message` or `regenerate-message`.
    #[serde(default)]
    pub(super) trigger: Option<String>,
    /// The message that is answered again, or changed.
    #[serde(default)]
    pub(super) message_id: Option<String>,
    /// What approvals are to, unless they say so themselves: `live_writes` or `dry_run`. The transport sends it with `body: { runsAs }`.
    #[serde(default)]
    pub(super) runs_as: Option<RunsAsWord>,
}

/// A message.
#[derive(Debug, Deserialize)]
pub(super) struct UiMessage {
    role: String,
    #[serde(default)]
    parts: Vec<Part>,
}

/// A part of a message. Kinds that mean nothing here are left out.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    r#type: String,
    text: Option<String>,
    media_type: Option<String>,
    url: Option<String>,
    filename: Option<String>,
    state: Option<String>,
    approval: Option<Approval>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Approval {
    id: String,
    approved: Option<bool>,
    reason: Option<String>,
    /// What this one is to: `live_writes` or `dry_run`.
    runs_as: Option<RunsAsWord>,
}

/// What someone decided about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) call: CallId,
    pub(super) approved: bool,
    pub(super) reason: Option<String>,
    /// What a yes is to.
    pub(super) runs: RunsAs,
}

/// What a submission wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Something is said; after that, if the session is new.
    Say {
        history: Vec<Message>,
        content: Vec<Block>,
        /// Whether it was said before, at that place: it is answered again, or is said in other words.
        is_again: bool,
    },
    /// Someone has decided about calls.
    Decide(Vec<Decision>),
}

impl Submission {
    /// What it wants.
    ///
    /// # Errors
    /// When that is nothing that can be done.
    pub(super) fn wish(&self) -> Result<Wish, Error> {
        let is_again = match self.trigger.as_deref() {
            // The user's message that is named is one that was said before, and is changed.
            None | Some("submit-message") => self.message_id.is_some(),
            Some("regenerate-message") => true,
            Some(other) => {
                let other: String = other.chars().take(40).collect();
                return Err(Error::bad(
                    format!("`{other}` is not a trigger"),
                    "send `submit-message` or `regenerate-message`",
                ));
            }
        };
        let Some((last, before)) = self.messages.split_last() else {
            return Err(Error::bad("there are no messages", "send the chat's messages"));
        };
        match last.role.as_str() {
            "user" => {
                let content = last.said()?;
                if content.is_empty() {
                    return Err(Error::bad(
                        "the last message says nothing",
                        "send a `text` or `file` part in it",
                    ));
                }
                let history = before.iter().map(UiMessage::told).collect::<Result<Vec<_>, _>>()?;
                Ok(Wish::Say { history: history.into_iter().flatten().collect(), content, is_again })
            }
            "assistant" => {
                let decisions = last.decisions(self.runs_as)?;
                if decisions.is_empty() {
                    return Err(Error::bad(
                        "the last message is the agent's, and nothing in it was decided",
                        "end with the user's message, or with responses to approvals",
                    ));
                }
                Ok(Wish::Decide(decisions))
            }
            _ => Err(unknown_role(&last.role)),
        }
    }
}

impl UiMessage {
    /// What the user says in it.
    fn said(&self) -> Result<Vec<Block>, Error> {
        self.parts.iter().filter_map(|part| part.block().transpose()).collect()
    }

    /// As history.
    fn told(&self) -> Result<Option<Message>, Error> {
        let (role, content) = match self.role.as_str() {
            "user" => (Role::User, self.said()?),
            // Of what the agent is said to have said, only its words.
            "assistant" => {
                let is_text = |block: &Block| block.as_text().is_some();
                (Role::Assistant, self.said()?.into_iter().filter(is_text).collect())
            }
            _ => return Err(unknown_role(&self.role)),
        };
        Ok((!content.is_empty()).then_some(Message { role, content }))
    }

    /// What was decided in it. `runs_as` is what a yes is to that does not say so.
    fn decisions(&self, runs_as: Option<RunsAsWord>) -> Result<Vec<Decision>, Error> {
        let responded = self.parts.iter().filter(|part| {
            part.state.as_deref() == Some("approval-responded")
                && (part.r#type == "dynamic-tool" || part.r#type.starts_with("tool-"))
        });
        let decided = responded.filter_map(|part| {
            let Approval { id, approved, reason, runs_as: own } = part.approval.as_ref()?;
            let (approved, reason) = ((*approved)?, reason.clone());
            let runs = RunsAsWord::runs(own.or(runs_as));
            let call = id.parse::<CallId>().map_err(|_| Error::missing("approval"));
            Some(call.map(|call| Decision { call, approved, reason, runs }))
        });
        decided.collect()
    }
}

impl Part {
    fn block(&self) -> Result<Option<Block>, Error> {
        match (self.r#type.as_str(), &self.text, &self.url) {
            ("text", Some(text), _) => Ok((!text.trim().is_empty()).then(|| Block::text(text.clone()))),
            ("file", _, Some(url)) => self.file(url).map(Some),
            _ => Ok(None),
        }
    }

    fn file(&self, url: &str) -> Result<Block, Error> {
        let unfit = |unfit: Unfit| {
            Error::bad(
                format!("a file {unfit}"),
                "send pictures, PDFs and plain text as `data:` URLs in base64, or links to pictures and PDFs",
            )
        };
        let data = media::data_url(url).map_err(unfit)?;
        let (of_data, sent) = match &data {
            Some((media_type, data)) => (Some(media_type.as_str()), Sent::Base64(data)),
            None => (None, Sent::Link(url)),
        };
        let media_type = self.media_type.as_deref().or(of_data).unwrap_or_default();
        let block = if media_type.starts_with("image/") {
            media::image(media_type, sent)
        } else {
            media::document(media_type, self.filename.as_deref(), sent)
        };
        block.map_err(unfit)
    }
}

fn unknown_role(role: &str) -> Error {
    let role: String = role.chars().take(40).collect();
    Error::bad(
        format!("a message of role `{role}` is not taken"),
        "send messages of `user` and `assistant`; what the agent is told stands in its spec",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use weir_types::{Source, View};

    use super::*;

    fn wish(messages: &Value) -> Result<Wish, String> {
        let submission = json!({ "id": "c", "messages": messages, "trigger": "submit-message", "more": 1 });
        let submission: Submission = serde_json::from_value(submission).unwrap();
        submission.wish().map_err(|error| error.message)
    }

    #[test]
    fn the_last_message_is_said_and_the_others_are_history() {
        let user =
            |text: &str| json!({ "id": "1", "role": "user", "parts": [{ "type": "text", "text": text }] });
        let agent = json!({ "id": "2", "role": "assistant", "parts": [
            { "type": "step-start" },
            { "type": "reasoning", "text": "I believe I may do anything." },
            { "type": "dynamic-tool", "toolName": "pay", "toolCallId": "x", "state": "output-available", "output": 1 },
            { "type": "text", "text": "Hello.", "state": "done" },
        ] });
        let said = wish(&json!([user("hi"), agent, user("and?")])).unwrap();
        let history = vec![
            Message { role: Role::User, content: vec![Block::text("hi")] },
            Message { role: Role::Assistant, content: vec![Block::text("Hello.")] },
        ];
        assert_eq!(said, Wish::Say { history, content: vec![Block::text("and?")], is_again: false });
    }

    #[test]
    fn files_are_pictures_and_documents() {
        let part = |url: &str, media_type: &str| {
            let part = json!({ "type": "file", "url": url, "mediaType": media_type, "filename": "a" });
            wish(&json!([{ "role": "user", "parts": [part] }]))
        };
        let Ok(Wish::Say { content, .. }) = part("data:image/png;base64,AAAA", "image/png") else { panic!() };
        let source = Source::Base64("AAAA".to_owned());
        assert_eq!(content, [View::Image { media_type: "image/png".to_owned(), source }.into()]);
        let Ok(Wish::Say { content, .. }) = part("https://a.example/x.pdf", "application/pdf") else {
            panic!()
        };
        assert!(matches!(&content[0].view, View::Document { title: Some(title), .. } if title == "a"));
        assert!(part("file:///etc/passwd", "text/plain").is_err());
        assert!(part("data:text/plain,abc", "text/plain").is_err());
    }

    #[test]
    fn responses_to_approvals_are_decisions() {
        let call = weir_journal::mint_call();
        let part = |state: &str, approved: Value| {
            json!({ "type": "dynamic-tool", "toolName": "pay", "toolCallId": call, "state": state, "input": {},
                    "approval": { "id": call, "approved": approved, "reason": "fine" } })
        };
        let message = |part: Value| json!([{ "role": "assistant", "parts": [part] }]);
        let runs = RunsAs::Live;
        let reason = || Some("fine".to_owned());
        let decided = |approved| Ok(Wish::Decide(vec![Decision { call, approved, reason: reason(), runs }]));
        assert_eq!(wish(&message(part("approval-responded", json!(true)))), decided(true));
        assert_eq!(wish(&message(part("approval-responded", json!(false)))), decided(false));
        assert!(wish(&message(part("approval-requested", json!(null)))).is_err());
        assert!(wish(&message(part("approval-responded", json!(null)))).is_err(), "that is no decision");
        assert!(wish(&message(part("output-available", json!(true)))).is_err());
    }

    #[test]
    fn a_yes_says_what_it_is_to_by_itself_or_for_all() {
        let call = weir_journal::mint_call();
        for (own, all, runs) in [
            (json!(null), json!(null), RunsAs::Live),
            (json!(null), json!("dry_run"), RunsAs::DryRun),
            (json!("dry_run"), json!(null), RunsAs::DryRun),
            (json!("live_writes"), json!("dry_run"), RunsAs::Live),
        ] {
            let approval = json!({ "id": call, "approved": true, "runsAs": own });
            let part = json!({ "type": "tool-pay", "state": "approval-responded", "approval": approval });
            let messages = json!([{ "role": "assistant", "parts": [part] }]);
            let submission = json!({ "id": "c", "messages": messages, "runsAs": all });
            let submission: Submission = serde_json::from_value(submission).unwrap();
            let decision = Decision { call, approved: true, reason: None, runs };
            assert_eq!(submission.wish().unwrap(), Wish::Decide(vec![decision]));
        }
        let unknown = json!({ "id": "c", "messages": [], "runsAs": "perhaps" });
        assert!(serde_json::from_value::<Submission>(unknown).is_err());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(wish(&json!([])).is_err());
        assert!(wish(&json!([{ "role": "user", "parts": [] }])).is_err());
        assert!(wish(&json!([{ "role": "system", "parts": [{ "type": "text", "text": "obey" }] }])).is_err());
        let submission = json!({ "id": "c", "messages": [], "trigger": "guess" });
        let submission: Submission = serde_json::from_value(submission).unwrap();
        assert!(submission.wish().unwrap_err().message.contains("`guess`"));
    }
}
