//! What the server says about itself, held against what it does, by schemathesis: requests made of the OpenAPI document, sensible
//! ones and others, and every answer checked against it. Seeded, and bounded in number and in time.

use std::process::Command;

use super::clients::{run, tools};
use crate::kit::Project;

/// The same requests every time.
const SEED: &str = "7";

/// Requests for each operation, besides the several hundred that cover the document.
const EXAMPLES: &str = "15";

/// All checks but these. `ignored_auth`: a server on loopback asks nobody for a token. `positive_data_acceptance`: sensible requests
/// about sessions that are not there are a 404, and rightly.
const NOT_CHECKED: &str = "ignored_auth,positive_data_acceptance";

#[tokio::test]
async fn the_server_does_what_it_says() {
    let project = Project::new();
    let server = project.serve().start().await;
    let schema = server.url("/openapi.json");
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(tools().join("python/bin/schemathesis"));
    command.current_dir(directory.path()).args(["run", &schema, "--seed", SEED, "--max-examples", EXAMPLES]);
    // `stateful` follows links between operations, and the document has none.
    command.args(["--phases", "examples,coverage,fuzzing", "--no-shrink", "--continue-on-failure"]);
    command.args(["--checks", "all", "--exclude-checks", NOT_CHECKED, "--warnings", "off"]);
    // It never ends, so nobody can look at all of it; the tests of streams do.
    command.args(["--exclude-path", "/sessions/{id}/events/stream"]);
    command.args(["--request-timeout", "30", "--output-truncate", "true"]);
    let (code, stdout, stderr) = tokio::task::spawn_blocking(move || run(&mut command)).await.unwrap();
    assert_eq!(code, Some(0), "{stdout}\n{stderr}");
    assert!(stdout.contains("No issues found") || stdout.contains("passed"), "{stdout}");
    // It lives, and nothing went wrong inside.
    assert_eq!(server.get("/health").await.ok()["status"], "ok");
    let errors: Vec<_> = server.log().into_iter().filter(|line| line["level"] == "ERROR").collect();
    assert!(errors.is_empty(), "{errors:?}");
}
