//! Tools that are Rust functions given by the caller, and `get_time`.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use weir_journal::now;
use weir_kernel::Tool;
use weir_types::{Effect, Json, OnInterrupt, Risk, ToolDefinition};

use super::{Asked, Decision, Done, Failed, Permit, Tools};

/// What a tool does.
type Work = Arc<dyn Fn(Permit) -> BoxFuture<'static, Result<Done, Failed>> + Send + Sync>;

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
        };
        Self { tool, work: Arc::new(move |permit| work(permit).boxed()) }
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
    fn authorize<'a>(&'a self, asked: Asked<'a>) -> BoxFuture<'a, Decision> {
        let decision = match self.0.get(&asked.call.tool) {
            Some(_) => Decision::allow("the agent lists it"),
            None => Decision::deny(format!("there is no tool `{}`", asked.call.tool)),
        };
        std::future::ready(decision).boxed()
    }

    fn execute(&self, permit: Permit) -> BoxFuture<'static, Result<Done, Failed>> {
        match self.0.get(permit.tool()) {
            Some(function) => (function.work)(permit),
            None => {
                let message = format!("there is no tool `{}`", permit.tool());
                std::future::ready(Err(Failed::new("missing", message))).boxed()
            }
        }
    }
}

/// The time, in UTC.
pub fn get_time() -> Function {
    Function::new("get_time", "The current date and time in UTC (RFC 3339).", |_| async {
        Ok(Done::text(now().to_string()))
    })
}
