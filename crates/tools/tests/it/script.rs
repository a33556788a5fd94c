//! Script tools: what they can do, what they cannot, and what is told when they fail.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use weir_tools::{Bundle, Done, Failed, Kind, Module};
use weir_types::Outcome;

use crate::caller::Caller;
use crate::serve::{Reply, Server};

/// Enough for a script that has to be stopped, on a machine that has other things to do.
const SHORT: Duration = Duration::from_millis(700);

/// Enough for one that has to make a request before.
const LONGER: Duration = Duration::from_secs(4);

/// A tool whose `execute` has this body, with the arguments as `input` and what else it is given as `context`.
fn tool(body: &str) -> Kind {
    modules(&[(
        "tools/it.ts",
        &format!(
            "import {{ defineTool }} from 'weir';\nexport default defineTool({{ async execute(input, context) {{\n{body}\n}} }});"
        ),
    )])
}

/// A tool of these modules; the first is its entry.
fn modules(modules: &[(&str, &str)]) -> Kind {
    let entry = modules[0].0.to_owned();
    let module = |code: &str| Module { code: code.to_owned(), map: None };
    let modules = modules.iter().map(|(path, code)| ((*path).to_owned(), module(code)));
    Kind::Script(Arc::new(Bundle { entry, modules: modules.collect() }))
}

/// What the compiler makes of the TypeScript in `tests/trouble`.
fn trouble() -> Kind {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trouble/bundle.json");
    let bundle: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let modules = bundle["modules"].as_object().unwrap().iter().map(|(path, module)| {
        (path.clone(), Module { code: text(&module["code"]), map: Some(text(&module["map"])) })
    });
    Kind::Script(Arc::new(Bundle {
        entry: text(&bundle["entry"]),
        modules: modules.collect::<BTreeMap<_, _>>(),
    }))
}

async fn call(body: &str, input: Value) -> Result<Done, Failed> {
    Caller::default().call(tool(body), &input).await
}

async fn says(body: &str, expected: &str) {
    let done = call(body, json!({})).await.unwrap_or_else(|failed| panic!("{body}: {}", failed.message));
    assert_eq!(done.words(), expected, "{body}");
}

async fn fails(body: &str, class: &str, words: &str) -> Failed {
    let failed = call(body, json!({})).await.map(|done| done.words()).expect_err(body);
    assert_eq!(failed.class, class, "{body}: {}", failed.message);
    assert!(failed.message.contains(words), "{body}: {}", failed.message);
    assert_eq!(failed.outcome, Outcome::Failed, "{body}");
    failed
}

#[tokio::test]
async fn json_goes_in_and_comes_out() {
    let input = json!({"city": "Orléans", "n": [1, 2.5, null, true], "__proto__": {"x": 1}});
    let done = call("return { ...input, tool: context };", input.clone()).await.unwrap();
    let mut expected = input;
    expected["tool"] = json!({"key": "key-of-the-call", "attempt": 3});
    assert_eq!(serde_json::from_str::<Value>(&done.words()).unwrap(), expected);
    says("return 'as it is \\u{1F600}';", "as it is \u{1F600}").await;
    says("return '';", "").await;
    says("return 'half of \\ud83d';", "half of \u{fffd}").await;
    says("return 42;", "42").await;
    says("return null;", "null").await;
    says(
        "return [1, undefined, { a: undefined, b: new Date(0) }];",
        r#"[1,null,{"b":"1970-01-01T00:00:00.000Z"}]"#,
    )
    .await;
    says("", "(no result)").await;
}

#[tokio::test]
async fn what_is_no_json_is_told() {
    fails("return () => 1;", "script", "returned a function").await;
    fails("return 10n;", "script", "is no JSON").await;
    fails("const a = []; a.push(a); return a;", "script", "circular").await;
    fails("return new Map();", "script", "Object.fromEntries").await;
    fails("return Symbol('x');", "script", "returned a symbol").await;
    let other = modules(&[("tools/it.ts", "export const execute = 1;")]);
    let failed = Caller::default().call(other, &json!({})).await.unwrap_err();
    assert!(
        failed.message.starts_with("tools/it.ts: TypeError: the default export is no tool"),
        "{}",
        failed.message
    );
}

#[tokio::test]
async fn modules_are_those_of_the_bundle() {
    let kind = modules(&[
        (
            "tools/it.ts",
            "import { defineTool } from '@lush-agents/runtime';\nimport { b } from './lib/b.js';\nimport c from 'lib/c.ts';\nexport default defineTool({ execute: () => b + c });",
        ),
        ("tools/lib/b.ts", "export const b = await Promise.resolve('b');"),
        ("lib/c.ts", "import { b } from '../tools/lib/b'; export default b + 'c';"),
    ]);
    assert_eq!(Caller::default().call(kind, &json!({})).await.unwrap().words(), "bbc");
    for outside in [
        "./missing",
        "../../etc/passwd",
        "/etc/passwd",
        "node:fs",
        "https://a.example/x.js",
        "data:text/javascript,1",
    ] {
        let kind = modules(&[(
            "tools/it.ts",
            &format!("import '{outside}';\nexport default {{ execute() {{}} }};"),
        )]);
        let failed = Caller::default().call(kind, &json!({})).await.unwrap_err();
        assert!(failed.message.contains("cannot be imported"), "{outside}: {}", failed.message);
        fails(&format!("await import('{outside}');"), "script", "cannot be imported").await;
    }
}

#[tokio::test]
async fn errors_carry_the_line_of_the_typescript() {
    let check = async |how: &str, expected: &str| {
        let time = if how.starts_with("spin") { SHORT } else { Duration::from_secs(60) };
        let caller = Caller::default().within(time);
        let failed = caller.call(trouble(), &json!({"how": how})).await.unwrap_err();
        assert!(failed.message.starts_with(expected), "{how}: {}", failed.message);
        failed
    };
    check("here", "tools/trouble.ts:18:19: RangeError: thrown here").await;
    check("type", "tools/trouble.ts:20:16: TypeError: cannot read property 'field' of undefined").await;
    let there = check("there", "tools/lib/check.ts:8:23: TypeError: not allowed: there").await;
    assert_eq!(there.log, ["thrown at tools/lib/check.ts:8:23, called from tools/trouble.ts:22:24"]);
    check("later", "tools/trouble.ts:25:19: Error: thrown later").await;
    check("reject", "tools/trouble.ts:28:35: Error: rejected").await;
    let fetched =
        check("fetch", "tools/trouble.ts:30:30: TypeError: the host `not.listed.example` is not listed; ")
            .await;
    assert!(!fetched.message.contains("hush"), "{}", fetched.message);
    check("deep", "tools/trouble.ts:40:").await;
    for how in ["spin", "spin-later"] {
        let late = check(how, "tools/trouble.ts: not done after 0.6 s (it was near tools/trouble.ts:3").await;
        assert_eq!(late.class, "timeout");
    }
    let done = Caller::default().call(trouble(), &json!({"how": "not at all"})).await.unwrap();
    assert_eq!(done.words(), "not at all");
}

#[tokio::test]
async fn what_is_thrown_need_not_be_an_error() {
    fails("throw 'just words';", "script", "tools/it.ts: thrown: just words").await;
    fails("throw { code: 7 };", "script", "tools/it.ts: thrown: {\"code\":7}").await;
    fails("throw undefined;", "script", "`undefined` was thrown").await;
    fails(
        "throw new Error('a', { cause: new TypeError('b') });",
        "script",
        "Error: a (because of TypeError: b)",
    )
    .await;
    fails(
        "const e = new Error(); Object.defineProperty(e, 'message', { get() { throw 1; } }); throw e;",
        "script",
        "tools/it.ts:3:",
    )
    .await;
    let long = fails("throw new Error('x'.repeat(1e6));", "script", "Error: xxx").await;
    assert!(long.message.len() < 5000);
}

#[tokio::test]
async fn the_console_is_kept_and_bounded() {
    let done = call("console.log('a', 1, { b: [new Error('c'), null] }); console.warn('w'); console.error(new TypeError('t'));", json!({}))
        .await
        .unwrap();
    assert_eq!(done.log, ["a 1 {b: [Error: c, null]}", "warn: w", "error: TypeError: t"]);
    let failed = fails("console.log('before'); throw new Error('x');", "script", "x").await;
    assert_eq!(failed.log, ["before"]);
    let flood = call(
        "for (let i = 0; i < 1e5; i++) console.log('x'.repeat(100)); const o = {}; o.o = o; console.log(o);",
        json!({}),
    )
    .await
    .unwrap();
    assert_eq!(flood.log.len(), 200);
    assert_eq!(flood.log[199], "(99802 more lines were left out)");
    let long = call("console.log('x'.repeat(1e7)); for (let i = 0; i < 100; i++) console.log('é'.repeat(1e6)); const wide = Array(1000).fill(Array(1000).fill(0)); console.log(wide);", json!({}))
        .await
        .unwrap();
    assert!(long.log.iter().map(String::len).sum::<usize>() < 70 << 10, "{}", long.log.len());
    let circular = call("const o = { a: 1 }; o.o = o; console.log(o, { get x() { throw 1; } });", json!({}))
        .await
        .unwrap();
    assert_eq!(circular.log.len(), 1);
}

#[tokio::test]
async fn what_small_tools_use_is_there() {
    says("return btoa('hé') + atob('aGk') + atob(' aG k= ');", "aOk=hihi").await;
    fails("atob('*')", "script", "InvalidCharacterError").await;
    says("return new TextDecoder().decode(new TextEncoder().encode('é😀'));", "é😀").await;
    says("return new TextDecoder().decode(new Uint8Array([0xef, 0xbb, 0xbf, 65, 255]));", "A\u{fffd}").await;
    fails("new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array([255]))", "script", "no utf-8")
        .await;
    says("const u = new URL('../b?x=1#h', 'https://User@Example.com:443/a/c'); u.searchParams.append('y', 'ä b'); u.port = '8443'; return `${u} ${u.host} ${u.searchParams.get('y')}`;",
        "https://User@example.com:8443/b?x=1&y=%C3%A4+b#h example.com:8443 ä b").await;
    says("return [URL.canParse('x'), new URLSearchParams({ a: '1 2', b: '&' }).toString(), [...new URLSearchParams('?q=%20&r')].length];", r#"[false,"a=1+2&b=%26",2]"#).await;
    fails("new URL('nowhere')", "script", "tools/it.ts:3:5: TypeError: \"nowhere\" is no URL").await;
    says("const a = { d: new Date(5), m: new Map([[1, new Set([2])]]) }; a.self = a; const b = structuredClone(a); return [b !== a, b.self === b, +b.d, [...b.m.get(1)]];", "[true,true,5,[2]]").await;
    says("return /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(crypto.randomUUID()) && crypto.getRandomValues(new Uint8Array(4)).length === 4;", "true").await;
    says("const seen = []; setTimeout((x) => seen.push(x), 2, 'late'); setTimeout(() => seen.push('never'), 1); const t = setTimeout(() => seen.push('cleared'), 0); clearTimeout(t); queueMicrotask(() => seen.push('soon')); await new Promise((r) => setTimeout(r, 3)); return seen;", r#"["soon","never","late"]"#).await;
    says("let n = 0; await new Promise((r) => { const t = setInterval(() => { if (++n === 3) { clearInterval(t); r(); } }, 1); }); return n;", "3").await;
    says("const c = new AbortController(); setTimeout(() => c.abort(), 1); try { await new Promise((_, no) => c.signal.addEventListener('abort', () => no(c.signal.reason))); } catch (e) { return e.name; }", "AbortError").await;
    says("return [1, 3, 2].toSorted().concat([4]).join('-') + [5, 6].slice(1);", "1-2-3-46").await;
}

#[tokio::test]
async fn nothing_of_the_machine_is_there() {
    says("return ['process', 'require', 'Deno', 'Bun', 'std', 'os', 'eval', 'Atomics', 'SharedArrayBuffer', 'host', 'print', 'WebAssembly', 'XMLHttpRequest'].filter((name) => name in globalThis);", "[]").await;
    for code in [
        "Function('return 1')()",
        "new Function('return 1')()",
        "(() => {}).constructor('return 1')()",
        "(async () => {}).constructor('return 1')()",
        "(function* () {}).constructor('return 1')()",
        "(class {}).constructor('return 1')()",
        "Reflect.construct(Object.getPrototypeOf(async function* () {}).constructor, ['return 1'])",
        "fetch.constructor('return 1')()",
        "setTimeout.constructor.constructor('return 1')()",
    ] {
        fails(code, "script", "cannot be run as code").await;
    }
    fails("setTimeout('return 1', 1)", "script", "needs a function").await;
    says("return (() => {}) instanceof Function;", "true").await;
}

#[tokio::test]
async fn each_call_starts_afresh() {
    let spoil = "Object.prototype.spoiled = 1; Array.prototype.map = () => 'spoiled'; JSON.stringify = () => 'spoiled'; globalThis.left = 1; String.prototype.toWellFormed = () => 'x'; return { a: [1].map((x) => x) };";
    assert_eq!(call(spoil, json!({})).await.unwrap().words(), r#"{"a":"spoiled"}"#);
    says(
        "return [({}).spoiled, [1].map((x) => x + 1), typeof left, JSON.stringify(1)];",
        r#"[null,[2],"undefined","1"]"#,
    )
    .await;
    let counting = modules(&[("tools/it.ts", "let n = 0; export default { execute: () => ++n };")]);
    for _ in 0..3 {
        assert_eq!(Caller::default().call(counting.clone(), &json!({})).await.unwrap().words(), "1");
    }
}

/// Each of these would go on for ever.
#[tokio::test]
async fn whatever_runs_on_is_stopped() {
    for body in [
        "while (true);",
        "await null; while (true);",
        "try { while (true); } finally { while (true); }",
        "const f = () => { Promise.resolve().then(f); }; f(); await new Promise(() => {});",
        "for (;;) await null;",
        "const f = () => setTimeout(f, 0); f(); await new Promise(() => {});",
        "setInterval(() => {}, 1); await new Promise(() => {});",
        "await new Promise((r) => setTimeout(r, 1e9));",
        "await new Promise((r) => setTimeout(r, Infinity));",
        "return /^(a+)+$/.test('a'.repeat(40) + 'b');",
        "return 'a'.repeat(40).concat('b').replace(/(a|aa)+$/, '');",
        "[].includes.call({ length: 2 ** 53 - 1 }, 1);",
        "[].indexOf.call({ length: 2 ** 53 - 1 }, 1);",
        "[].forEach.call({ length: 2 ** 53 - 1 }, () => {});",
        "const o = { toJSON() { while (true); } }; return o;",
        "return { get then() { while (true); } };",
        "new Proxy({}, { get() { while (true); } }).x;",
        "Array.from({ *[Symbol.iterator]() { while (true) yield; } }).length = 0; for (const x of (function* () { while (true) yield; })());",
    ] {
        let failed = Caller::default().within(SHORT).call(tool(body), &json!({})).await.expect_err(body);
        let class = failed.class.as_str();
        assert!(
            class == "timeout" || (class == "memory" && body.starts_with("Array.from")),
            "{body}: {class} {}",
            failed.message
        );
        assert_eq!(failed.outcome, Outcome::Failed, "{body}");
    }
    // What the interpreter does not look up from is refused.
    for body in [
        "[].fill.call({ length: 2 ** 53 - 1 }, 1)",
        "Array(2 ** 32 - 1).join('')",
        "[].concat(Array(2 ** 32 - 1))",
        "[].reverse.call({ length: 2 ** 53 - 1 })",
        "`${Array(2 ** 32 - 1)}`",
        "Array(2 ** 32 - 1).sort()",
    ] {
        fails(body, "script", "too long").await;
    }
    // And scripts run as before.
    says("return 1;", "1").await;
}

/// Far more time than any of these needs: only the processor time ends them.
#[tokio::test]
async fn a_script_has_a_limit_of_processor_time_apart_from_its_time() {
    let cpu = Some(Duration::from_millis(200));
    let caller = || Caller { cpu, ..Caller::default().within(Duration::from_secs(3600)) };
    for body in
        ["while (true);", "await null; for (;;) await null;", "return /^(a+)+$/.test('a'.repeat(40) + 'b');"]
    {
        let failed = caller().call(tool(body), &json!({})).await.expect_err(body);
        assert_eq!(
            (failed.class.as_str(), failed.outcome),
            ("limit", Outcome::Failed),
            "{body}: {}",
            failed.message
        );
        assert!(failed.message.contains("stopped after 0.2 s of processor time"), "{}", failed.message);
        assert!(failed.message.contains("`cpu` in the tool's entry"), "{}", failed.message);
    }
    // Waiting uses none.
    let waits = "await new Promise((resolve) => setTimeout(resolve, 400)); return 'waited';";
    assert_eq!(caller().call(tool(waits), &json!({})).await.unwrap().words(), "waited");
}

#[tokio::test]
async fn a_promise_that_cannot_be_settled_ends_at_once() {
    fails("await new Promise(() => {});", "script", "nothing can settle").await;
    let kind = modules(&[("tools/it.ts", "await new Promise(() => {}); export default {};")]);
    let failed = Caller::default().call(kind, &json!({})).await.unwrap_err();
    assert!(failed.message.contains("nothing can settle"), "{}", failed.message);
}

#[tokio::test]
async fn memory_and_stack_have_an_end() {
    for body in [
        "const a = []; for (;;) a.push('x'.repeat(1000) + a.length);",
        "let s = 'x'; for (;;) s += s;",
        "return new Array(1e9).fill(0);",
        "return new Uint8Array(1e9);",
        "const m = new Map(); for (let i = 0; ; i++) m.set(i, { i });",
        "return JSON.parse('[' + '1,'.repeat(3e7) + '1]');",
        "console.log('x'.repeat(6e7)); return 'x'.repeat(6e7) + 'y';",
        "await null; const a = []; for (;;) a.push(new ArrayBuffer(1e6));",
    ] {
        let failed = call(body, json!({})).await.map(|done| done.words().len()).expect_err(body);
        let told = failed.message.as_str();
        assert!(
            failed.class == "memory"
                || told.contains("invalid array length")
                || told.contains("too long")
                || told.contains("invalid string length")
                || told.contains("characters"),
            "{body}: {} {told}",
            failed.class
        );
    }
    says("let a = []; try { for (;;) a.push('x'.repeat(1000) + a.length); } catch { a = null; return 'caught'; }", "caught").await;
    fails("const f = () => f() + 1; return f();", "script", "tools/it.ts:3:").await;
    fails("const deep = JSON.parse('['.repeat(1e5) + ']'.repeat(1e5)); return deep;", "script", "").await;
    fails("let o = {}; for (let i = 0; i < 1e5; i++) o = { o }; return o;", "script", "").await;
    fails("return new RegExp('('.repeat(1e5) + ')'.repeat(1e5));", "script", "").await;
    fails("return 'x'.repeat(9 * 1024 * 1024);", "script", "more than 8388608 characters").await;
    says("return 1;", "1").await;
}

#[tokio::test]
async fn a_cancelled_script_stops() {
    let caller = Caller::default();
    let cancelled = caller.cancelled.clone();
    let work = caller.call(tool("while (true);"), &Value::Null);
    let (failed, ()) = tokio::join!(work, async { cancelled.cancel() });
    assert_eq!(failed.unwrap_err().class, "cancelled");
    let failed = caller.call(tool("return 1;"), &Value::Null).await.unwrap_err();
    assert_eq!(failed.class, "cancelled");
}

/// As many as there are places for, all running on, with much time left: once nobody waits for them, they stop.
#[tokio::test]
async fn what_nobody_waits_for_gives_its_place_back() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let server = Server::start(move |_| {
        let _ = tell.send(());
        Reply::Bytes(crate::serve::reply("200 OK", b""))
    })
    .await;
    let (mut dropped, mut cancelled) = (tokio::task::JoinSet::new(), tokio::task::JoinSet::new());
    let stop = tokio_util::sync::CancellationToken::new();
    let net = weir_tools::net::Net::default();
    for at in 0..32 {
        let kind = tool(&format!("fetch('{}'); while (true);", server.url("/")));
        let net = net.clone();
        let caller = Caller { cancelled: stop.clone(), net, ..Caller::reaching(&[&server.host()]) };
        let caller = caller.within(Duration::from_secs(600));
        let calls = if at % 2 == 0 { &mut dropped } else { &mut cancelled };
        calls.spawn(async move { caller.call(kind, &Value::Null).await.unwrap_err().class });
    }
    for _ in 0..32 {
        told.recv().await.unwrap();
    }
    dropped.abort_all();
    while dropped.join_next().await.is_some() {}
    stop.cancel();
    while let Some(class) = cancelled.join_next().await {
        assert_eq!(class.unwrap(), "cancelled");
    }
    says("return 1;", "1").await;
}

/// More than there are threads for, all of them stuck, and dropped: those after them get their turn.
#[tokio::test]
async fn runaways_do_not_keep_others_out() {
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..40 {
        calls.spawn(async {
            Caller::default().within(SHORT).call(tool("while (true);"), &Value::Null).await.unwrap_err().class
        });
    }
    let waiting = call("return 1;", json!({})).await.unwrap();
    assert_eq!(waiting.words(), "1");
    while let Some(class) = calls.join_next().await {
        assert!(["timeout", "busy"].contains(&class.unwrap().as_str()));
    }
}

#[tokio::test]
async fn fetch_reaches_what_is_listed() {
    let server = Server::start(|request| {
        let (head, body) = match request {
            _ if request.contains(" /json") => (
                "200 OK\r\ncontent-type: application/json\r\nx-a: 1\r\nx-a: 2",
                &b"\xef\xbb\xbf{\"a\": 1}"[..],
            ),
            _ if request.contains(" /bytes") => ("200 OK", &[0, 255, 1][..]),
            _ if request.contains(" /moved") => ("302 Found\r\nlocation: /json", &b""[..]),
            _ => ("418 I'm a teapot", &b"short"[..]),
        };
        Reply::Bytes(crate::serve::reply(head, body))
    })
    .await;
    let caller = Caller::reaching(&[&server.host()]);
    let check = async |body: &str, expected: &str| {
        let body = body.replace("URL:", &server.url(""));
        let done = caller.call(tool(&body), &json!({})).await;
        assert_eq!(
            done.unwrap_or_else(|failed| panic!("{body}: {}", failed.message)).words(),
            expected,
            "{body}"
        );
    };
    check("const r = await fetch('URL:/json'); return [r.status, r.ok, r.statusText, r.headers.get('X-A'), r.redirected, await r.json()];", r#"[200,true,"OK","1, 2",false,{"a":1}]"#).await;
    check(
        "const r = await fetch(new URL('URL:/bytes')); return [...new Uint8Array(await r.arrayBuffer())];",
        "[0,255,1]",
    )
    .await;
    check("const r = await fetch('URL:/moved'); return [r.redirected, r.url.endsWith('/json'), await r.text()];", r#"[true,true,"{\"a\": 1}"]"#).await;
    check("const r = await fetch('URL:/tea', { method: 'post', headers: { 'Content-Type': 'a/b', 'X-B': 'c' }, body: 'sent' }); return [r.ok, await r.text()];", r#"[false,"short"]"#).await;
    check("const all = await Promise.all(Array.from({ length: 30 }, (_, i) => fetch(`URL:/${i}`))); return all.length;", "30").await;
    check("await fetch('URL:/form', { method: 'POST', body: new URLSearchParams({ a: 'b c' }) }); await fetch('URL:/raw', { method: 'PUT', body: new Uint8Array([104, 105]) }); return 'x';", "x").await;
    check("const r = await fetch('URL:/json'); await r.text(); try { await r.text(); } catch (e) { return e.message; }", "the body was read already").await;
    check("try { return await (await fetch('URL:/tea')).json(); } catch (e) { return e.message.includes('\"short\"'); }", "true").await;
    check("const c = new AbortController(); c.abort(); try { await fetch('URL:/never', { signal: c.signal }); } catch (e) { return e.name; }", "AbortError").await;
    let asked = server.asked().join("\n---\n");
    assert!(
        asked.contains("POST /tea HTTP/1.1")
            && asked.contains("content-type: a/b")
            && asked.contains("x-b: c"),
        "{asked}"
    );
    assert!(
        asked.contains("application/x-www-form-urlencoded;charset=UTF-8") && asked.contains("a=b+c"),
        "{asked}"
    );
    assert!(
        asked.contains("PUT /raw") && asked.contains("\r\n\r\nhi") && !asked.contains("/never"),
        "{asked}"
    );
    let returned =
        caller.call(tool(&format!("return fetch('{}');", server.url("/"))), &json!({})).await.unwrap_err();
    assert!(returned.message.contains("await response.json()"), "{}", returned.message);
    let object = format!("await fetch('{}', {{ method: 'POST', body: {{ a: 1 }} }});", server.url("/"));
    let object = caller.call(tool(&object), &json!({})).await.unwrap_err();
    assert!(
        object.message.contains("JSON.stringify") && object.outcome == Outcome::Failed,
        "{}",
        object.message
    );
}

#[tokio::test]
async fn fetch_reaches_nothing_else() {
    let canary = Server::saying("200 OK", "touched").await;
    let url = canary.url("/");
    fails(&format!("await fetch('{url}');"), "script", "tools/it.ts:3:").await;
    fails(&format!("await fetch('{url}', {{ method: 'POST' }});"), "script", "is not listed").await;
    fails("await fetch('file:///etc/passwd');", "script", "is not reached from here").await;
    fails("await fetch('/relative');", "script", "no URL").await;
    let listed = Caller::reaching(&[&canary.host()]);
    let body = format!("await fetch('{url}', {{ headers: {{ Host: 'evil.example' }} }});");
    let failed = listed.call(tool(&body), &json!({})).await.unwrap_err();
    assert!(failed.message.contains("`host` cannot be set"), "{}", failed.message);
    assert_eq!(canary.asked(), [""; 0]);
    // A failure can be caught, and many requests are too many.
    says(&format!("try {{ await fetch('{url}'); }} catch (e) {{ return e instanceof TypeError; }}"), "true")
        .await;
    fails(&format!("for (let i = 0; i < 1000; i++) await fetch('{url}').catch((e) => {{ if (!e.message.includes('listed')) throw e; }});"), "script", "one call can make 256 requests").await;
}

#[tokio::test]
async fn after_a_write_a_failure_is_unknown() {
    let server = Server::saying("200 OK", "done").await;
    let silent = Server::start(|_| Reply::Stall(Vec::new())).await;
    let check = async |body: String, class: &str, outcome: Outcome| {
        let time = if class == "timeout" { LONGER } else { Duration::from_secs(60) };
        let caller = Caller::reaching(&[&server.host(), &silent.host()]).within(time);
        let failed = caller.call(tool(&body), &json!({})).await.unwrap_err();
        assert_eq!((failed.class.as_str(), failed.outcome), (class, outcome), "{body}: {}", failed.message);
    };
    let post = |server: &Server| format!("await fetch('{}', {{ method: 'POST' }});", server.url("/"));
    let get = |server: &Server| format!("await fetch('{}');", server.url("/"));
    check(format!("{} throw new Error('after');", post(&server)), "script", Outcome::Unknown).await;
    check(format!("{} throw new Error('after');", get(&server)), "script", Outcome::Failed).await;
    check(post(&silent), "timeout", Outcome::Unknown).await;
    check(get(&silent), "timeout", Outcome::Failed).await;
    check(format!("{} while (true);", post(&server)), "timeout", Outcome::Unknown).await;
    let refused =
        "try { await fetch('https://evil.example', { method: 'POST' }); } catch {} throw new Error('after');";
    check(refused.to_owned(), "script", Outcome::Failed).await;
}

#[tokio::test]
async fn what_nobody_waited_for_is_dropped_and_told() {
    let silent = Server::start(|_| Reply::Stall(Vec::new())).await;
    let caller = Caller::reaching(&[&silent.host()]);
    let done = caller
        .call(tool(&format!("fetch('{}'); return 'gone';", silent.url("/"))), &json!({}))
        .await
        .unwrap();
    assert_eq!(done.log, ["warn: 1 requests were under way when the tool returned, and were dropped"]);
}
