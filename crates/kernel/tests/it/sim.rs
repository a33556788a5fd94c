//! A small engine: it appends what `decide` asks for, and the world answers as a test says. Every append is durable at
//! once; a crash loses what was under way, at any append.

mod agent;
mod doing;
mod op;

use std::collections::{HashMap, HashSet};

use weir_events::*;
use weir_kernel::compact::Plan;
use weir_kernel::render::{self, Cut, Frame};
use weir_kernel::*;
use weir_types::*;

pub(crate) use self::agent::settings;
pub(crate) use self::op::ops;
use crate::check;

/// More steps without anything from outside mean that it never comes to rest.
const STEPS_MAX: usize = 500;

pub(crate) struct Sim {
    pub(crate) agent: Agent,
    pub(crate) events: Vec<(At, Body)>,
    pub(crate) session: Session,
    now: i64,
    minted: u128,
    /// The request that is out, and what it summarises, if it is for a summary.
    asking: Option<Option<Plan>>,
    running: Vec<CallId>,
    /// Appends until the process goes down.
    crash_in: Option<u32>,
    /// Requests for answers: their event, what they show, whether anything was dropped, how it was cut.
    sent: Vec<Sent>,
    /// Calls that were started, how often.
    started: HashMap<CallId, u32>,
    finished: HashSet<CallId>,
    /// What came to pass, to know that the random histories reach it.
    pub(crate) seen: HashSet<&'static str>,
}

struct Sent {
    seq: Seq,
    blocks: Vec<String>,
    dropped: usize,
    cut: Cut,
    summary: Option<Seq>,
}

impl Sim {
    pub(crate) fn new(agent: Agent) -> Self {
        Self {
            agent,
            events: Vec::new(),
            session: Session::default(),
            now: 1_700_000_000_000_000,
            minted: 0,
            asking: None,
            running: Vec::new(),
            crash_in: None,
            sent: Vec::new(),
            started: HashMap::new(),
            finished: HashSet::new(),
            seen: HashSet::new(),
        }
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_micros(self.now).unwrap()
    }

    fn mint(&mut self) -> u128 {
        self.minted += 1;
        self.minted
    }

    pub(crate) fn append(&mut self, body: impl Into<Body>) {
        let body = body.into();
        self.now += 1_000;
        let id = EventId::from_u128(self.mint());
        let at = At { seq: self.session.seq.next(), ts: self.time(), id, held_us: None };
        self.session.apply_body(at, &body);
        self.events.push((at, body));
        self.crash_in = self.crash_in.map(|left| left.saturating_sub(1));
    }

    /// The state as another process would find it.
    pub(crate) fn fold(&self, count: usize) -> Session {
        let mut session = Session::default();
        self.events[..count].iter().for_each(|(at, body)| session.apply_body(*at, body));
        session
    }

    /// The process goes down and comes up again.
    fn crash(&mut self) {
        self.seen.insert("crash");
        (self.crash_in, self.asking) = (None, None);
        self.running.clear();
        let folded = self.fold(self.events.len());
        assert_eq!(folded, self.session, "the state is what the events say");
        self.session = folded;
        self.resume(ResumeReason::Recovery);
    }

    fn resume(&mut self, reason: ResumeReason) {
        let owner = OwnerId::from_u128(self.mint());
        self.append(SessionResumed { reason, owner, budget: None, keeps_limits: true });
    }

    /// Goes on from an earlier event, on a branch.
    fn fork(&mut self, at: usize) {
        self.seen.insert("fork");
        self.events.truncate(at);
        self.session = self.fold(at);
        (self.asking, self.crash_in) = (None, None);
        self.running.clear();
        self.sent.retain(|sent| sent.seq <= self.session.seq);
        let main: BranchName = "main".parse().unwrap();
        let at = self.session.seq;
        self.append(BranchForked { from: main, at, name: "other".parse().unwrap() });
        assert!(self.session.run.is_none());
    }

    /// Decides and does until something from outside is needed.
    pub(crate) fn settle(&mut self) {
        for _ in 0..STEPS_MAX {
            if self.crash_in == Some(0) {
                self.crash();
            }
            let next = decide(&self.session, &self.agent, self.time());
            if !self.perform(next) {
                return;
            }
        }
        panic!("it does not come to rest: {:#?}", self.session.run);
    }

    fn frame(&self) -> Frame {
        Frame {
            api_name: "model".into(),
            system: self.agent.system.clone(),
            tools: self.agent.definitions(),
            output_tokens_max: self.agent.output_tokens_max(),
        }
    }

    /// Everything that is promised about a request for an answer.
    fn check_request(&mut self, request: &Request, window: &window::Window) -> Sent {
        check::assert_valid(request);
        let tokens = tokens::of_messages(&request.messages);
        let budget = window::budget(&self.session, &self.agent);
        assert!(tokens <= window.tokens, "{tokens} tokens, {} were counted", window.tokens);
        assert!(window.tokens <= budget, "{} tokens do not fit {budget}", window.tokens);
        let free = self.agent.context_tokens() - self.agent.output_tokens_max();
        let counted = self.session.gauge.corrected(tokens::of_request(request));
        assert!(counted <= free, "the provider will count {counted} tokens, {free} are free");
        self.check_latest(request, window);
        let blocks = check::blocks(request);
        let summary = self.session.transcript.summary.as_ref().map(|summary| summary.seq);
        if let Some(last) = self.sent.last()
            && last.dropped == 0
            && window.dropped == 0
            && (last.cut, last.summary) == (window.cut, summary)
        {
            self.seen.insert("prefix");
            assert!(blocks.starts_with(&last.blocks), "before {:#?}\nnow {blocks:#?}", last.blocks);
        }
        if window.dropped > 0 {
            self.seen.insert("trimmed");
        }
        if window.cut != window::cut(&self.agent) {
            self.seen.insert("cut more");
        }
        let seq = self.session.seq;
        Sent { seq, blocks, dropped: window.dropped, cut: window.cut, summary }
    }

    fn check_latest(&self, request: &Request, window: &window::Window) {
        let transcript = &self.session.transcript;
        let latest = self.session.inbox.last().or_else(|| transcript.last_user()).unwrap();
        let input = |(_, body): &&(At, Body)| matches!(body, Body::UserMessage(_) | Body::ExternalSignal(_));
        let last_input = self.events.iter().rfind(input).unwrap();
        assert_eq!(latest.seq, last_input.0.seq, "the latest message is forgotten");
        let entries = transcript.entries.iter().map(Entry::seq);
        let units: Vec<Seq> = entries.chain(self.session.inbox.iter().map(|entry| entry.seq)).collect();
        let place = |seq: Seq| units.iter().position(|unit| *unit == seq);
        let within = |[from, to]: &[Seq; 2]| (place(*from)..=place(*to)).contains(&place(latest.seq));
        let pinned = transcript.pinned.as_ref().is_some_and(|entry| entry.seq == latest.seq);
        assert!(pinned || window.ranges.iter().any(within), "the latest message is not in the window");
        let text = latest.content.first().and_then(Block::as_text).unwrap_or_default();
        if text.starts_with("m0") {
            let shown = check::blocks(request).iter().any(|block| block.contains(&text[..8]));
            assert!(shown, "the latest message `{}` is not shown", &text[..8]);
        }
    }

    /// Another process would send the very same bytes, now and after the event.
    fn check_rebuilt(&self, request: &Request, window: &window::Window) {
        let bytes = serde_json::to_vec(request).unwrap();
        let folded = self.fold(self.events.len() - 1);
        let again = render::request(&folded, self.frame(), &window.ranges, window.cut);
        assert_eq!(serde_json::to_vec(&again).unwrap(), bytes, "made again from the events before it");
        let snapshot: Session = serde_json::from_slice(&serde_json::to_vec(&folded).unwrap()).unwrap();
        let again = render::request(&snapshot, self.frame(), &window.ranges, window.cut);
        assert_eq!(serde_json::to_vec(&again).unwrap(), bytes, "made again from a snapshot");
        assert_eq!(window::select(&snapshot, &self.agent).as_ref(), Some(window));
    }
}
