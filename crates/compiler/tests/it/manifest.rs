//! What a project becomes.

use serde_json::json;
use weir_compiler::Mode;
use weir_spec::manifest::{Source, Transport};
use weir_spec::{Access, Manifest};
use weir_types::{Effect, Risk};

use crate::project::{HELPER, Project, server, told};

const TOOL: &str = "import { defineTool } from 'weir';
export default defineTool({
  name: 'lookup_weather',
  description: 'Get the weather',
  parameters: { city: { type: 'string' } },
  execute: async ({ city }: { city: string }) => fetch(`https://example.com/${city}`),
});
";

#[tokio::test]
async fn everything_a_project_has_is_in_its_manifest() {
    let project = Project::new(&[
        (
            "weir.yaml",
            "project: acme\nservice_accounts: [{ name: bot }]\ntool_grants:\n  - tool: tools/lookup-weather\n    grants: [{ principal: \"serviceaccount:bot\", access: read }]\nmcp_credentials:\n  mcp://./servers/notes.sh:\n    \"serviceaccount:bot\": { type: bearer, from: env:NOTES_TOKEN }\nfour_eyes: true\n",
        ),
        (
            "agents/helper/spec.yaml",
            "name: helper\nmodel: scripted/demo\ndescription: Helps.\ntools:\n  - name: get_time\n  - name: fs\n  - name: tools/lookup-weather\n  - server: mcp://./servers/notes.sh\n    access: write\n    env: { TOKEN: file:token }\n  - server: weir://researcher\nskills: [./skills/cite]\nacl: [{ principal: \"group:all\", role: execute }]\n",
        ),
        ("agents/helper/SOUL.md", "Be kind.\n"),
        ("agents/helper/skills/cite/SKILL.md", "---\nname: cite\ndescription: Cites.\n---\nCite.\n"),
        ("agents/researcher/spec.yaml", "name: researcher\nmodel: offline/echo\ndescription: Finds.\n"),
        ("models/demo.yaml", "replies: [{ say: Hello. }]\n"),
        (
            "loops/daily.yaml",
            "name: daily\nschedule: \"0 9 * * *\"\nagent: helper\nrun_as: serviceaccount:bot\ninstruction: Go.\n",
        ),
        ("policies/more.cedar", "permit(principal, action, resource);\n"),
        ("tools/lookup-weather.ts", TOOL),
        ("tools/unused.ts", &TOOL.replace("lookup_weather", "unused")),
        ("token", "not to be seen"),
        (
            "servers/notes.sh",
            &server(
                r#"[{"name":"add.note","description":"Adds","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,"idempotentHint":true,"destructiveHint":false}},{"name":"get_time","inputSchema":{}}]"#,
            ),
        ),
        (
            "tests/first.yaml",
            "agent: helper\nscenarios: [{ name: hello, steps: [{ say: Hi, expect: { answer: Hello } }] }]\n",
        ),
    ]);
    let compiled = project.build(Mode::Online).await;
    assert_eq!(
        told(&compiled),
        [
            "spec::unused-credential weir.yaml:7 `mcp://./servers/notes.sh` is started here and sent no credential"
        ]
    );
    let built = compiled.built.unwrap();
    let manifest = &built.manifest;
    assert_eq!(Manifest::from_bytes(&built.bytes).unwrap(), *manifest);

    let helper = &manifest.agents["helper"];
    let tools: Vec<(&str, &str, Effect, Risk)> = helper
        .tools
        .iter()
        .map(|tool| (tool.name.as_str(), tool.source.as_str(), tool.effect, tool.risk))
        .collect();
    let notes = "mcp://./servers/notes.sh";
    assert_eq!(
        tools,
        [
            ("get_time", "get_time", Effect::Read, Risk::Low),
            ("fs_read", "fs", Effect::Read, Risk::Low),
            ("fs_list", "fs", Effect::Read, Risk::Low),
            ("fs_glob", "fs", Effect::Read, Risk::Low),
            ("fs_search", "fs", Effect::Read, Risk::Low),
            ("lookup_weather", "tools/lookup-weather", Effect::Read, Risk::Low),
            // What providers do not take is `_`, and who comes second is called by its server's name.
            ("add_note", notes, Effect::Write, Risk::High),
            ("notes__get_time", notes, Effect::Write, Risk::High),
            ("researcher", "weir://researcher", Effect::Read, Risk::Low),
        ]
    );
    let remote: Vec<Option<&str>> = helper.tools.iter().map(|tool| tool.remote_name.as_deref()).collect();
    assert_eq!(remote[6..8], [Some("add.note"), Some("get_time")]);
    assert_eq!(helper.identity[0].text, "Be kind.\n");
    assert_eq!(helper.skills, ["agents/helper/skills/cite"]);
    assert_eq!(manifest.skills["agents/helper/skills/cite"].fragments, ["Cite."]);
    assert_eq!(helper.tools[5].parameters.to_value()["required"], json!(["city"]));

    assert_eq!(
        manifest.sources.keys().collect::<Vec<_>>(),
        ["mcp://./servers/notes.sh", "tools/lookup-weather"]
    );
    let Source::Mcp(server) = &manifest.sources[notes] else { panic!("a server") };
    assert_eq!(server.transport, Transport::Stdio(vec!["./servers/notes.sh".to_owned()]));
    assert_eq!(server.tools.keys().collect::<Vec<_>>(), ["add.note", "get_time"]);
    assert_eq!(manifest.scripts.keys().collect::<Vec<_>>(), ["demo"]);
    assert_eq!(manifest.models.keys().collect::<Vec<_>>(), ["offline/echo", "scripted/demo"]);
    assert_eq!(manifest.loops["daily"].agent, "helper");
    assert_eq!(manifest.policies.keys().collect::<Vec<_>>(), ["policies/more.cedar"]);
    assert_eq!((manifest.project.as_deref(), manifest.four_eyes), (Some("acme"), true));
    assert_eq!(manifest.grants["tools/lookup-weather"].values().collect::<Vec<_>>(), [&Access::Read]);
    assert_eq!(compiled.sources.tests.len(), 1);
    // References stay references.
    let text = String::from_utf8(built.bytes).unwrap();
    assert!(
        text.contains("file:token") && text.contains("env:NOTES_TOKEN") && !text.contains("not to be seen")
    );
}

#[tokio::test]
async fn access_is_the_highest_level_an_entry_offers() {
    let tools = r#"[{"name":"look","inputSchema":{}},{"name":"sure","inputSchema":{},"annotations":{"readOnlyHint":true}},{"name":"change","inputSchema":{},"annotations":{"readOnlyHint":false}},{"name":"wipe","inputSchema":{},"annotations":{"destructiveHint":true}},{"name":"meek","inputSchema":{},"annotations":{"readOnlyHint":true,"idempotentHint":true,"destructiveHint":false}}]"#;
    let names = async |entry: &str| {
        let spec = format!(
            "{}tools: [{{ server: \"mcp://./servers/x.sh\", {entry} }}, {{ name: memory }}]\n",
            HELPER.1
        );
        let project = Project::new(&[(HELPER.0, &spec), ("servers/x.sh", &server(tools))]);
        let built = project.build(Mode::Online).await;
        assert_eq!(told(&built), [""; 0]);
        let tools = built.built.unwrap().manifest.agents["helper"].tools.clone();
        tools
            .iter()
            .map(|tool| format!("{} {:?} {:?}", tool.name, tool.effect, tool.risk))
            .collect::<Vec<_>>()
    };
    let memory = ["memory_search Read Low", "memory_related Read Low"];
    // The author's word that it reads is taken, unless the server says otherwise.
    let read = ["look Read Low", "meek Read Low", "sure Read Low"];
    assert_eq!(names("access: read").await, [&read[..], &memory].concat());
    // The server's word that it reads, can be repeated or destroys nothing is not.
    let all = |how: &str| ["change", "look", "meek", "sure", "wipe"].map(|name| format!("{name} {how}"));
    let memory = memory.map(str::to_owned);
    assert_eq!(names("access: write").await, [&all("Write High")[..], &memory].concat());
    assert_eq!(
        names("access: write, effect: idempotent").await,
        [&all("Idempotent High")[..], &memory].concat()
    );
}

#[tokio::test]
async fn servers_are_asked_once_however_many_agents_list_them() {
    let entry = "tools: [{ server: \"mcp://./servers/x.sh\" }]\n";
    let counting =
        server(r#"[{"name":"a","inputSchema":{}}]"#).replacen("#!/bin/sh\n", "#!/bin/sh\necho >> asked\n", 1);
    let spec = |name: &str| format!("name: {name}\nmodel: offline/echo\ndescription: d\n{entry}");
    let project = Project::new(&[
        ("agents/a/spec.yaml", &spec("a")),
        ("agents/b/spec.yaml", &spec("b")),
        ("servers/x.sh", &counting),
    ]);
    let built = project.build_and_save().await.built.unwrap();
    assert_eq!(project.read("asked"), "\n");
    for agent in ["a", "b"] {
        assert_eq!(built.manifest.agents[agent].tools[0].name, "a");
    }
}

#[tokio::test]
async fn hooks_are_in_the_manifest_with_what_they_import() {
    let project = Project::new(&[
        HELPER,
        (
            "weir.yaml",
            "hooks: { pre_append: [{ script: ./hooks/check.ts }], post_append: [{ script: hooks/tell.py }] }\n",
        ),
        (
            "hooks/check.ts",
            "import { fine } from '../lib/fine.ts';\nexport default (event: object) => fine;\n",
        ),
        ("hooks/tell.py", "print()\n"),
        ("lib/fine.ts", "export const fine: boolean = true;\n"),
    ]);
    assert_eq!(
        told(&project.build(Mode::Offline).await),
        ["build::script-text hooks/tell.py:1 `hooks/tell.py` is no script that can be run here"]
    );
    project.write("weir.yaml", "hooks: { pre_append: [{ script: ./hooks/check.ts }] }\n");
    let manifest = project.build_and_save().await.built.unwrap().manifest;
    let Source::Script(script) = &manifest.sources["./hooks/check.ts"] else { panic!("a script") };
    assert_eq!(script.entry, "hooks/check.ts");
    assert_eq!(script.modules.keys().collect::<Vec<_>>(), ["hooks/check.ts", "lib/fine.ts"]);
}

#[test]
fn a_build_can_run_on_any_thread() {
    fn goes_anywhere<T: Send>(_: &T) {}
    let (catalog, options) = (weir_types::Catalog::default(), weir_compiler::Options::check());
    goes_anywhere(&weir_compiler::compile(".".as_ref(), &catalog, &options, &weir_compiler::Nobody, &()));
}
