//! Payloads of every kind, with the members that the contracts give them.

use super::blocks::{Wire, usage, user_content};
use super::json::{Json, object};
use super::random::Random;
use super::words::{date, fill, fragment, ident, sentence, text, word};

pub(super) fn payload(kind: &str, random: &mut Random) -> Json {
    match kind.split('.').next() {
        Some("session" | "branch") => session(kind, random),
        Some("tool" | "approval") => tool(kind, random),
        Some("memory" | "file" | "snapshot") => file(kind, random),
        Some("budget" | "lane" | "loop") => governance(kind, random),
        Some("finance" | "sensor") => foreign(kind, random),
        _ => run(kind, random),
    }
}

pub(super) fn principal(random: &mut Random) -> String {
    let who = random.pick(&["user:", "user:", "user:", "serviceaccount:", "group:", "agent:"]);
    format!(
        "{who}{}",
        random.pick(&[
            "ana",
            "ben",
            "chen",
            "digest-bot",
            "helper",
            "ops",
            "priya",
            "researcher",
            "root",
            "sam"
        ])
    )
}

fn agent(random: &mut Random) -> &'static str {
    random.pick(&[
        "helper",
        "researcher",
        "reviewer",
        "support",
        "analyst",
        "coder",
        "planner",
        "triage",
        "writer",
    ])
}

fn time(random: &mut Random) -> String {
    format!("{}T{:02}:{:02}:{:02}Z", date(random), random.below(24), random.below(60), random.below(60))
}

fn path(random: &mut Random) -> String {
    let template = random.pick(&[
        "src/%ident%.rs",
        "src/%word%/%ident%.rs",
        "docs/%word%.md",
        "tests/test_%ident%.py",
        "README.md",
        "src/main.rs",
        "src/components/%Type%.tsx",
        "config/%word%.yaml",
        "data/%word%s.json",
        "notes/%date%-%word%.md",
        "Cargo.toml",
    ]);
    fill(template, random)
}

fn scope(random: &mut Random) -> String {
    match random.below(3) {
        0 => format!("agent:{}:{}", agent(random), date(random)),
        1 => format!("{}:{}", principal(random), date(random)),
        _ => format!("day:{}", date(random)),
    }
}

fn reason(random: &mut Random) -> &'static str {
    random.pick(&[
        "requested by operator",
        "process restarted",
        "previous owner is gone",
        "idle for 24 hours",
        "budget exceeded",
        "conversation finished",
        "imported",
        "kill switch",
    ])
}

fn class(random: &mut Random) -> &'static str {
    random.pick(&[
        "rate_limited",
        "overloaded",
        "auth",
        "quota",
        "context_overflow",
        "refused",
        "invalid",
        "transport",
        "truncated",
    ])
}

fn session(kind: &str, random: &mut Random) -> Json {
    match kind {
        "session.created" => object! {
            agent: agent(random), manifest: random.hex(64), principal: principal(random),
            title: random.one_in(2).then(|| sentence(random)),
            labels: random.one_in(3).then(|| object! { team: word(random), environment: "production" }),
            parent: random.one_in(4).then(|| object! { session: random.ulid(), call: random.ulid() }),
            lane: random.pick(&["direct", "direct", "managed"]),
        },
        "session.updated" => object! { title: sentence(random), labels: object! { team: word(random) } },
        "session.resumed" => object! { reason: reason(random), owner: random.ulid() },
        "branch.forked" => {
            object! { from: "main", at: 1 + random.below(500), name: ident(random).replace('_', "-") }
        }
        "branch.merged" => object! {
            from: word(random), at: 1 + random.below(500), tree: random.hex(64), conflicts: vec![path(random)],
        },
        _ => object! { reason: reason(random) },
    }
}

fn run(kind: &str, random: &mut Random) -> Json {
    match kind {
        "user.message" => object! {
            content: user_content(random),
            runtime: object! { time: time(random), timezone: random.pick(&["Europe/Berlin", "UTC", "America/New_York"]) },
        },
        "external.signal" => object! {
            name: format!("{}.{}", word(random), random.pick(&["created", "updated", "closed", "failed"])),
            data: record(random),
        },
        "run.started" => object! {
            run: random.ulid(), trigger: random.pick(&["message", "signal", "loop", "resume"]), lane: "direct",
        },
        "iteration.started" => object! { n: 1 + random.below(20) },
        "model.requested" => model_requested(random),
        "model.failed" => object! {
            class: class(random), attempt: 1 + random.below(4), delay_ms: random.below(30_000), message: sentence(random),
        },
        "text.delta" => text_delta(random),
        "assistant.message" => assistant_message(random),
        "state.patched" => {
            object! { patch: (0..1 + random.below(4)).map(|_| patch(random)).collect::<Vec<_>>() }
        }
        "context.compacted" => object! {
            through: 20 + random.below(900), summary: text(random, 7), tokens_before: 100_000 + random.below(90_000),
            tokens_after: 2_000 + random.below(9_000), files: vec![path(random), path(random)],
            failures: vec![sentence(random)], model: Wire::any(random).model(random),
        },
        "run.finished" => object! {
            stop: random.pick(&["end", "end", "end", "max_tokens", "iterations", "budget", "approval"]),
            answer: { let sentences = 1 + random.below(4); text(random, sentences) }, usage: usage(random), cost: random.below(90_000_000),
        },
        "run.errored" => object! { class: class(random), message: sentence(random) },
        "run.parked" => {
            object! { why: random.pick(&["approval", "budget", "iterations", "three crashes in one iteration"]) }
        }
        _ => object! {},
    }
}

fn model_requested(random: &mut Random) -> Json {
    let (from, to) = (1 + random.below(40), 41 + random.below(400));
    object! {
        model: Wire::any(random).model(random), attempt: 1 + random.below(2), prompt: random.hex(64), tools: random.hex(64),
        window: vec![vec![1, 1], vec![from, to]],
        params: object! { max_tokens: 4096_usize, temperature: random.below(2), stream: true },
        request_hash: random.hex(64),
        reserve: object! { scope: scope(random), nano: 1_000_000 + random.below(90_000_000) },
    }
}

fn text_delta(random: &mut Random) -> Json {
    let channel = random.pick(&["text", "text", "text", "thinking", "tool_input"]);
    let sentences = 1 + random.below(2);
    let delta =
        if channel == "tool_input" { tool_call(random).1.to_string() } else { text(random, sentences) };
    object! { channel: channel, block: random.below(3), attempt: 1_usize, offset: random.below(4_000), delta: delta }
}

fn assistant_message(random: &mut Random) -> Json {
    let wire = Wire::any(random);
    let (content, stop) = wire.message(random);
    object! {
        content: content, stop: stop, usage: usage(random), cost: 100_000 + random.below(90_000_000),
        model: wire.model(random), provider_id: wire.message_id(random),
    }
}

fn patch(random: &mut Random) -> Json {
    let op = random.pick(&["add", "replace", "replace", "remove"]);
    let value = match random.below(3) {
        0 => Json::from(random.below(1_000)),
        1 => Json::from(sentence(random)),
        _ => object! { id: random.below(1_000), status: "open", title: sentence(random) },
    };
    object! { op: op, path: format!("/{}/{}", word(random), ident(random)), value: (op != "remove").then_some(value) }
}

/// A tool's name and its input.
pub(super) fn tool_call(random: &mut Random) -> (String, Json) {
    let (tool, input) = match random.below(12) {
        0 => ("fs_read", object! { path: path(random), offset: random.below(400), limit: 200_usize }),
        1 => (
            "fs_list",
            object! { path: random.pick(&[".", "src", "docs", "tests"]), recursive: random.one_in(2) },
        ),
        2 => (
            "fs_search",
            object! { pattern: ident(random), path: "src", glob: random.pick(&["*.rs", "**/*.ts", "*.md"]) },
        ),
        3 => ("edit_write", object! { path: path(random), content: fragment(random) }),
        4 => ("edit_replace", object! { path: path(random), old: sentence(random), new: sentence(random) }),
        5 => ("bash", object! { command: command(random), timeout_ms: 120_000_usize }),
        6 => (
            "http",
            object! {
                method: random.pick(&["GET", "POST"]), url: format!("https://api.example.com/v1/{}s/{}", word(random), random.below(9_000)),
                headers: object! { accept: "application/json" },
            },
        ),
        7 => (
            "memory_store",
            object! { title: sentence(random), content: text(random, 3), tags: vec![word(random), word(random)] },
        ),
        8 => ("memory_search", object! { query: sentence(random), limit: 10_usize }),
        9 => (
            "search_issues",
            object! { query: format!("is:open label:{}", word(random)), page: 1_usize, per_page: 30_usize },
        ),
        10 => ("send_message", object! { channel: format!("#{}", word(random)), text: text(random, 2) }),
        _ => (
            "run_query",
            object! { sql: format!("SELECT * FROM {} WHERE id = {} LIMIT 10", ident(random), random.below(900)) },
        ),
    };
    (tool.to_owned(), input)
}

fn command(random: &mut Random) -> String {
    let template = random.pick(&[
        "cargo test -p %word% -- --nocapture 2>&1 | tail -20",
        "git status --short && git diff --stat",
        "ls -la src/%word%",
        "grep -rn \"%ident%\" src --include='*.rs' | head -50",
        "python -m pytest tests/test_%ident%.py -q",
        "npm run build",
        "curl -s http://localhost:8080/health",
        "cat %word%.json | jq '.items[] | .name'",
        "find . -name '*.md' | sort | head",
        "sed -n '%hour%,%number%p' src/%ident%.rs",
    ]);
    fill(template, random)
}

fn tool(kind: &str, random: &mut Random) -> Json {
    let call = random.ulid();
    match kind {
        "tool.requested" => {
            let (tool, input) = tool_call(random);
            object! {
                call: call, provider_id: format!("toolu_01{}", random.hex(22)), tool: tool,
                source: random.pick(&["builtin", "builtin", "mcp://github", "tools/lookup", "weir://researcher"]), input: input,
                effect: random.pick(&["read", "read", "idempotent", "write"]), risk: random.pick(&["low", "medium", "high"]),
            }
        }
        "tool.decided" => object! {
            call: call, outcome: random.pick(&["allow", "allow", "allow", "deny", "require_approval"]),
            rule: random.one_in(2).then(|| random.pick(&["ask-first", "no-shell", "read-only", "default-allow"])),
            because: sentence(random), stub: random.one_in(3),
        },
        "tool.started" => object! {
            call: call, attempt: 1_usize, key: random.ulid(), input_hash: random.hex(64),
            child: random.one_in(6).then(|| random.ulid()),
        },
        "tool.completed" => object! {
            call: call, content: tool_result(random), changed_files: random.one_in(5).then(|| vec![path(random)]), stub: false,
        },
        "tool.failed" => object! {
            call: call, class: random.pick(&["failed", "timeout", "invalid_arguments", "not_found", "denied"]),
            message: sentence(random), outcome: random.pick(&["failed", "unknown", "interrupted", "denied"]),
        },
        "approval.requested" => object! {
            call: call, input_hash: random.hex(64), rule: "ask-first", expires: random.one_in(2).then(|| time(random)),
        },
        "approval.granted" => object! {
            call: call, by: principal(random), input_hash: random.hex(64), scope: random.pick(&["once", "session", "always"]),
        },
        "approval.denied" => object! { call: call, by: principal(random), message: sentence(random) },
        _ => object! { call: call },
    }
}

fn tool_result(random: &mut Random) -> Vec<Json> {
    let text = match random.below(8) {
        0..4 => fragment(random),
        4 => (0..4 + random.below(12)).map(|_| path(random) + "\n").collect(),
        5 => {
            let items: Vec<Json> = (0..1 + random.below(4)).map(|_| record(random)).collect();
            object! { total: 4 + random.below(90), items: items, next_page: Json::null() }.to_string()
        }
        6 => (0..3 + random.below(6))
            .map(|_| format!("{}:{}: {}\n", path(random), random.below(900), sentence(random)))
            .collect(),
        _ => {
            let sentences = 2 + random.below(6);
            text(random, sentences)
        }
    };
    vec![object! { r#type: "text", text: text }]
}

/// An object as programming interfaces return them.
fn record(random: &mut Random) -> Json {
    object! {
        id: 1_000 + random.below(900_000), name: ident(random), title: random.one_in(2).then(|| sentence(random)),
        status: random.pick(&["open", "closed", "active", "pending", "completed", "failed"]),
        url: format!("https://www.example.com/{}/{}", word(random), random.below(90_000)),
        user: random.one_in(2).then(|| object! { id: random.below(9_000), login: word(random), r#type: "User", email: format!("{}@example.com", word(random)) }),
        labels: random.one_in(2).then(|| vec![word(random), word(random)]), count: random.below(900), enabled: random.one_in(2),
        description: random.one_in(3).then(|| sentence(random)), created_at: time(random), updated_at: time(random),
    }
}

fn file(kind: &str, random: &mut Random) -> Json {
    match kind {
        "memory.stored" => object! {
            doc: format!("memory/{}.md", ident(random)), title: sentence(random), tags: vec![word(random), word(random)],
            hash: random.hex(64),
        },
        "memory.retrieved" => object! {
            query: sentence(random), docs: (0..1 + random.below(4)).map(|_| format!("memory/{}.md", ident(random))).collect::<Vec<_>>(),
        },
        "file.written" => {
            object! { path: path(random), hash: random.hex(64), mode: 420_usize, size: random.below(60_000) }
        }
        "file.deleted" => object! { path: path(random) },
        _ => object! { name: ident(random), tree: random.hex(64) },
    }
}

fn governance(kind: &str, random: &mut Random) -> Json {
    match kind {
        "budget.exceeded" => object! {
            scope: scope(random), limit: 20_000_000_000_usize, spent: 20_000_000_000 + random.below(90_000_000),
        },
        "budget.reserved" | "budget.settled" | "budget.released" => {
            object! { scope: scope(random), call: random.ulid(), nano: 100_000 + random.below(90_000_000) }
        }
        "loop.fired" => object! {
            r#loop: random.pick(&["daily-digest", "nightly-report", "triage"]), scheduled_for: time(random),
            session: random.ulid(),
        },
        "loop.skipped" => object! {
            r#loop: "daily-digest", scheduled_for: time(random), why: random.pick(&["still running", "missed", "disabled"]),
        },
        "loop.finished" => {
            object! { run: random.ulid(), status: random.pick(&["completed", "failed", "timeout"]) }
        }
        _ => object! {
            lane: random.pick(&["direct", "managed"]),
            why: random.pick(&["default lane", "canary 5 %", "allowlist", "kill switch", "delivered rate fell by 5 points"]),
        },
    }
}

/// What other systems append.
fn foreign(kind: &str, random: &mut Random) -> Json {
    match kind {
        "finance.invoice" => object! {
            invoice: format!("INV-{}-{:05}", 2024 + random.below(3), random.below(90_000)), customer: record(random),
            currency: random.pick(&["EUR", "USD", "GBP"]), total: format!("{}.{:02}", random.below(9_000), random.below(100)),
            lines: (0..1 + random.below(3)).map(|_| object! {
                description: sentence(random), quantity: 1 + random.below(20), unit_price: format!("{}.00", random.below(400)),
            }).collect::<Vec<_>>(),
            due_date: date(random), paid: random.one_in(2),
        },
        _ => object! {
            device: format!("{}-{:04}", word(random), random.below(9_999)), timestamp: time(random),
            temperature: format!("{}.{}", random.below(40), random.below(10)), status: random.pick(&["ok", "warning", "error"]),
            values: (0..3 + random.below(9)).map(|_| random.below(1_000)).collect::<Vec<_>>(),
            location: object! { lat: format!("{}.{:04}", random.below(90), random.below(9_999)), lon: format!("{}.{:04}", random.below(180), random.below(9_999)) },
        },
    }
}
