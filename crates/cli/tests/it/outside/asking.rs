//! A project whose agent must ask before it rings a bell outside. The bell counts.

use serde_json::{Value, json};

use super::{Project, field, tool};
use crate::weir::Ran;

/// The agent `helper` asks before each ring; `boss` has it ring.
pub(crate) struct Desk {
    pub(crate) project: Project,
}

impl Desk {
    pub(crate) fn new() -> Self {
        let project = Project::new();
        project.server("bell", &[tool("ring")]);
        project.server("eye", &[tool("look")]);
        let grants = "    grants:\n      - { principal: \"user:writer\", access: write }\n";
        let grants = format!("project: desk\ntool_grants:\n  - tool: \"mcp://./servers/bell.py\"\n{grants}");
        project.write("weir.yaml", &grants);
        let ring = |n: Value| json!({"tool": "ring", "input": {"n": n}});
        let replies = json!([
            {"when": {"user": "^ring twice"}, "say": "May I?", "call": [ring(json!(1)), ring(json!(2))]},
            {"when": {"user": "^ring and look"}, "call": [ring(json!(1)), {"tool": "look", "input": {"n": 9}}]},
            {"when": {"user": "^ring"}, "say": "May I?", "call": [ring(json!(1))]},
            {"when": {"tool": "ring"}, "say": "It said: {{result}}"},
            {"when": {"tool": "look"}, "say": "It said: {{result}}"},
            {"say": "Hello."},
        ]);
        let acl = "acl:\n  - { principal: \"user:writer\", role: execute }\n";
        project.agent(
            "helper",
            &format!(
                "tools:\n  - {{ server: \"mcp://./servers/bell.py\", access: write, approval: always }}\n  \
                 - {{ server: \"mcp://./servers/eye.py\", access: read }}\n{acl}"
            ),
            &replies,
        );
        let replies = json!([
            {"when": {"user": "^ring"}, "call": [{"tool": "helper", "input": {"message": "ring"}}]},
            {"when": {"tool": "helper"}, "say": "The helper: {{result}}"},
        ]);
        project.agent("boss", "tools:\n  - { server: \"weir://helper\" }\n", &replies);
        project.build();
        project.touched("bell");
        Self { project }
    }

    /// Says something to an agent that must ask, and returns the session and the calls.
    pub(crate) fn ask(&self, agent: &str, words: &str, more: &[&str]) -> (String, Vec<String>) {
        let asked = self.project.run(&[&["chat", agent, "-m", words, "--json"], more].concat());
        assert_eq!(asked.code, 5, "{asked}");
        let told: Value = serde_json::from_str(&asked.stdout).unwrap();
        let calls = told["approvals"].as_array().unwrap().iter().map(|approval| field(approval, "id"));
        (field(&told, "session"), calls.collect())
    }

    /// What rang since the last look.
    pub(crate) fn rings(&self) -> usize {
        self.project.touched("bell").iter().filter(|touched| *touched == "ring").count()
    }

    /// A run as a snapshot.
    pub(crate) fn show(&self, args: &[&str]) -> String {
        self.mask(&self.project.run(args))
    }

    pub(crate) fn mask(&self, ran: &Ran) -> String {
        self.project.weir.mask(&without_why(&ran.to_string()))
    }
}

/// Text without the words in which the gate says why it asks.
pub(crate) fn without_why(text: &str) -> String {
    let why = regex::Regex::new(r#"requires approval: [^"\n]*"#).unwrap();
    why.replace_all(text, "requires approval: [why]").into_owned()
}
