//! `weir config show`: what is in force, where each value comes from, and no secret.

use serde_json::Value;

use crate::outside::Project;

const SECRETS: [(&str, &str); 4] = [
    ("ANTHROPIC_API_KEY", "sk-hidden-1"),
    ("WEIR_AUTH_JWT_SECRET", "hidden-2-and-long-enough-for-a-secret"),
    ("WEIR_BRIDGE_SECRET", "hidden-3-and-long-enough-for-a-secret"),
    ("WEIR_AUTH_JWKS", "https://user:hidden-4@keys.example.com/jwks?token=hidden-5"),
];

fn project() -> Project {
    let project = Project::new();
    project.write("weir.yaml", "project: p\n");
    project
}

fn show(project: &Project, args: &[&str], variables: &[(&str, &str)]) -> (Value, String) {
    let run = |args: &[&str]| {
        let mut command = project.command(args);
        command.env_remove("WEIR_DATA_DIR").env_remove("WEIR_PROJECT").envs(variables.iter().copied());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let args = [&["config", "show"], args].concat();
    let document = run(&[&args[..], &["--json"]].concat());
    (serde_json::from_str(&document).unwrap(), run(&args))
}

fn setting(document: &Value, name: &str) -> (Option<String>, String) {
    let mut settings = document["settings"].as_array().unwrap().iter();
    let found = settings.find(|setting| setting["name"] == name).unwrap_or_else(|| panic!("no {name}"));
    (found["value"].as_str().map(str::to_owned), found["from"].as_str().unwrap().to_owned())
}

#[test]
fn every_value_says_where_it_comes_from() {
    let project = project();
    let root = project.weir.path().canonicalize().unwrap();
    let at = |name: &str| Some(root.join(name).to_str().unwrap().to_owned());
    let (told, shown) = show(&project, &[], &[]);
    assert_eq!(
        setting(&told, "project"),
        (at("").map(|path| path.trim_end_matches('/').to_owned()), "the current directory".to_owned())
    );
    assert_eq!(setting(&told, "data-dir"), (at(".weir"), "the project".to_owned()));
    assert_eq!(setting(&told, "journal"), (at(".weir/journal.db"), "does not exist yet".to_owned()));
    assert_eq!(setting(&told, "serve --port"), (Some("8080".to_owned()), "default".to_owned()));
    assert_eq!(setting(&told, "serve --allow-host"), (None, "default".to_owned()));
    assert!(shown.contains("the current directory") && shown.contains("8080"), "{shown}");
    assert!(!root.join(".weir").exists(), "looking makes nothing");

    let variables = [("WEIR_DATA_DIR", "elsewhere"), ("PORT", "9000"), ("WEIR_MAX_CONNECTIONS", "7")];
    let (told, _) = show(&project, &[], &variables);
    assert_eq!(setting(&told, "data-dir"), (at("elsewhere"), "WEIR_DATA_DIR".to_owned()));
    assert_eq!(setting(&told, "serve --port"), (Some("9000".to_owned()), "PORT".to_owned()));
    assert_eq!(setting(&told, "serve --max-connections").1, "WEIR_MAX_CONNECTIONS");
    // A flag is stronger than a variable.
    let (told, _) = show(&project, &["--data-dir", "third", "--color", "never"], &variables);
    assert_eq!(setting(&told, "data-dir"), (at("third"), "--data-dir".to_owned()));
    assert_eq!(setting(&told, "color"), (Some("never".to_owned()), "--color".to_owned()));
}

#[test]
fn no_secret_is_shown() {
    let (told, shown) = show(&project(), &[], &SECRETS);
    for text in [told.to_string(), shown] {
        assert!(!text.contains("hidden"), "{text}");
    }
    assert_eq!(setting(&told, "serve --auth-jwks"), (Some("(set)".to_owned()), "WEIR_AUTH_JWKS".to_owned()));
    let variables = told["variables"].as_array().unwrap();
    let is_set = |name: &str| {
        variables.iter().find(|variable| variable["name"] == name).map(|variable| variable["set"].clone())
    };
    assert_eq!(is_set("ANTHROPIC_API_KEY"), Some(true.into()));
    assert_eq!(is_set("WEIR_BRIDGE_SECRET"), Some(true.into()));
    assert_eq!(is_set("XAI_API_KEY"), Some(false.into()));
    assert_eq!(is_set("TRACE_BACKEND"), None, "what is not used is only named if it is set");
}
