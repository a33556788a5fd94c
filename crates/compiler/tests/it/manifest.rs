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
            "name: helper\nmodel: scripted/demo\ndescription: Helps.\ntools:\n  - name: get_time\n  - name: fs\n  - { name: tools/lookup-weather, access: read }\n  - server: mcp://./servers/notes.sh\n    access: write\n    env: { TOKEN: file:token }\n  - server: weir://researcher\nskills: [./skills/cite]\nacl: [{ principal: \"group:all\", role: execute }]\n",
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
            "spec::not-yet loops/daily.yaml:1 loops are planned and not in this version: `daily` never fires",
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
            ("add_note", notes, Effect::Write, Risk::Medium),
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

/// Tools that differ in what their server says about them.
const ANNOTATED: &str = r#"[{"name":"look","inputSchema":{}},{"name":"sure","inputSchema":{},"annotations":{"readOnlyHint":true}},{"name":"change","inputSchema":{},"annotations":{"readOnlyHint":false}},{"name":"wipe","inputSchema":{},"annotations":{"destructiveHint":true}},{"name":"add","inputSchema":{},"annotations":{"readOnlyHint":false,"destructiveHint":false}},{"name":"careful","inputSchema":{},"annotations":{"readOnlyHint":true,"requires_confirmation":true}}]"#;

/// The tools that entries make of them, and what is told.
async fn offered(tools: &str, entries: &str) -> (Vec<String>, Vec<String>) {
    let spec = format!("{}tools: [{entries}]\n", HELPER.1);
    let project = Project::new(&[(HELPER.0, &spec), ("servers/x.sh", &server(tools))]);
    let built = project.build(Mode::Online).await;
    let told = told(&built);
    let tools = built.built.map(|built| built.manifest.agents["helper"].tools.clone()).unwrap_or_default();
    let shown = tools.iter().map(|tool| {
        format!("{} {:?} {:?} {:?}", tool.name, tool.access, tool.effect, tool.risk).to_lowercase()
    });
    (shown.collect(), told)
}

#[tokio::test]
async fn access_is_the_highest_level_an_entry_offers() {
    let names = async |entry: &str| {
        let entries = format!("{{ server: \"mcp://./servers/x.sh\", {entry} }}, {{ name: memory }}");
        let (tools, told) = offered(ANNOTATED, &entries).await;
        assert_eq!(told, [""; 0]);
        let memory = ["memory_search read read low", "memory_related read read low"];
        let at = tools.len() - memory.len();
        assert_eq!(tools[at..], memory);
        tools[..at].to_vec()
    };
    // The author's word that it reads is taken, unless the server says otherwise.
    assert_eq!(
        names("access: read").await,
        ["careful read read high", "look read read low", "sure read read low"]
    );
    // A tool is a write unless its server calls it read-only.
    assert_eq!(
        names("access: write").await,
        [
            "add write write medium",
            "careful write read high",
            "change write write high",
            "look write write high",
            "sure write read low",
            "wipe write write high",
        ]
    );
    // With `effect` the author speaks for all of them.
    let all = |how: [&str; 6]| {
        let names = ["add", "careful", "change", "look", "sure", "wipe"].into_iter().zip(how);
        names.map(|(name, how)| format!("{name} {how}")).collect::<Vec<_>>()
    };
    let [medium, high] = ["write idempotent medium", "write idempotent high"];
    assert_eq!(names("access: write, effect: idempotent").await, all([medium, high, high, high, high, high]));
    let [low, medium, high] = ["read read low", "read read medium", "read read high"];
    assert_eq!(names("effect: read").await, all([low, high, low, low, low, medium]));
}

#[tokio::test]
async fn without_access_only_what_a_server_calls_read_only_is_offered() {
    let (tools, told) = offered(ANNOTATED, "{ server: \"mcp://./servers/x.sh\" }").await;
    assert_eq!(tools, ["careful read read high", "sure read read low"]);
    assert_eq!(
        told,
        [
            "build::unknown-access agents/helper/spec.yaml:4 tools of this server are left out, as it does not call them read-only and the entry has no `access`: `look`"
        ]
    );
    let writing = r#"[{"name":"change","inputSchema":{},"annotations":{"readOnlyHint":false}}]"#;
    let (tools, told) = offered(writing, "{ server: \"mcp://./servers/x.sh\" }").await;
    assert_eq!(tools, [""; 0]);
    assert_eq!(told.len(), 1, "{told:?}");
    // A script says nothing about itself.
    let script = TOOL.replace("lookup_weather", "x");
    let check = async |entry: &str, expected: (Access, Effect, Risk), warnings: usize| {
        let spec = format!("{}tools: [{entry}]\n", HELPER.1);
        let project = Project::new(&[(HELPER.0, &spec), ("tools/x.ts", &script)]);
        let compiled = project.build(Mode::Offline).await;
        let warned = compiled.diagnostics.iter().filter(|told| told.code == "build::unknown-access").count();
        assert_eq!((warned, compiled.diagnostics.len()), (warnings, warnings), "{entry}");
        let tool = compiled.built.unwrap().manifest.agents["helper"].tools[0].clone();
        assert_eq!((tool.access, tool.effect, tool.risk), expected, "{entry}");
    };
    check("{ name: tools/x }", (Access::Write, Effect::Write, Risk::High), 1).await;
    check("{ name: tools/x, access: write }", (Access::Write, Effect::Write, Risk::High), 0).await;
    check("{ name: tools/x, access: read }", (Access::Read, Effect::Read, Risk::Low), 0).await;
    check("{ name: tools/x, effect: read }", (Access::Read, Effect::Read, Risk::Low), 0).await;
}

#[tokio::test]
async fn entries_of_one_server_differ_in_all_but_what_belongs_to_the_server() {
    let server = "server: \"mcp://./servers/x.sh\"";
    let (tools, told) = offered(
        ANNOTATED,
        &format!(
            "{{ {server}, access: read, only: [look, sure] }}, {{ {server}, access: write, only: [wipe] }}"
        ),
    )
    .await;
    assert_eq!(told, [""; 0]);
    assert_eq!(tools, ["look read read low", "sure read read low", "wipe write write high"]);
    let (_, told) = offered(
        ANNOTATED,
        &format!(
            "{{ {server}, access: read, only: [look] }}, {{ {server}, access: write, only: [wipe, look] }}"
        ),
    )
    .await;
    assert!(
        told.contains(
            &"spec::duplicate-tool agents/helper/spec.yaml:4 `look` of this server is here twice".to_owned()
        ),
        "{told:?}"
    );
}

#[tokio::test]
async fn times_are_in_the_manifest_only_where_they_are_written() {
    let spec =
        format!("{}tools: [{{ name: bash, access: write, timeout: 10m }}, {{ name: get_time }}]\n", HELPER.1);
    let project = Project::new(&[(HELPER.0, &spec)]);
    let built = project.build(Mode::Offline).await.built.unwrap();
    let tools = &built.manifest.agents["helper"].tools;
    assert_eq!((tools[0].timeout_ms, tools[1].timeout_ms), (Some(600_000), None));
    let text = String::from_utf8(built.bytes).unwrap();
    assert_eq!((text.matches("timeout_ms").count(), text.matches("cpu_ms").count()), (1, 0));
}

#[tokio::test]
async fn servers_are_asked_once_however_many_agents_list_them() {
    let entry = "tools: [{ server: \"mcp://./servers/x.sh\", access: read }]\n";
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
        [
            "build::script-text hooks/tell.py:1 `hooks/tell.py` is no script that can be run here",
            "spec::not-yet weir.yaml:1 `post_append` of `hooks` is planned and not in this version",
        ]
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
