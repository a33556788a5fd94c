//! What becomes of scripts that are right; those that are wrong are among the goldens.

use serde_json::{Value, json};

use super::*;

const WEATHER: &str = "import { defineTool } from '@lush-agents/runtime';
import type { City } from './types';
import { round } from '../lib/numbers.js';

export default defineTool({
  name: 'lookup_weather',
  description: 'Get current weather ' + `for a city`,
  parameters: { city: { type: 'string', description: 'City name' }, days: { type: 'integer', default: 1 } },
  execute: async ({ city }: City): Promise<number> => {
    const res = await fetch(`https://wttr.in/${city}?format=j1`);
    return round((await res.json()) as number);
  },
});
";

const NUMBERS: &str = "export enum Step { One = 1 }
export const round = (n: number): number => Math.round(n / Step.One);
";

/// The tool of a project with these files, and what is wrong with it.
fn tool(files: &[(&str, &str)]) -> (Option<ScriptTool>, Vec<String>) {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let place = directory.path().join(path);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(place, text).unwrap();
    }
    let mut tree = Tree::read(directory.path());
    let mut problems = Vec::new();
    let tool = read(&mut tree, &[], &mut problems).tools.into_values().next();
    (tool, problems.iter().map(|each| format!("{} {each}", each.code)).collect())
}

#[test]
fn a_tool_is_put_together_with_what_it_imports() {
    let (tool, problems) = tool(&[("tools/lookup-weather.ts", WEATHER), ("lib/numbers.ts", NUMBERS)]);
    assert_eq!(problems, [""; 0]);
    let tool = tool.unwrap();
    assert_eq!((tool.name.as_str(), tool.entry.as_str()), ("lookup_weather", "tools/lookup-weather.ts"));
    assert_eq!(tool.description, "Get current weather for a city");
    assert_eq!(
        tool.parameters.to_value(),
        json!({
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "City name"},
                "days": {"type": "integer", "default": 1},
            },
            "required": ["city"],
            "additionalProperties": false,
        })
    );
    let paths: Vec<&str> = tool.modules.keys().map(String::as_str).collect();
    assert_eq!(paths, ["lib/numbers.ts", "tools/lookup-weather.ts"]);

    let main = &tool.modules["tools/lookup-weather.ts"];
    assert_eq!(
        main.code,
        "import { defineTool } from \"weir\";
import { round } from \"lib/numbers.ts\";
export default defineTool({
\tname: \"lookup_weather\",
\tdescription: \"Get current weather \" + `for a city`,
\tparameters: {
\t\tcity: {
\t\t\ttype: \"string\",
\t\t\tdescription: \"City name\"
\t\t},
\t\tdays: {
\t\t\ttype: \"integer\",
\t\t\tdefault: 1
\t\t}
\t},
\texecute: async ({ city }) => {
\t\tconst res = await fetch(`https://wttr.in/${city}?format=j1`);
\t\treturn round(await res.json());
\t}
});
"
    );
    let map: Value = serde_json::from_str(main.map.as_ref().unwrap()).unwrap();
    assert_eq!((&map["version"], &map["sources"]), (&json!(3), &json!(["tools/lookup-weather.ts"])));
    assert_eq!(map.get("sourcesContent"), None);
    assert!(!map["mappings"].as_str().unwrap().is_empty());
}

#[test]
fn a_schema_is_taken_as_it_is_and_names_come_from_the_file() {
    let script = "import { defineTool as tool } from 'weir';
        async function execute() { return 1; }
        export default tool({
          description: 'd',
          parameters: { type: 'object', properties: { 'a-b': { type: ['string', 'null'] }, n: { minimum: -0.5 } }, required: ['a-b'] } as const,
          execute,
        });";
    let (found, problems) = tool(&[("tools/count_words.ts", script)]);
    assert_eq!(problems, [""; 0]);
    let found = found.unwrap();
    assert_eq!(found.name, "count_words");
    assert_eq!(
        found.parameters.to_value(),
        json!({"type": "object", "properties": {"a-b": {"type": ["string", "null"]}, "n": {"minimum": -0.5}}, "required": ["a-b"]})
    );
}

#[test]
fn modules_that_import_each_other_are_read_once() {
    let tool_text = "import { defineTool } from 'weir'; import { b } from './lib/b';
        export default defineTool({ description: 'd', execute() { return b; } });";
    let (found, problems) = tool(&[
        ("tools/x.ts", tool_text),
        ("tools/lib/b.ts", "import { c } from './c'; export const b = () => c;"),
        ("tools/lib/c.js", "export * from './b.js'; export const c = 1;"),
    ]);
    assert_eq!(problems, [""; 0]);
    let paths: Vec<String> = found.unwrap().modules.into_keys().collect();
    assert_eq!(paths, ["tools/lib/b.ts", "tools/lib/c.js", "tools/x.ts"]);
}

/// A parser that recurses can be made to fall over by text that nests.
#[test]
fn no_text_brings_the_compiler_down() {
    let problems = |text: &str| tool(&[("tools/x.ts", text)]).1.len();
    for (piece, times) in [
        ("(", 1_000_000),
        ("!", 20_000),
        ("a=>", 20_000),
        ("1+", 20_000),
        ("if(a){}else ", 5_000),
        ("`${", 100),
    ] {
        assert!(problems(&piece.repeat(times)) > 0, "{piece}");
    }
    assert!(problems("\u{feff}export default") > 0);
}
