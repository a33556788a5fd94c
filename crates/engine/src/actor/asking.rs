//! Asking the model: the request is made, written down as an intent, and sent; its pieces are passed on, and what comes
//! of it is written down with whatever it leads to.

use std::time::Duration;

use futures_util::stream::BoxStream;
use tokio::time::Instant;
use weir_events::{
    AssistantMessage, ContextCompacted, IterationStarted, LeftOut, ModelFailed, ModelRequested, Params,
    TextDelta,
};
use weir_journal::now;
use weir_kernel::compact::{self, Plan};
use weir_kernel::render::{self, Frame};
use weir_kernel::{retries, tokens, window};
use weir_models::{Channel, ModelError, Piece};
use weir_types::{Answer, FailureClass, Hash, NanoUsd, Purpose, Request, Seq, Stop, Timestamp, text_of};

use super::commit::Committed;
use super::waiting::until;
use super::{Actor, Flow, Release};
use crate::budgets::Paid;
use crate::draft::Nature;
use crate::error::EngineError;
use crate::live::{self, LiveDelta};
use crate::setup::Runnable;

/// The longest a provider can make us wait, and the longest we wait by ourselves.
const DELAY_MAX: Duration = Duration::from_secs(300);
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// How much of an answer is kept in the conversation when it is cut off.
const SAID_BYTES_MAX: usize = 256 * 1024;

/// A request that is out.
pub(super) struct Attempt {
    pub(super) pieces: BoxStream<'static, Result<Piece, ModelError>>,
    /// The event that says so.
    request: Seq,
    attempt: u32,
    model: String,
    price: Option<weir_types::Price>,
    /// What is summarised, if something is.
    plan: Option<Plan>,
    began: Instant,
    deadline: Instant,
    /// Output so far, in bytes.
    offset: u64,
    /// The text of it, as far as it is kept if the answer is cut off.
    said: String,
    /// Output that is not written down yet.
    unwritten: Vec<LiveDelta>,
    write_at: Option<Instant>,
}

impl Actor {
    pub(super) async fn ask_model(
        &mut self,
        runnable: &Runnable,
        begin: Option<u32>,
        attempt: u32,
        not_before: Option<Timestamp>,
    ) -> Result<Flow, EngineError> {
        if let Some(flow) = self.hold_back(not_before).await? {
            return Ok(flow);
        }
        let agent = &runnable.agent;
        let Some(window) = window::select(&self.session, agent) else {
            return self.does_not_fit().await;
        };
        let frame = Frame {
            api_name: api_name(runnable),
            system: agent.system.clone(),
            tools: agent.definitions(),
            output_tokens_max: agent.output_tokens_max(),
        };
        let request = render::request(&self.session, frame, &window.ranges, window.cut);
        let left_out = window.left_out();
        let asked =
            Asked { begin, attempt, request, ranges: window.ranges, left_out, cut: window.cut, plan: None };
        self.ask(runnable, asked).await
    }

    pub(super) async fn ask_summary(
        &mut self,
        runnable: &Runnable,
        begin: Option<u32>,
        attempt: u32,
        not_before: Option<Timestamp>,
        plan: Plan,
    ) -> Result<Flow, EngineError> {
        if let Some(flow) = self.hold_back(not_before).await? {
            return Ok(flow);
        }
        let request = compact::request(&self.session, &api_name(runnable), &plan);
        let ranges = vec![[plan.from, plan.through]];
        let asked =
            Asked { begin, attempt, request, ranges, left_out: None, cut: plan.cut, plan: Some(plan) };
        self.ask(runnable, asked).await
    }

    /// Waits, with the failure written down, until it is time to try again.
    async fn hold_back(&mut self, not_before: Option<Timestamp>) -> Result<Option<Flow>, EngineError> {
        let Some(moment) = not_before.filter(|moment| *moment > now()) else {
            self.retry_at = None;
            return Ok(None);
        };
        self.claim();
        self.retry_at = Some(Instant::now() + until(moment));
        self.write_down_and_wait().await.map(Some)
    }

    async fn does_not_fit(&mut self) -> Result<Flow, EngineError> {
        let message = "the conversation does not fit: the system prompt, the tools and the latest message take more \
                       than the model's context window; shorten them, or use a model with a larger one";
        let errored =
            weir_events::RunErrored { class: FailureClass::ContextOverflow, message: message.to_owned() };
        self.end(Vec::new(), errored.into()).await
    }

    /// Writes the intent down, then sends the request.
    async fn ask(&mut self, runnable: &Runnable, asked: Asked) -> Result<Flow, EngineError> {
        let body = match runnable.model.encode(&asked.request) {
            Ok(body) => body,
            Err(error) => {
                let errored = weir_events::RunErrored { class: error.class, message: error.message };
                return self.end(Vec::new(), errored.into()).await;
            }
        };
        let paid = self.paid_from(runnable);
        let requested = self.requested(runnable, &asked, &paid, Hash::of(&body)).await?;
        let reserve = requested.reserve;
        if let Some(instead) = self.cannot_pay(runnable, &paid, reserve).await? {
            return Ok(instead);
        }
        if let Some(n) = asked.begin {
            self.decided(IterationStarted { n });
        }
        let call = self.reserve(requested, &paid);
        let request = self.session.seq;
        if self.commit(Release::No).await? == Committed::Rebased {
            return Ok(Flow::Again);
        }
        if let Some(instead) = self.is_void(&paid, call, reserve).await? {
            return Ok(instead);
        }
        let began = Instant::now();
        self.cut_off = None;
        self.asking = Some(Attempt {
            pieces: runnable.model.stream(body, asked.attempt),
            request,
            attempt: asked.attempt,
            model: runnable.agent.model.clone(),
            price: runnable.agent.card.price,
            plan: asked.plan,
            began,
            deadline: began + self.shared.setup.options.model_deadline,
            offset: 0,
            said: String::new(),
            unwritten: Vec::new(),
            write_at: None,
        });
        Ok(Flow::Again)
    }

    async fn requested(
        &mut self,
        runnable: &Runnable,
        asked: &Asked,
        paid: &[Paid],
        request_hash: Hash,
    ) -> Result<ModelRequested, EngineError> {
        let (agent, request) = (&runnable.agent, &asked.request);
        let definitions = serde_json::to_string(&request.tools).unwrap_or_default();
        let estimated_tokens = tokens::of_request(request);
        let (prompt, tools) =
            (self.shared.put_once(&request.system).await?, self.shared.put_once(&definitions).await?);
        Ok(ModelRequested {
            model: agent.model.clone(),
            attempt: asked.attempt,
            prompt,
            tools,
            window: asked.ranges.clone(),
            params: Params {
                purpose: request.purpose,
                api_name: request.model.clone(),
                wire: runnable.model.wire().as_str().to_owned(),
                output_tokens_max: request.output_tokens_max,
                share_tokens: asked.cut.share_tokens,
                estimated_tokens,
            },
            request_hash,
            reserve: window::reserve_for(&self.session, agent, estimated_tokens, request.output_tokens_max),
            purses: paid.iter().map(|paid| paid.draw.clone()).collect(),
            context: asked.left_out,
        })
    }

    /// A piece of the answer, its end, or its failure.
    pub(super) fn heard(&mut self, piece: Option<Result<Piece, ModelError>>) {
        match piece {
            Some(Ok(Piece::Delta(delta))) => self.heard_delta(delta),
            Some(Ok(Piece::Done(answer))) => self.answered(*answer),
            Some(Err(error)) => self.failed(error),
            None => self.failed(ModelError {
                class: FailureClass::Truncated,
                message: "the answer ended without its end".to_owned(),
                retry_after: None,
                usage: None,
            }),
        }
    }

    fn heard_delta(&mut self, delta: weir_models::Delta) {
        let Some(asking) = &mut self.asking else { return };
        // Nobody waits for a summary word by word.
        if asking.plan.is_some() {
            return;
        }
        let bytes = delta.text.len() as u64;
        if delta.channel == Channel::Text && asking.said.len() < SAID_BYTES_MAX {
            asking.said.push_str(&delta.text);
        }
        let piece =
            LiveDelta { request: asking.request, attempt: asking.attempt, offset: asking.offset, delta };
        asking.offset += bytes;
        live::join(&mut asking.unwritten, &piece);
        asking.write_at.get_or_insert_with(|| Instant::now() + self.shared.setup.options.delta_every);
        self.live.say(piece);
    }

    fn answered(&mut self, answer: Answer) {
        let Some(asking) = self.stop_asking() else { return };
        let cost = asking.price.map_or(NanoUsd(0), |price| price.of(answer.usage));
        let duration_ms = millis(asking.began);
        match asking.plan {
            None => self.happened(
                AssistantMessage {
                    content: answer.content,
                    stop: answer.stop,
                    usage: answer.usage,
                    cost,
                    model: asking.model,
                    provider_id: answer.provider_id,
                },
                duration_ms,
            ),
            Some(ref plan) => self.summarised(&asking, plan, &answer, cost),
        }
    }

    /// A summary that is empty, cut off or too long is as good as a failed one: nothing is lost.
    fn summarised(&mut self, asking: &Attempt, plan: &Plan, answer: &Answer, cost: NanoUsd) {
        let summary = text_of(&answer.content);
        let cut_off = (answer.stop == Stop::MaxTokens).then_some("the summary was cut off");
        let duration_ms = millis(asking.began);
        if let Some(flaw) = compact::flaw(plan, &summary).or(cut_off) {
            let failed = ModelFailed {
                class: FailureClass::Invalid,
                attempt: asking.attempt,
                delay_ms: 0,
                message: flaw.to_owned(),
                usage: answer.usage,
                cost,
            };
            return self.happened(failed, duration_ms);
        }
        let (files, failures) = compact::recorded(&self.session.activity);
        let summary = compact::with_facts(plan, &summary, &self.session.activity);
        let compacted = ContextCompacted {
            through: plan.through,
            tokens_before: plan.tokens,
            tokens_after: tokens::of_text(&summary),
            summary,
            files,
            failures,
            model: asking.model.clone(),
            usage: answer.usage,
            cost,
        };
        self.happened(compacted, duration_ms);
    }

    fn failed(&mut self, error: ModelError) {
        let Some(asking) = self.stop_asking() else { return };
        let usage = error.usage.unwrap_or_default();
        let cost = asking.price.map_or(NanoUsd(0), |price| price.of(usage));
        let purpose = if asking.plan.is_some() { Purpose::Summary } else { Purpose::Turn };
        // The last attempt promises no other.
        let delay = match retries(purpose, error.class, asking.attempt) {
            true => self.delay(&error, asking.attempt),
            false => Duration::ZERO,
        };
        let failed = ModelFailed {
            class: error.class,
            attempt: asking.attempt,
            delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
            message: error.message,
            usage,
            cost,
        };
        self.happened(failed, millis(asking.began));
    }

    /// As long as the provider says; else twice as long as the last time, and never all at the same moment.
    fn delay(&self, error: &ModelError, attempt: u32) -> Duration {
        if let Some(delay) = error.retry_after {
            return delay.min(DELAY_MAX);
        }
        let doubled = self.shared.setup.options.retry_delay.saturating_mul(1 << (attempt - 1).min(10));
        let capped = doubled.min(BACKOFF_MAX);
        // The last bits of a fresh id are as good as a die.
        let jitter = u32::from(weir_journal::mint().to_bytes()[15]);
        capped / 2 + capped / 2 * jitter / 255
    }

    /// What the model had said when it was cut off; nothing, if it was not being asked. A second look finds what the first did,
    /// because the request is stopped in between.
    pub(super) fn cut_off_answer(&mut self) -> Option<String> {
        match &self.asking {
            Some(asking) if asking.plan.is_none() => self.cut_off = Some(asking.said.clone()),
            _ if self.cut_off.is_some() => {}
            _ => {
                let last = self.session.transcript.entries.last();
                let is_unanswered = last.is_some_and(|entry| entry.as_user().is_some());
                self.cut_off = is_unanswered.then(String::new);
            }
        }
        self.cut_off.clone()
    }

    pub(super) fn stop_asking(&mut self) -> Option<Attempt> {
        self.live.clear();
        self.asking.take()
    }

    /// When something about the request has to be done, whatever the provider does.
    pub(super) fn asking_moment(&self) -> Option<Instant> {
        let asking = self.asking.as_ref()?;
        Some(asking.write_at.map_or(asking.deadline, |write_at| write_at.min(asking.deadline)))
    }

    pub(super) async fn time_passed(&mut self) -> Result<(), EngineError> {
        let now = Instant::now();
        if self.retry_at.is_some_and(|moment| moment <= now) {
            self.retry_at = None;
        }
        let Some(asking) = &mut self.asking else { return Ok(()) };
        if asking.deadline <= now {
            let seconds = self.shared.setup.options.model_deadline.as_secs();
            let message = format!("no complete answer within {seconds} s");
            self.failed(ModelError {
                class: FailureClass::Transport,
                message,
                retry_after: None,
                usage: None,
            });
            return Ok(());
        }
        if asking.write_at.is_some_and(|moment| moment <= now) {
            asking.write_at = None;
            let unwritten = std::mem::take(&mut asking.unwritten);
            self.write_deltas(unwritten).await?;
        }
        Ok(())
    }

    /// Writes down what has been said so far, so that it can be seen from elsewhere and after a crash.
    async fn write_deltas(&mut self, deltas: Vec<LiveDelta>) -> Result<(), EngineError> {
        for piece in deltas {
            let delta = TextDelta {
                channel: piece.delta.channel.as_str().to_owned(),
                block: piece.delta.block,
                attempt: piece.attempt,
                offset: piece.offset,
                delta: piece.delta.text,
            };
            let about = self.about(None);
            self.draft.add(&mut self.session, delta.into(), about, Nature::Decision);
        }
        self.commit(Release::No).await?;
        Ok(())
    }
}

/// A request on its way out.
struct Asked {
    begin: Option<u32>,
    attempt: u32,
    request: Request,
    ranges: Vec<[Seq; 2]>,
    left_out: Option<LeftOut>,
    cut: render::Cut,
    plan: Option<Plan>,
}

fn api_name(runnable: &Runnable) -> String {
    let agent = &runnable.agent;
    let bare = agent.model.split_once('/').map_or(agent.model.as_str(), |(_, bare)| bare);
    agent.card.api_name.clone().unwrap_or_else(|| bare.to_owned())
}

pub(super) fn millis(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}
