//! For unit tests: a session told event by event, as an engine would write it down.

use weir_events::*;
use weir_types::{
    Block, CallId, Effect, EventId, FailureClass, Hash, Json, ModelCard, NanoUsd, OnInterrupt, OwnerId,
    Price, Purpose, Request, Risk, Role, RunId, Seq, SessionId, Stop, Timestamp, ToolDefinition, Usage,
    Verdict, View, Wire,
};

use crate::render::{self, Frame};
use crate::*;

/// When every story begins.
const BEGIN: i64 = 1_700_000_000_000_000;

pub(crate) struct Story {
    pub(crate) session: Session,
    pub(crate) agent: Agent,
    /// Microseconds; each event takes a millisecond.
    pub(crate) now: i64,
    /// What requests are paid from.
    pub(crate) purses: Vec<Draw>,
    /// How long whoever writes the events has run the session, if they count that.
    pub(crate) held_us: Option<u64>,
}

/// A model with a window of 10,000 tokens, a tenth of it for the answer, at a dollar a million tokens; a tool of each
/// sort: `read`, `put`, and the writes `write`, `ask`, `retry` and `child`.
pub(crate) fn agent() -> Agent {
    let dollar = NanoUsd(NanoUsd::PER_USD);
    let price = Price { input: dollar, output: dollar, cache_read: dollar, cache_write: dollar };
    let card = ModelCard {
        wire: Wire::Scripted,
        api_name: None,
        base_url: None,
        key_env: None,
        context_window: 10_000,
        output_max: 1_000,
        price: Some(price),
        regions: vec![],
    };
    let tools = [
        ("read", Effect::Read, OnInterrupt::Report),
        ("put", Effect::Idempotent, OnInterrupt::Report),
        ("write", Effect::Write, OnInterrupt::Report),
        ("ask", Effect::Write, OnInterrupt::Ask),
        ("retry", Effect::Write, OnInterrupt::Retry),
        ("child", Effect::Write, OnInterrupt::Report),
    ];
    let tools = tools.map(|(name, effect, on_interrupt)| Tool {
        definition: ToolDefinition {
            name: name.into(),
            description: String::new(),
            schema: Json::empty_object(),
        },
        source: "test".into(),
        effect,
        risk: Risk::Low,
        on_interrupt,
        agent: None,
        approval: Default::default(),
    });
    let (system, limits) = (String::new(), Limits::default());
    Agent { name: "a".into(), model: "test/model".into(), card, system, tools: tools.to_vec(), limits }
}

impl Story {
    pub(crate) fn new() -> Self {
        Self { session: Session::default(), agent: agent(), now: BEGIN, purses: vec![], held_us: None }
    }

    /// Someone has said something and the run for it has begun.
    pub(crate) fn of_a_run() -> Self {
        let mut story = Self::new();
        story.say("hello");
        story.start_run();
        story
    }

    /// The model has asked for these tools, and they have been taken up; with their calls.
    pub(crate) fn of_calls<const N: usize>(tools: [&str; N]) -> (Self, [CallId; N]) {
        let mut story = Self::of_a_run();
        story.ask();
        story.answer_with_calls(&tools);
        let calls = story.take_up().try_into().unwrap();
        (story, calls)
    }

    /// The model has asked for this tool, and it runs.
    pub(crate) fn of_a_running_call(tool: &str) -> (Self, CallId) {
        let (mut story, [call]) = Self::of_calls([tool]);
        story.decided(call, Verdict::Allow);
        story.started(call);
        (story, call)
    }

    pub(crate) fn at(&self) -> Timestamp {
        Timestamp::from_micros(self.now).unwrap()
    }

    pub(crate) fn add(&mut self, body: impl Into<Body>) -> Seq {
        self.now += 1_000;
        let seq = self.session.seq.next();
        let at = At { seq, ts: self.at(), id: EventId::from_u128(u128::from(seq.0)), held_us: self.held_us };
        self.session.apply_body(at, &body.into());
        seq
    }

    pub(crate) fn next(&self) -> Next {
        decide(&self.session, &self.agent, Now { at: self.at(), held_us: self.held_us })
    }

    pub(crate) fn say(&mut self, text: &str) -> Seq {
        self.add(UserMessage { content: vec![Block::text(text)], runtime: Default::default(), history: None })
    }

    /// Someone tells what was said before.
    pub(crate) fn tell(&mut self, role: Role, content: Vec<Block>) -> Seq {
        self.add(UserMessage { content, runtime: Default::default(), history: Some(role) })
    }

    pub(crate) fn start_run(&mut self) {
        assert_eq!(self.next(), Next::StartRun);
        let run = RunId::from_u128(u128::from(self.session.seq.0));
        self.add(RunStarted { run, trigger: Trigger::Input, lane: "direct".into() });
    }

    pub(crate) fn run(&self) -> &Run {
        self.session.run.as_ref().unwrap()
    }

    /// The request that would be sent now.
    pub(crate) fn request(&self) -> Request {
        let window = window::select(&self.session, &self.agent).unwrap();
        let frame = Frame {
            api_name: "model".into(),
            system: String::new(),
            tools: vec![],
            output_tokens_max: self.agent.output_tokens_max(),
        };
        render::request(&self.session, frame, &window.ranges, window.cut)
    }

    /// The model is asked, as decided: for an answer or for a summary.
    pub(crate) fn ask(&mut self) {
        let (begin, attempt, purpose) = match self.next() {
            Next::CallModel { begin, attempt, .. } => (begin, attempt, Purpose::Turn),
            Next::Compact { begin, attempt, .. } => (begin, attempt, Purpose::Summary),
            other => panic!("it does not ask: {other:?}"),
        };
        if let Some(n) = begin {
            self.add(IterationStarted { n });
        }
        self.requested(attempt, purpose);
    }

    pub(crate) fn requested(&mut self, attempt: u32, purpose: Purpose) -> Seq {
        let estimated_tokens = tokens::of_request(&self.request()) + self.agent.fixed_tokens();
        self.add(ModelRequested {
            model: "test/model".into(),
            attempt,
            prompt: Hash::ZERO,
            tools: Hash::ZERO,
            window: vec![],
            params: Params {
                purpose,
                api_name: "model".into(),
                wire: "scripted".into(),
                output_tokens_max: 1_000,
                share_tokens: 100,
                estimated_tokens,
            },
            request_hash: Hash::ZERO,
            reserve: Reserve { tokens: 1_100, nano: NanoUsd(1_100_000) },
            purses: self.purses.clone(),
            context: None,
        })
    }

    /// The model answers in ten tokens; it has counted what we had estimated.
    pub(crate) fn answer_blocks(&mut self, content: Vec<Block>, stop: Stop) -> Seq {
        let Phase::Calling(request) = &self.run().phase else { panic!("{:?}", self.run().phase) };
        let usage = Usage { input_tokens: request.estimated_tokens, output_tokens: 10, ..Usage::default() };
        let (cost, model, provider_id) = (NanoUsd(usage.total() * 1_000), "test/model".into(), None);
        self.add(AssistantMessage { content, stop, usage, cost, model, provider_id })
    }

    pub(crate) fn answer(&mut self, text: &str) -> Seq {
        self.answer_blocks(vec![Block::text(text)], Stop::End)
    }

    pub(crate) fn answer_with_calls(&mut self, tools: &[&str]) -> Seq {
        let uses = tools.iter().enumerate().map(|(index, tool)| tool_use(&format!("t{index}"), tool));
        self.answer_blocks(uses.collect(), Stop::ToolUse)
    }

    /// Takes up what the model asked for.
    pub(crate) fn take_up(&mut self) -> Vec<CallId> {
        let Next::RequestTools(uses) = self.next() else { panic!("{:?}", self.next()) };
        let tools = self.agent.tools.clone();
        let take_up = |used: ToolUse| {
            let tool = tools.iter().find(|tool| tool.definition.name == used.tool);
            let call = CallId::from_u128(u128::from(self.session.seq.0) + 1);
            self.add(ToolRequested {
                call,
                provider_id: used.provider_id,
                tool: used.tool,
                source: "test".into(),
                input: used.input,
                effect: tool.map_or(Effect::Write, |tool| tool.effect),
                risk: Risk::Low,
                on_interrupt: tool.map_or(OnInterrupt::Report, |tool| tool.on_interrupt),
                key: None,
            });
            call
        };
        uses.into_iter().map(take_up).collect()
    }

    /// Someone outside asks for a tool.
    pub(crate) fn errand(&mut self, tool: &str) -> CallId {
        let call = CallId::from_u128(u128::from(self.session.seq.0) + 1);
        let found = self.agent.tools.iter().find(|found| found.definition.name == tool);
        let (effect, on_interrupt) =
            found.map_or((Effect::Write, OnInterrupt::Report), |tool| (tool.effect, tool.on_interrupt));
        self.add(ToolRequested {
            call,
            provider_id: String::new(),
            tool: tool.into(),
            source: "test".into(),
            input: Json::empty_object(),
            effect,
            risk: Risk::Low,
            on_interrupt,
            key: Some("k".into()),
        });
        call
    }

    pub(crate) fn decided(&mut self, call: CallId, outcome: Verdict) {
        self.add(ToolDecided {
            call,
            outcome,
            rule: None,
            step: None,
            because: "so".into(),
            stub: false,
            saw: None,
        });
    }

    pub(crate) fn ask_someone(&mut self, call: CallId, expires: Option<Timestamp>) {
        self.decided(call, Verdict::Ask);
        let input_hash = self.call(call).input_hash();
        self.add(asked(call, input_hash, "r", expires));
    }

    pub(crate) fn granted(&mut self, call: CallId, input_hash: Hash, input: Option<Json>) {
        self.add(ApprovalGranted {
            call,
            by: "bob".into(),
            groups: vec![],
            input_hash,
            input,
            scope: Scope::Once,
            runs: None,
        });
    }

    pub(crate) fn started(&mut self, call: CallId) {
        let of = self.call(call).clone();
        let child = (of.tool == "child").then(|| of.child.unwrap_or(SessionId::from_u128(7)));
        let (attempt, key, input_hash) = (of.attempt + 1, of.key(), of.input_hash());
        self.add(ToolStarted { call, attempt, key, input_hash, child });
    }

    pub(crate) fn completed(&mut self, call: CallId, text: &str) {
        let content = vec![Block::text(text)];
        self.add(ToolCompleted {
            call,
            content,
            changed_files: vec![],
            stub: false,
            whole: None,
            log: vec![],
            bill: None,
        });
    }

    /// An answer that asks for a tool, with arguments of its own, and its result, in one go.
    pub(crate) fn use_tool(&mut self, tool: &str, result: &str) {
        let input = Json::parse(&format!(r#"{{"n":"{:04}"}}"#, self.session.seq.0)).unwrap();
        self.use_tool_with(tool, input, result);
    }

    /// The same with these arguments.
    pub(crate) fn use_tool_with(&mut self, tool: &str, input: Json, result: &str) {
        self.ask();
        let used = View::ToolUse { id: "t0".into(), name: tool.into(), input };
        self.answer_blocks(vec![used.into()], Stop::ToolUse);
        for call in self.take_up() {
            self.decided(call, Verdict::Allow);
            self.started(call);
            self.completed(call, result);
        }
    }

    pub(crate) fn call(&self, id: CallId) -> &Call {
        self.session.call(id).unwrap()
    }

    pub(crate) fn fails(&mut self, class: FailureClass) {
        let Phase::Calling(request) = &self.run().phase else { panic!("{:?}", self.run().phase) };
        let (attempt, delay_ms) = (request.attempt, 5_000);
        let (message, usage) = ("no".into(), Usage { input_tokens: 3, ..Usage::default() });
        self.add(ModelFailed { class, attempt, delay_ms, message, usage, cost: NanoUsd(3) });
    }

    pub(crate) fn summarised(&mut self, through: Seq, summary: &str) -> Seq {
        self.add(ContextCompacted {
            through,
            summary: summary.into(),
            tokens_before: 0,
            tokens_after: 0,
            files: Files::default(),
            failures: vec![],
            model: "test/model".into(),
            usage: Usage { input_tokens: 7, ..Usage::default() },
            cost: NanoUsd(7),
        })
    }

    pub(crate) fn resumed(&mut self, reason: ResumeReason) {
        self.add(SessionResumed { reason, owner: OwnerId::from_u128(1), budget: None, keeps_limits: false });
    }

    pub(crate) fn forked(&mut self) {
        let (from, name) = ("main".parse().unwrap(), "other".parse().unwrap());
        let at = self.session.seq;
        self.add(BranchForked { from, at, name });
    }
}

pub(crate) fn tool_use(id: &str, tool: &str) -> Block {
    View::ToolUse { id: id.into(), name: tool.into(), input: Json::empty_object() }.into()
}

/// Someone has to say yes, as a rule wants it.
pub(crate) fn asked(
    call: CallId,
    input_hash: Hash,
    rule: &str,
    expires: Option<Timestamp>,
) -> ApprovalRequested {
    ApprovalRequested { call, input_hash, rule: rule.into(), expires, because: None, escalates: None }
}
