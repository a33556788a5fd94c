//! What the world does to a session.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use weir_types::{Block, FailureClass, Json, Stop, View};

use crate::bodies;

#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Someone says something of that many characters, or something odd.
    Say(usize),
    SayBlocks(Vec<Block>),
    Signal,
    /// Whatever is awaited comes: an answer, a result, a decision; or someone says something.
    Go {
        answer: Answer,
        size: usize,
        fails: bool,
        decision: Decision,
    },
    /// Someone outside asks for a call of that tool.
    Errand(&'static str),
    /// A summary of that many characters.
    Summarise(usize),
    ModelFails(FailureClass),
    ToolAnswers(Vec<Block>),
    /// A result comes after its call was closed.
    Late,
    Wait(u32),
    /// The process goes down, and again as soon as it is up.
    Crash(u8),
    /// The process goes down after so many more events.
    CrashIn(u32),
    Cancel,
    Halt,
    Resume,
    Close,
    /// Goes on from that share of the events.
    Fork(u8),
    Patch(Json),
    /// Goes on from a snapshot.
    Reload,
}

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// Ids and tools.
    pub(crate) calls: Vec<(&'static str, &'static str)>,
    pub(crate) text: usize,
    pub(crate) odd: Vec<Block>,
    pub(crate) odd_last: bool,
    pub(crate) stop: Stop,
    /// What the provider counts, in percent of what we estimate.
    pub(crate) counted: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Decision {
    Grant,
    GrantEdited,
    GrantOther,
    Deny,
}

impl Answer {
    pub(crate) fn content(&self) -> Vec<Block> {
        let text = (self.text > 0).then(|| Block::text("a".repeat(self.text)));
        let calls = self.calls.iter().map(|(id, tool)| {
            let input = Json::parse(r#"{"path":"x"}"#).unwrap();
            Block::from(View::ToolUse { id: (*id).into(), name: (*tool).into(), input })
        });
        let usual = text.into_iter().chain(calls);
        match self.odd_last {
            true => usual.chain(self.odd.clone()).collect(),
            false => self.odd.iter().cloned().chain(usual).collect(),
        }
    }
}

const TOOLS: [&str; 10] =
    ["fs_read", "put", "write", "ask", "ask", "ask", "retry", "child", "guarded", "un known"];

pub(crate) fn ops() -> impl Strategy<Value = Vec<Op>> {
    vec(op(), 1..70)
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        30 => go(),
        4 => size().prop_map(Op::Say),
        1 => vec(bodies::block(), 0..3).prop_map(Op::SayBlocks),
        1 => Just(Op::Signal),
        3 => select(TOOLS.to_vec()).prop_map(Op::Errand),
        4 => prop_oneof![0..300usize, size()].prop_map(Op::Summarise),
        2 => select(FailureClass::ALL.to_vec()).prop_map(Op::ModelFails),
        1 => vec(bodies::block(), 0..3).prop_map(Op::ToolAnswers),
        1 => Just(Op::Late),
        2 => (0..100_000u32).prop_map(Op::Wait),
        2 => (1..5u8).prop_map(Op::Crash),
        3 => (0..8u32).prop_map(Op::CrashIn),
        1 => Just(Op::Cancel),
        1 => Just(Op::Halt),
        3 => Just(Op::Resume),
        1 => any::<u8>().prop_map(Op::Fork),
        1 => bodies::patch().prop_map(Op::Patch),
        1 => prop::bool::weighted(0.05).prop_map(|close| if close { Op::Close } else { Op::Reload }),
    ]
}

fn go() -> impl Strategy<Value = Op> {
    let decisions =
        [Decision::Grant, Decision::Grant, Decision::GrantEdited, Decision::GrantOther, Decision::Deny];
    (answer(), size(), prop::bool::weighted(0.2), select(decisions.to_vec()))
        .prop_map(|(answer, size, fails, decision)| Op::Go { answer, size, fails, decision })
}

/// Nothing, a little, or far more than any window.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![1 => Just(0), 8 => 1..400usize, 3 => 400..8_000usize, 1 => 8_000..100_000usize]
}

fn answer() -> impl Strategy<Value = Answer> {
    let id = select(vec!["", "t1", "t1", "t2", "t3", "call_9_0"]);
    let calls = prop_oneof![2 => Just(vec![]), 5 => vec((id, select(TOOLS.to_vec())), 1..5)];
    let stop =
        select(vec![Stop::End, Stop::End, Stop::ToolUse, Stop::MaxTokens, Stop::Refused, Stop::Paused]);
    let odd = prop_oneof![4 => Just(vec![]), 1 => vec(bodies::block(), 1..3)];
    (calls, size(), odd, any::<bool>(), stop, 30..500u64).prop_map(
        |(calls, text, odd, odd_last, stop, counted)| Answer { calls, text, odd, odd_last, stop, counted },
    )
}
