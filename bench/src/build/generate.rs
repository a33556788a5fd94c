//! Projects of any size, in which everything is a little different from everything else.

use std::fs;
use std::path::Path;

use weir_bench::Error;

/// How much of everything.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) agents: usize,
    pub(crate) loops: usize,
    pub(crate) tools: usize,
}

/// Makes a project that builds.
pub(crate) fn generate(directory: &Path, size: Size) -> Result<(), Error> {
    for sub in ["loops", "tools", "models"] {
        fs::create_dir_all(directory.join(sub))?;
    }
    let accounts: String = (0..size.loops.min(10)).map(|n| format!("  - name: bot-{n}\n")).collect();
    fs::write(directory.join("weir.yaml"), format!("project: large\nservice_accounts:\n{accounts}"))?;
    fs::write(directory.join("models/shared.yaml"), "replies:\n  - say: \"Hello.\"\n")?;
    for n in 0..size.tools {
        fs::write(directory.join(format!("tools/tool-{n}.ts")), tool(n))?;
    }
    for n in 0..size.agents {
        let home = directory.join(format!("agents/agent-{n}"));
        fs::create_dir_all(&home)?;
        fs::write(home.join("spec.yaml"), agent(n, size))?;
        fs::write(home.join("SOUL.md"), format!("You are agent {n}: calm, exact and brief.\n"))?;
    }
    for n in 0..size.loops {
        fs::write(directory.join(format!("loops/loop-{n}.yaml")), timed(n, size))?;
    }
    Ok(())
}

fn agent(n: usize, size: Size) -> String {
    // Agents call the next one, but for the last of each ten: chains, and no cycle.
    let next = (n % 10 != 9 && n + 1 < size.agents)
        .then(|| format!("  - server: weir://agent-{}\n    access: read\n", n + 1));
    let tool = n % size.tools.max(1);
    format!(
        "name: agent-{n}\nmodel: {}\ndescription: |\n  You look after part {n} of the estate. You answer in one sentence, name your sources,\n  \
         and never promise what you cannot keep.\ntools:\n  - name: get_time\n  - name: tools/tool-{tool}\n    access: read\n{}\
         limits: {{ iterations: {}, wall_clock: {}m }}\nacl:\n  - {{ principal: \"group:team-{}\", role: execute }}\n",
        ["scripted/shared", "anthropic/claude-sonnet-4-5", "openai/gpt-4.1", "offline/echo"][n % 4],
        next.unwrap_or_default(),
        n % 20 + 1,
        n % 9 + 1,
        n % 50,
    )
}

fn timed(n: usize, size: Size) -> String {
    format!(
        "name: loop-{n}\nschedule: \"{} {} * * *\"\ntimezone: Europe/Lisbon\nagent: agent-{}\nrun_as: serviceaccount:bot-{}\n\
         instruction: |\n  Look after part {n} and say what has changed.\n",
        n % 60,
        n % 24,
        n % size.agents,
        n % 10,
    )
}

fn tool(n: usize) -> String {
    format!(
        "import {{ defineTool }} from 'weir';\n\ninterface Input {{ part: string; depth?: number }}\n\n\
         const LIMIT: number = {n};\n\nfunction measure(text: string): number {{\n  let sum = 0;\n  for (const character of text) sum += character.charCodeAt(0);\n  return sum % (LIMIT + 1);\n}}\n\n\
         export default defineTool({{\n  name: 'tool_{n}',\n  description: 'Measures part {n} of the estate.',\n  parameters: {{\n    part: {{ type: 'string', description: 'Which part' }},\n  }},\n  \
         execute: async ({{ part }}: Input) => ({{ part, size: measure(part) }}),\n}});\n"
    )
}
