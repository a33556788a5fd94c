//! Random payloads of every kind, for the tests of this crate and of the kernel. Ids come from small pools, so that
//! events refer to one another now and then.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use weir_events::*;
use weir_types::*;

/// One strategy for each kind, in the order of [`Body::KINDS`].
pub(crate) fn of_every_kind() -> Vec<BoxedStrategy<Body>> {
    let mut all = session_kinds();
    all.extend(run_kinds());
    all.extend(tool_kinds());
    all.extend(other_kinds());
    all
}

macro_rules! body {
    ($name:ident { $($field:ident: $strategy:expr),* $(,)? }) => {
        ($($strategy,)*).prop_map(|($($field,)*)| Body::from($name { $($field),* })).boxed()
    };
}

fn bill() -> impl Strategy<Value = Bill> {
    (usage(), 0..1_000u64, nano(), 0..9u64).prop_map(|(usage, reserved_tokens, cost, model_calls)| Bill {
        usage,
        reserved_tokens,
        cost,
        model_calls,
    })
}

fn saw() -> impl Strategy<Value = Saw> {
    let outcome = select(vec![Verdict::Allow, Verdict::Deny, Verdict::Ask]);
    let observed = (text(), outcome).prop_map(|(rule, outcome)| Observed { rule, outcome });
    let access = option::of(select(vec![Level::Read, Level::Write]));
    (text(), texts(), access, option::of(text()), vec(observed, 0..3)).prop_map(
        |(principal, groups, access, approved_by, observed)| Saw {
            principal,
            groups,
            access,
            approved_by,
            observed,
        },
    )
}

pub(crate) fn allowance() -> impl Strategy<Value = Allowance> {
    let number = || option::of(any::<u64>());
    (number(), number(), option::of(nano()), number()).prop_map(
        |(model_calls, tokens, nano, wall_clock_ms)| Allowance { model_calls, tokens, nano, wall_clock_ms },
    )
}

fn amount() -> impl Strategy<Value = Amount> {
    let number = || any::<u64>();
    (nano(), number(), number(), number()).prop_map(|(nano, tokens, model_calls, micros)| Amount {
        nano,
        tokens,
        model_calls,
        micros,
    })
}

fn short() -> impl Strategy<Value = Short> {
    let number = || any::<u64>();
    (limit(), number(), number(), number(), number(), any::<bool>()).prop_map(
        |(which, max, raised, spent, need, may_pass)| Short { which, max, raised, spent, need, may_pass },
    )
}

fn session_kinds() -> Vec<BoxedStrategy<Body>> {
    let share = (text(), allowance()).prop_map(|(scope, limit)| Share { scope, limit });
    let parent = (session(), branch(), call(), 1..9u32, vec(share, 0..3))
        .prop_map(|(session, branch, call, depth, purses)| Parent { session, branch, call, depth, purses });
    vec![
        body!(SessionCreated {
            agent: text(),
            manifest: hash(),
            principal: text(),
            groups: texts(),
            title: option::of(text()),
            labels: labels(),
            parent: option::of(parent),
            lane: text(),
        }),
        body!(SessionUpdated { title: option::of(text()), labels: labels() }),
        body!(SessionResumed {
            reason: select(vec![ResumeReason::Input, ResumeReason::Recovery, ResumeReason::Asked]),
            owner: any::<u128>().prop_map(OwnerId::from_u128),
            budget: option::of(allowance()),
            keeps_limits: any::<bool>(),
        }),
        body!(SessionReleased { reason: text() }),
        body!(SessionHalted { reason: text(), imported: any::<bool>() }),
        body!(SessionClosed { reason: text() }),
        body!(BranchForked { from: branch(), at: seq(), name: branch() }),
        body!(BranchMerged { from: branch(), at: seq(), tree: hash(), conflicts: texts() }),
        body!(UserMessage {
            content: vec(block(), 0..4),
            runtime: labels(),
            history: option::of(select(vec![Role::User, Role::Assistant])),
        }),
        body!(ExternalSignal { name: text(), data: json() }),
    ]
}

fn run_kinds() -> Vec<BoxedStrategy<Body>> {
    vec![
        body!(RunStarted {
            run: run(),
            trigger: select(vec![Trigger::Input, Trigger::Resume]),
            lane: text()
        }),
        body!(IterationStarted { n: any::<u32>() }),
        body!(ModelRequested {
            model: text(),
            attempt: 0..6u32,
            prompt: hash(),
            tools: hash(),
            window: vec((seq(), seq()).prop_map(|(from, to)| [from, to]), 0..3),
            params: params(),
            request_hash: hash(),
            reserve: (any::<u64>(), nano()).prop_map(|(tokens, nano)| Reserve { tokens, nano }),
            purses: vec((text(), any::<bool>()).prop_map(|(scope, shared)| Draw { scope, shared }), 0..3),
            context: option::of(
                (any::<u64>(), any::<u64>()).prop_map(|(messages, tokens)| LeftOut { messages, tokens })
            ),
        }),
        body!(ModelFailed {
            class: class(),
            attempt: 0..6u32,
            delay_ms: any::<u64>(),
            message: text(),
            usage: usage(),
            cost: nano(),
        }),
        body!(TextDelta {
            channel: text(),
            block: any::<u32>(),
            attempt: any::<u32>(),
            offset: any::<u64>(),
            delta: text(),
        }),
        body!(AssistantMessage {
            content: vec(block(), 0..5),
            stop: stop(),
            usage: usage(),
            cost: nano(),
            model: text(),
            provider_id: option::of(text()),
        }),
        body!(StatePatched { patch: prop_oneof![json(), patch()] }),
        body!(ContextCompacted {
            through: seq(),
            summary: text(),
            tokens_before: any::<u64>(),
            tokens_after: any::<u64>(),
            files: (texts(), texts()).prop_map(|(read, changed)| Files { read, changed }),
            failures: texts(),
            model: text(),
            usage: usage(),
            cost: nano(),
        }),
        body!(RunFinished { stop: stop(), answer: option::of(text()), usage: usage(), cost: nano() }),
        body!(RunErrored { class: class(), message: text() }),
        Just(Body::from(RunCancelRequested {})).boxed(),
        proptest::option::of(".{0,40}").prop_map(|said| Body::from(RunCancelled { said })).boxed(),
        body!(RunParked { why: parked() }),
    ]
}

fn tool_kinds() -> Vec<BoxedStrategy<Body>> {
    let outcome = || select(vec![Outcome::Failed, Outcome::Unknown, Outcome::Interrupted, Outcome::Denied]);
    vec![
        body!(ToolRequested {
            call: call(),
            provider_id: id(),
            tool: tool_name(),
            source: text(),
            input: json(),
            effect: select(vec![Effect::Read, Effect::Idempotent, Effect::Write]),
            risk: select(vec![Risk::Low, Risk::Medium, Risk::High]),
            on_interrupt: select(vec![OnInterrupt::Report, OnInterrupt::Ask, OnInterrupt::Retry]),
            key: option::of(id()),
        }),
        body!(ToolDecided {
            call: call(),
            outcome: select(vec![Verdict::Allow, Verdict::Deny, Verdict::Ask]),
            rule: option::of(text()),
            step: option::of(select(vec![GateStep::Allowlist, GateStep::Schema, GateStep::Rules])),
            because: text(),
            stub: any::<bool>(),
            saw: option::of(saw()),
        }),
        body!(ToolStarted {
            call: call(),
            attempt: 1..4u32,
            key: text(),
            input_hash: hash(),
            child: option::of(session()),
        }),
        body!(ToolCompleted {
            call: call(),
            content: vec(block(), 0..4),
            changed_files: texts(),
            stub: any::<bool>(),
            whole: option::of(hash()),
            log: texts(),
            bill: option::of(bill()),
        }),
        body!(ToolFailed {
            call: call(),
            class: text(),
            message: text(),
            outcome: outcome(),
            log: texts(),
            bill: option::of(bill()),
        }),
        body!(ApprovalRequested {
            call: call(),
            input_hash: hash(),
            rule: text(),
            expires: option::of(time()),
            because: option::of(select(vec![
                AskedBecause::Rule,
                AskedBecause::Interrupted,
                AskedBecause::Child
            ])),
            escalates: option::of((text(), time()).prop_map(|(to, at)| Escalates { to, at })),
        }),
        body!(ApprovalGranted {
            call: call(),
            by: text(),
            groups: texts(),
            input_hash: hash(),
            input: option::of(json()),
            scope: select(vec![Scope::Once, Scope::Session]),
            runs: option::of(prop_oneof![Just(RunsAs::Live), Just(RunsAs::DryRun)]),
        }),
        body!(ApprovalDenied { call: call(), by: text(), groups: texts(), message: option::of(text()) }),
        body!(ApprovalExpired { call: call() }),
    ]
}

fn other_kinds() -> Vec<BoxedStrategy<Body>> {
    vec![
        body!(MemoryStored { doc: text(), title: text(), tags: texts(), hash: hash() }),
        body!(MemoryRetrieved { query: text(), docs: texts() }),
        body!(FileWritten { path: text(), hash: hash(), mode: any::<u32>(), size: any::<u64>() }),
        body!(FileDeleted { path: text() }),
        body!(SnapshotTaken { name: text(), tree: hash() }),
        body!(BudgetReserved {
            scope: text(),
            call: event(),
            nano: nano(),
            tokens: any::<u64>(),
            model_calls: 0..3u64,
            limit: allowance(),
        }),
        body!(BudgetSettled {
            scope: text(),
            call: event(),
            nano: nano(),
            tokens: any::<u64>(),
            model_calls: 0..3u64,
            micros: any::<u64>(),
        }),
        body!(BudgetReleased {
            scope: text(),
            call: event(),
            nano: nano(),
            tokens: any::<u64>(),
            model_calls: 0..3u64,
            micros: any::<u64>(),
            raises: any::<bool>(),
        }),
        body!(BudgetCarried {
            version: 1..3u32,
            scope: text(),
            through: seq(),
            settled: amount(),
            raised: amount(),
            limit: allowance(),
            held: vec((event(), amount()).prop_map(|(call, amount)| Held { call, amount }), 0..3),
            void: vec((event(), short()).prop_map(|(call, short)| Void { call, short }), 0..3),
        }),
        body!(BudgetExceeded {
            scope: text(),
            limit: any::<u64>(),
            spent: any::<u64>(),
            which: limit(),
            need: 0..9u64,
            waits_ms: any::<u64>(),
            call: option::of(event()),
        }),
        body!(LaneChosen { lane: text(), why: text() }),
        body!(LaneRolledBack { lane: text(), why: text() }),
        body!(LoopFired { r#loop: text(), scheduled_for: time(), session: session() }),
        body!(LoopSkipped { r#loop: text(), scheduled_for: time(), why: text() }),
        body!(LoopFinished { run: run(), status: text() }),
    ]
}

fn params() -> impl Strategy<Value = Params> {
    let purpose = select(vec![Purpose::Turn, Purpose::Summary]);
    (purpose, text(), text(), any::<u64>(), any::<u64>(), any::<u64>()).prop_map(
        |(purpose, api_name, wire, output_tokens_max, share_tokens, estimated_tokens)| Params {
            purpose,
            api_name,
            wire,
            output_tokens_max,
            share_tokens,
            estimated_tokens,
        },
    )
}

fn limit() -> impl Strategy<Value = Limit> {
    select(vec![Limit::Iterations, Limit::ModelCalls, Limit::Tokens, Limit::Usd, Limit::WallClock])
}

fn parked() -> impl Strategy<Value = Parked> {
    prop_oneof![
        (limit(), any::<u64>()).prop_map(|(limit, max)| Parked::Limit { limit, max }),
        (text(), limit(), [any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()]).prop_map(
            |(scope, limit, [max, raised, spent, need])| {
                Parked::Budget { scope, limit, max, raised, spent, need }
            }
        ),
        (text(), any::<u32>()).prop_map(|(tool, count)| Parked::Loop { tool, count }),
        Just(Parked::Halted),
        any::<u32>().prop_map(|count| Parked::Crashes { count }),
        text().prop_map(|message| Parked::Storage { message }),
    ]
}

/// Any block, also where nobody should put it.
pub(crate) fn block() -> impl Strategy<Value = Block> {
    let leaf = prop_oneof![
        4 => text().prop_map(|text| View::Text { text }),
        1 => (text(), option::of(text())).prop_map(|(text, signature)| View::Thinking { text, signature }),
        2 => (id(), tool_name(), json()).prop_map(|(id, name, input)| View::ToolUse { id, name, input }),
        1 => (text(), source()).prop_map(|(media_type, source)| View::Image { media_type, source }),
        1 => (text(), option::of(text()), source())
            .prop_map(|(media_type, title, source)| View::Document { media_type, title, source }),
        1 => Just(View::Unknown),
    ];
    let sent = || option::weighted(0.2, (text(), json()).prop_map(|(wire, json)| Sent { wire, json }));
    let leaf = (leaf, sent()).prop_map(|(view, sent)| Block { view, sent });
    leaf.prop_recursive(1, 4, 3, move |inner| {
        (id(), tool_name(), vec(inner, 0..3), any::<bool>(), sent()).prop_map(
            |(id, name, content, failed, sent)| Block {
                view: View::ToolResult { id, name, content, failed },
                sent,
            },
        )
    })
}

fn source() -> impl Strategy<Value = Source> {
    prop_oneof![text().prop_map(Source::Base64), text().prop_map(Source::Url)]
}

/// Words in several scripts, blanks, line ends, controls, nothing at all.
pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "[a-zé日\u{1F600} \n\"\\\\]{0,12}",
        1 => Just(String::new()),
        1 => any::<String>(),
        1 => "[a-z ]{200,400}",
    ]
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    vec(text(), 0..4)
}

/// Ids repeat, and some are empty.
fn id() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), select(vec!["t1", "t2", "call_5_0"]).prop_map(str::to_owned), "[a-z]{3}"]
}

fn tool_name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => select(vec!["fs_read", "write", "multi_tool_use.parallel", ""]).prop_map(str::to_owned),
        1 => "[a-z. é]{60,80}",
    ]
}

/// JSON whose spelling must survive.
pub(crate) fn json() -> impl Strategy<Value = Json> {
    let spelled = select(vec![
        "null",
        "{}",
        r#"{"z":1.50,"a":[1e2],"path":"src/main.rs"}"#,
        "[ 1 ,\t2 ]",
        "18446744073709551616.000",
        r#""\u00e9\ud83d\ude00""#,
        r#"{"a":1,"a":2}"#,
        "true",
    ]);
    let quoted = text().prop_map(|text| Json::of(&serde_json::Value::String(text)));
    prop_oneof![spelled.prop_map(|text| Json::parse(text).unwrap()), quoted]
}

/// Patches that apply, and ones that fail in the middle.
pub(crate) fn patch() -> impl Strategy<Value = Json> {
    let operation = prop_oneof![
        (select(vec!["", "/a", "/b", "/a/c", "/l/-"]), number())
            .prop_map(|(path, value)| serde_json::json!({"op": "add", "path": path, "value": value})),
        Just(serde_json::json!({"op": "add", "path": "", "value": {"a": {}, "l": []}})),
        Just(serde_json::json!({"op": "remove", "path": "/b"})),
        Just(serde_json::json!({"op": "copy", "from": "/a", "path": "/b"})),
        Just(serde_json::json!({"op": "move", "from": "/b", "path": "/l/0"})),
        Just(serde_json::json!({"op": "test", "path": "/a", "value": 1})),
    ];
    vec(operation, 0..4).prop_map(|operations| Json::of(&operations.into()))
}

fn number() -> impl Strategy<Value = serde_json::Value> {
    prop_oneof![
        any::<f64>().prop_map(|n| serde_json::json!(n)),
        any::<i64>().prop_map(|n| serde_json::json!(n))
    ]
}

fn labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map(text(), text(), 0..3)
}

fn usage() -> impl Strategy<Value = Usage> {
    (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()).prop_map(
        |(input_tokens, output_tokens, cache_read_tokens, cache_write_tokens)| Usage {
            input_tokens,
            output_tokens,
            cache_read_tokens,
            cache_write_tokens,
        },
    )
}

fn time() -> impl Strategy<Value = Timestamp> {
    // The years 1 to 9999, to the microsecond.
    (-62_135_596_800_000_000..253_402_207_200_000_000i64)
        .prop_map(|micros| Timestamp::from_micros(micros).unwrap())
}

fn hash() -> impl Strategy<Value = Hash> {
    any::<[u8; 32]>().prop_map(Hash::from_bytes)
}

fn seq() -> impl Strategy<Value = Seq> {
    prop_oneof![(0..40u64).prop_map(Seq), any::<u64>().prop_map(Seq)]
}

fn nano() -> impl Strategy<Value = NanoUsd> {
    any::<u64>().prop_map(NanoUsd)
}

fn branch() -> impl Strategy<Value = BranchName> {
    "[a-z][a-z-]{0,10}[a-z]".prop_map(|name| name.parse().unwrap())
}

fn stop() -> impl Strategy<Value = Stop> {
    select(vec![Stop::End, Stop::ToolUse, Stop::MaxTokens, Stop::Refused, Stop::Paused])
}

fn class() -> impl Strategy<Value = FailureClass> {
    select(FailureClass::ALL.to_vec())
}

pub(crate) fn run() -> impl Strategy<Value = RunId> {
    (0..3u128).prop_map(RunId::from_u128)
}

fn call() -> impl Strategy<Value = CallId> {
    (0..4u128).prop_map(CallId::from_u128)
}

fn session() -> impl Strategy<Value = SessionId> {
    any::<u128>().prop_map(SessionId::from_u128)
}

pub(crate) fn event() -> impl Strategy<Value = EventId> {
    any::<u128>().prop_map(EventId::from_u128)
}
