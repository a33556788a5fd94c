//! A manifest with one of everything, for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use weir_types::{Effect, Hash, Json, ModelCard, NanoUsd, OnInterrupt, Risk, SandboxProfile, Wire};

use crate::manifest::{
    Agent, Definition, Limits, Loop, Manifest, McpSource, Module, ScriptTool, Skill, Source, Tool, Transport,
};
use crate::rules::{
    Budget, Condition, Examples, Hook, HookAction, Hooks, Mode, Routing, Rule, Scope, Verdict,
};
use crate::{Access, Concurrency, Credential, CredentialKind, Missed, Principal, Role, SecretRef};

pub(crate) fn principal(text: &str) -> Principal {
    Principal::from_str(text).unwrap()
}

fn tool(name: &str) -> Tool {
    Tool {
        name: name.to_owned(),
        source: name.to_owned(),
        remote_name: None,
        description: String::new(),
        parameters: Json::empty_object(),
        access: Access::Read,
        effect: Effect::Idempotent,
        risk: Risk::Medium,
        on_interrupt: OnInterrupt::Ask,
        approval: None,
        approval_terms: Default::default(),
        hosts: vec!["a.example".to_owned()],
        env: BTreeMap::from([("A".to_owned(), SecretRef::Env("A".to_owned()))]),
        sandbox: SandboxProfile::Files,
        timeout_ms: Some(60_000),
        cpu_ms: Some(5_000),
    }
}

pub(crate) fn rule(id: &str, then: Verdict) -> Rule {
    let when = Condition { tool: Some(id.to_owned()), ..Condition::default() };
    Rule {
        id: id.to_owned(),
        when,
        then,
        why: None,
        mode: Mode::Enforce,
        approval_terms: Default::default(),
        examples: Examples::default(),
    }
}

pub(crate) fn script() -> ScriptTool {
    let module = Module { code: "1".to_owned(), map: None };
    ScriptTool {
        name: "x".to_owned(),
        description: String::new(),
        parameters: Json::empty_object(),
        entry: "tools/x.ts".to_owned(),
        modules: BTreeMap::from([("tools/x.ts".to_owned(), module)]),
    }
}

/// A manifest with one of everything.
pub(crate) fn manifest() -> Manifest {
    let usd = |dollars: u64| NanoUsd(dollars * NanoUsd::PER_USD);
    let agent = Agent {
        model: "acme/fast".to_owned(),
        description: "You help.".to_owned(),
        identity: vec![],
        skills: vec!["./skills/a".to_owned()],
        tools: vec![tool("bash")],
        limits: Limits { usd: Some(usd(1)), tokens: Some(100), ..Limits::default() },
        acl: BTreeMap::from([(principal("user:ada"), Role::Execute)]),
        approvers: BTreeSet::from([principal("user:boss")]),
        region: Some("eu".to_owned()),
    };
    let spec = Loop {
        schedule: "0 9 * * *".to_owned(),
        timezone: "UTC".to_owned(),
        agent: "helper".to_owned(),
        run_as: principal("serviceaccount:bot"),
        instruction: "Look.".to_owned(),
        acl: BTreeMap::from([(principal("user:ada"), Role::Read)]),
        missed: Missed::All,
        concurrency: Concurrency::default(),
        timeout_ms: Some(60_000),
        retries: 1,
    };
    let card = ModelCard {
        wire: Wire::Gemini,
        api_name: None,
        base_url: None,
        key_env: None,
        context_window: 100,
        output_max: 10,
        price: None,
        regions: vec![],
    };
    let definition = Definition { definition: Json::empty_object(), hash: Hash::ZERO };
    let server = McpSource {
        transport: Transport::Http("https://x/".to_owned()),
        tools: BTreeMap::from([("t".to_owned(), definition)]),
    };
    let skill = Skill {
        digest: Hash::ZERO,
        name: "a".to_owned(),
        description: String::new(),
        fragments: vec![],
        tools: vec![],
    };
    let credential = Credential { kind: CredentialKind::Oauth, from: None, header: None };
    Manifest {
        agents: BTreeMap::from([("helper".to_owned(), agent)]),
        models: BTreeMap::from([("acme/fast".to_owned(), card)]),
        loops: BTreeMap::from([("daily".to_owned(), spec)]),
        sources: BTreeMap::from([
            ("mcp://x".to_owned(), Source::Mcp(server)),
            ("tools/x".to_owned(), Source::Script(script())),
        ]),
        skills: BTreeMap::from([("./skills/a".to_owned(), skill)]),
        service_accounts: BTreeSet::from(["bot".to_owned()]),
        groups: Some(BTreeMap::from([("ops".to_owned(), BTreeSet::from([principal("user:ada")]))])),
        grants: BTreeMap::from([(
            "bash".to_owned(),
            BTreeMap::from([(principal("user:ada"), Access::Read)]),
        )]),
        credentials: BTreeMap::from([(
            "mcp://x".to_owned(),
            BTreeMap::from([(principal("user:ada"), credential)]),
        )]),
        rules: vec![rule("a", Verdict::RequireApproval), rule("b", Verdict::Deny)],
        budgets: BTreeMap::from([(Scope::PerDay, Budget { usd: Some(usd(20)), ..Budget::default() })]),
        four_eyes: true,
        hooks: Hooks {
            pre_append: vec![Hook {
                action: HookAction::Run(vec!["x".to_owned()]),
                kinds: vec![],
                timeout_ms: None,
            }],
            post_append: vec![],
        },
        knowledge: BTreeSet::from(["docs".to_owned()]),
        routing: Routing { canary_pct: Some(5), deny: vec![principal("user:ada")], ..Routing::default() },
        policies: BTreeMap::from([("policies/a.cedar".to_owned(), "permit".to_owned())]),
        policy: "permit".to_owned(),
        ..Manifest::default()
    }
}
