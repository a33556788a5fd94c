//! Tools that are Rust functions given by the caller, and `get_time`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, TryFutureExt};
use weir_journal::now;
use weir_kernel::Tool;
use weir_tools::{Asked, Decision, Done, Failed, NoResult, Permit};
use weir_types::{Effect, Json, OnInterrupt, Risk, Saw, ToolDefinition, Who};

use super::Tools;

/// How long a function may take; another agent has limits of its own.
const DEADLINE: Duration = Duration::from_secs(120);

/// What a tool does.
type Work = Arc<dyn Fn(Permit) -> BoxFuture<'static, Result<Done, NoResult>> + Send + Sync>;

/// A tool that is a Rust function.
#[derive(Clone)]
pub struct Function {
    tool: Tool,
    work: Work,
}

impl Function {
    /// A tool with no arguments that reads; say more about it with [`Function::with`].
    pub fn new<F, A>(name: &str, description: &str, work: F) -> Self
    where
        F: Fn(Permit) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Done, Failed>> + Send + 'static,
    {
        Self::made(name, description, move |permit| work(permit).err_into().boxed())
    }

    fn made(
        name: &str,
        description: &str,
        work: impl Fn(Permit) -> BoxFuture<'static, Result<Done, NoResult>> + Send + Sync + 'static,
    ) -> Self {
        let definition = ToolDefinition {
            name: name.to_owned(),
            description: description.to_owned(),
            schema: Json::of(&serde_json::json!({ "type": "object", "properties": {} })),
        };
        let tool = Tool {
            definition,
            source: "builtin".to_owned(),
            effect: Effect::Read,
            risk: Risk::Low,
            on_interrupt: OnInterrupt::Report,
            agent: None,
            approval: Default::default(),
        };
        Self { tool, work: Arc::new(work) }
    }

    /// Another agent, by its name.
    pub fn agent(name: &str) -> Self {
        let attend = |permit: Permit| {
            let started = permit.into_started();
            async move {
                match started.child {
                    Some(child) => started.world.agents.attend(child).await,
                    None => Err(Failed::new("child", "no session was begun for it").into()),
                }
            }
            .boxed()
        };
        Self::made(name, "Another agent.", attend).with(|tool| {
            tool.source = format!("weir://{name}");
            tool.effect = Effect::Write;
            tool.agent = Some(name.to_owned());
        })
    }

    /// Says more about it.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Tool)) -> Self {
        change(&mut self.tool);
        self
    }
}

/// A set of functions. Whatever an agent lists, and only that, may run.
#[derive(Clone, Default)]
pub struct Functions(BTreeMap<String, Function>);

impl Functions {
    /// These functions.
    pub fn new(functions: impl IntoIterator<Item = Function>) -> Self {
        let named = functions.into_iter().map(|function| (function.tool.definition.name.clone(), function));
        Self(named.collect())
    }

    /// Those with these names.
    #[must_use]
    pub fn only(&self, names: &[&str]) -> Self {
        let named = self.0.iter().filter(|(name, _)| names.contains(&name.as_str()));
        Self(named.map(|(name, function)| (name.clone(), function.clone())).collect())
    }

    /// A tool, as an agent has it.
    pub fn tool(&self, name: &str) -> Option<Tool> {
        self.0.get(name).map(|function| function.tool.clone())
    }

    /// All tools, as an agent has them.
    pub fn tools(&self) -> Vec<Tool> {
        self.0.values().map(|function| function.tool.clone()).collect()
    }
}

impl Tools for Functions {
    fn admit(&self, _who: Who<'_>, _agent: &str) -> Decision {
        Decision::allow("functions are given by the program that runs them")
    }

    fn authorize(&self, asked: &Asked<'_>) -> Decision {
        let decision = match self.0.get(asked.tool) {
            Some(_) => Decision::allow("the agent lists it"),
            None => Decision::deny(format!("there is no tool `{}`", asked.tool)),
        };
        let (principal, approved_by) = (asked.principal.to_owned(), asked.approved_by.map(str::to_owned));
        Decision { saw: Saw { principal, approved_by, ..Saw::default() }, ..decision }
    }

    fn execute(&self, permit: Permit) -> BoxFuture<'static, Result<Done, NoResult>> {
        let tool = permit.started().tool.clone();
        let Some(function) = self.0.get(&tool) else {
            let message = format!("there is no tool `{tool}`");
            return std::future::ready(Err(Failed::new("missing", message).into())).boxed();
        };
        let work = (function.work)(permit);
        if function.tool.agent.is_some() {
            return work;
        }
        let effect = function.tool.effect;
        let work = tokio::time::timeout(DEADLINE, work);
        async move { work.await.unwrap_or_else(|_| Err(Failed::late(effect, DEADLINE).into())) }.boxed()
    }
}

/// The time, in UTC.
pub fn get_time() -> Function {
    Function::new("get_time", "The current date and time in UTC (RFC 3339).", |_| async {
        Ok(Done::text(now().to_string()))
    })
}
