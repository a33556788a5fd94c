//! The truth table: what the gate of a real build decides, case by case, against a model that knows nothing of it.

mod cases;
mod model;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use weir_compiler::{Nobody, Options, compile};
use weir_engine::provision;
use weir_journal::{mint_call, mint_session};
use weir_spec::Manifest;
use weir_tools::{Asked, Done, Failed, Live, Net, Sandbox, ServerCall, Servers, Setup, Toolbox};
use weir_types::{Catalog, Json};

use self::cases::{ADMIN, Build, Case, LIVE};

struct NoServers;

impl Servers for NoServers {
    fn call(&self, _: ServerCall) -> BoxFuture<'static, Result<Done, Failed>> {
        async { Err(Failed::new("none", "")) }.boxed()
    }
}

/// Builds a project as `weir build` does.
async fn built(build: &Build) -> Manifest {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in build.files() {
        let place = directory.path().join(path);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(place, text).unwrap();
    }
    let catalog = Catalog::builtin().unwrap();
    let compiled = compile(directory.path(), &catalog, &Options::check(), &Nobody, &()).await;
    let errors: Vec<String> = compiled
        .diagnostics
        .iter()
        .filter(|problem| problem.is_error())
        .map(|problem| format!("{problem} ({})", problem.help))
        .collect();
    assert_eq!(errors, Vec::<String>::new(), "{build:?}");
    compiled.built.unwrap().manifest
}

/// The tools of an agent behind their gate.
fn toolbox(manifest: &Manifest, agent: &str, live: Live) -> Toolbox {
    let setup = Setup {
        gate: provision::gate(manifest, [ADMIN.to_owned()]),
        live,
        for_real: Default::default(),
        servers: Arc::new(NoServers),
        redact: Arc::new(weir_tools::NoSecrets),
        sandbox: Arc::new(Sandbox::default()),
        net: Net::default(),
        deadline: Duration::from_secs(1),
    };
    Toolbox::new(setup, provision::offers(manifest, &manifest.agents[agent]))
}

fn decided(toolbox: &Toolbox, case: &Case) -> model::Expected {
    let input = Json::parse(case.input).unwrap();
    let decision = toolbox.authorize(&Asked {
        call: mint_call(),
        tool: case.tool,
        input: &input,
        session: mint_session(),
        depth: 0,
        agent: case.agent,
        principal: case.principal,
        groups: &[],
        approved_by: case.approved.then_some("user:boss"),
    });
    model::Expected {
        verdict: decision.verdict,
        rule: decision.rule,
        stub: decision.stub,
        observed: decision.saw.observed.into_iter().map(|observed| observed.rule).collect(),
    }
}

#[tokio::test]
async fn every_decision_is_what_the_naive_model_says() {
    let mut count = 0_usize;
    let mut by_rule: BTreeMap<String, usize> = BTreeMap::new();
    for build in cases::builds() {
        let manifest = built(&build).await;
        for agent in cases::AGENTS {
            for live in LIVE {
                let toolbox = toolbox(&manifest, agent, live.live());
                for case in cases::of(agent, *live) {
                    let expected = model::decide(&build, &case);
                    let found = decided(&toolbox, &case);
                    assert_eq!(found, expected, "{case:?}\n{build:#?}\n{}", manifest.policy);
                    let step = expected.rule.unwrap_or_else(|| "access".to_owned());
                    *by_rule.entry(format!("{:?} {step}", expected.verdict)).or_default() += 1;
                    count += 1;
                }
            }
        }
    }
    assert!(count >= 10_000, "only {count} cases");
    // A table in which a rule never decides shows nothing about it.
    for step in
        ["allowlist", "schema", "grant", "no-look", "no-clerk", "shell", "writes", "evil", "limited", "bot"]
    {
        assert!(by_rule.contains_key(&format!("Deny {step}")), "{step} never denies: {by_rule:#?}");
    }
    for rule in ["risky", "careful", "team", "files", "clerk", "approval: always"] {
        assert!(by_rule.contains_key(&format!("Ask {rule}")), "{rule} never asks: {by_rule:#?}");
    }
    assert!(by_rule.contains_key("Allow access") && by_rule.contains_key("Allow scripts"), "{by_rule:#?}");
}
