//! `weir auth`: what is stored is for its owner only, and no output ever has a secret in it.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use insta::assert_snapshot;
use rustix::termios::LocalModes;

use crate::typed::Terminal;
use crate::weir::{Ran, Weir};

/// Planted: it must be in the file, and in no output.
const TOKEN: &str = "planted-token-c41d7e";
const SERVER: &str = "mcp://mail.example.com/mcp";

/// Runs a command that is given the token; neither stream may repeat it.
fn told(weir: &Weir, args: &[&str], stdin: &str) -> Ran {
    let ran = weir.run_with(args, stdin.as_bytes());
    assert!(!ran.stdout.contains(TOKEN) && !ran.stderr.contains(TOKEN), "{args:?}: {ran}");
    ran
}

fn stored(weir: &Weir) -> String {
    std::fs::read_to_string(weir.data().join("credentials.local")).unwrap()
}

#[test]
fn credentials_are_added_listed_and_removed() {
    let weir = Weir::new();
    assert_snapshot!(told(&weir, &["auth", "list"], ""), @r"
    exit 0
    -- stderr
    note: nothing is stored; add a credential with `weir auth add SERVER`
    ");
    assert!(!weir.data().exists());
    assert_snapshot!(told(&weir, &["auth", "add", SERVER], &format!("{TOKEN}\n")), @r"
    exit 0
    -- stdout
    stored bearer for mcp://mail.example.com/mcp, sent for anyone
    ");
    assert_eq!(stored(&weir).matches(TOKEN).count(), 1);
    let mode = std::fs::metadata(weir.data().join("credentials.local")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    assert_snapshot!(told(&weir, &["auth", "add", SERVER, "--type", "oauth", "--json"], TOKEN), @r#"
    exit 0
    -- stdout
    {"version":1,"server":"mcp://mail.example.com/mcp","principal":"*","type":"oauth","replaced":true}
    "#);
    assert_eq!(stored(&weir).matches(TOKEN).count(), 1);
    let of_eng =
        ["auth", "add", SERVER, "--principal", "group:eng", "--header", "X-Key", "--from", "env:KEY"];
    assert_snapshot!(told(&weir, &of_eng, ""), @r"
    exit 0
    -- stdout
    stored header X-Key from env:KEY for mcp://mail.example.com/mcp, sent for group:eng
    ");
    let basic = ["auth", "add", "mcp://other.example.com", "--type", "basic"];
    assert_eq!(told(&weir, &basic, &format!("ada:{TOKEN}")).code, 0);
    assert_snapshot!(told(&weir, &["auth", "list"], ""), @r"
    exit 0
    -- stdout
    SERVER                      PRINCIPAL  TYPE          SECRET
    mcp://mail.example.com/mcp  *          oauth         stored here
    mcp://mail.example.com/mcp  group:eng  header X-Key  env:KEY
    mcp://other.example.com     *          basic         stored here
    ");
    assert_snapshot!(told(&weir, &["auth", "list", "--json"], ""), @r#"
    exit 0
    -- stdout
    {"server":"mcp://mail.example.com/mcp","principal":"*","type":"oauth"}
    {"server":"mcp://mail.example.com/mcp","principal":"group:eng","type":"header","header":"X-Key","from":"env:KEY"}
    {"server":"mcp://other.example.com","principal":"*","type":"basic"}
    "#);
    assert_snapshot!(told(&weir, &["auth", "remove", SERVER], ""), @r"
    exit 0
    -- stdout
    removed the credential of * for mcp://mail.example.com/mcp
    ");
    assert_snapshot!(told(&weir, &["auth", "remove", SERVER], ""), @r"
    exit 1
    -- stderr
    error: nothing is stored for `mcp://mail.example.com/mcp` and `*`
    help: name whose it is: `weir auth remove mcp://mail.example.com/mcp --principal group:eng`
    ");
    assert_snapshot!(told(&weir, &["auth", "remove", SERVER, "--principal", "group:eng", "--json"], ""), @r#"
    exit 0
    -- stdout
    {"version":1,"server":"mcp://mail.example.com/mcp","principal":"group:eng"}
    "#);
    assert_snapshot!(told(&weir, &["auth", "remove", SERVER], ""), @r"
    exit 1
    -- stderr
    error: nothing is stored for `mcp://mail.example.com/mcp` and `*`
    help: `weir auth list` shows what is stored
    ");
    assert_eq!(stored(&weir).matches("\"server\"").count(), 1);
}

#[test]
fn what_cannot_be_a_credential_is_refused_and_not_repeated() {
    let weir = Weir::new();
    let half = format!("half\n{TOKEN}");
    let tab = format!("a\t{TOKEN}");
    let long = TOKEN.repeat(5_000);
    for (args, stdin, expected) in [
        (&["add", "mail.example.com"][..], TOKEN, "cli::server"),
        (&["add", "mcp://"], TOKEN, "cli::server"),
        (&["add", "mcp://npx/pkg"], TOKEN, "cli::server"),
        (&["add", "mcp://./servers/mail.py", "--from", "env:X"], "", "cli::server"),
        (&["add", SERVER, "--principal", "ada"], TOKEN, "cli::principal"),
        (&["add", SERVER, "--header", "X Key"], TOKEN, "cli::header"),
        (&["add", SERVER, "--type", "header"], TOKEN, "cli::header"),
        (&["add", SERVER, "--from", TOKEN], "", "cli::not-a-reference"),
        (&["add", SERVER, TOKEN], "", "cli::secret-argument"),
        (&["add", SERVER], "", "cli::no-secret"),
        (&["add", SERVER], " \n", "cli::no-secret"),
        (&["add", SERVER], &half, "cli::unusable-secret"),
        (&["add", SERVER], &tab, "cli::unusable-secret"),
        (&["add", SERVER], &long, "cli::too-long"),
        (&["add", SERVER, "--type", "basic"], TOKEN, "cli::unusable-secret"),
        (&["add", SERVER, "--type", "token"], TOKEN, "cli::usage"),
        (&["remove", SERVER, "--principal", "ada"], "", "cli::principal"),
    ] {
        let args = [&["auth"], args, &["--json"]].concat();
        let (code, error) = told(&weir, &args, stdin).error();
        assert_eq!(error, expected, "{args:?}");
        assert_eq!(code, 2, "{args:?}");
    }
    assert_eq!(
        told(&weir, &["auth", "remove", SERVER, "--json"], "").error(),
        (1, "cli::no-credential".into())
    );
    // Nothing would ever send it.
    assert_snapshot!(told(&weir, &["auth", "add", "mcp://uvx/mcp-server-mail"], TOKEN), @r#"
    exit 2
    -- stderr
    error: `mcp://uvx/mcp-server-mail` is a program that is started here, and is sent no credential
    help: give it a variable in the agent's spec, as in `env: { TOKEN: "env:NAME" }`; `file:` and `exec:` work there, too
    "#);
    assert!(!weir.data().exists(), "nothing is made for what is refused");
}

#[test]
fn a_file_that_others_can_read_or_that_is_half_written_is_refused() {
    let weir = Weir::new();
    assert_eq!(told(&weir, &["auth", "add", SERVER], TOKEN).code, 0);
    let file = weir.data().join("credentials.local");
    let whole = stored(&weir);
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    assert_snapshot!(weir.mask(&told(&weir, &["auth", "list"], "").to_string()), @r"
    exit 2
    -- stderr
    error: `.weir/credentials.local` holds secrets and is open to others (mode 0644)
    help: close it with `chmod 600 .weir/credentials.local`, and replace the secrets if others may have read them
    ");
    assert_eq!(
        told(&weir, &["auth", "add", SERVER, "--json"], TOKEN).error(),
        (2, "credentials::open-to-others".into())
    );
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let half = &whole[..whole.find(TOKEN).unwrap() + 10];
    std::fs::write(&file, half).unwrap();
    assert_snapshot!(weir.mask(&told(&weir, &["auth", "list"], "").to_string()), @r"
    exit 1
    -- stderr
    error: `.weir/credentials.local` cannot be understood: line 8, column 27
    help: correct that place, or begin anew: `mv .weir/credentials.local .weir/credentials.local.old`, then `weir auth add …`
    ");
    for args in [&["auth", "add", SERVER, "--json"][..], &["auth", "remove", SERVER, "--json"]] {
        assert_eq!(told(&weir, args, TOKEN).error().1, "credentials::malformed");
    }
    assert_eq!(stored(&weir), half, "what cannot be understood is left as it is");
}

#[test]
fn processes_that_add_at_the_same_time_lose_nothing() {
    let weir = Weir::new();
    let children: Vec<_> = (0..12)
        .map(|n| {
            let mut command = weir.command();
            command.args(["auth", "add", SERVER, "--from", "env:X", "--principal", &format!("user:u{n}")]);
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(weir.ok(&["auth", "list", "--json"]).lines().count(), 12);
}

#[test]
fn a_server_that_the_project_does_not_name_is_remarked_upon() {
    let weir = Weir::new();
    weir.write("weir.yaml", "project: mail\n");
    weir.write(
        "agents/helper/spec.yaml",
        &format!("name: helper\nmodel: offline/echo\ntools:\n  - server: {SERVER}\n    access: read\n"),
    );
    let warned = told(&weir, &["auth", "add", "mcp://mial.example.com/mcp"], TOKEN);
    assert_snapshot!(warned, @r"
    exit 0
    -- stdout
    stored bearer for mcp://mial.example.com/mcp, sent for anyone
    -- stderr
    warning: no agent of this project uses `mcp://mial.example.com/mcp` (servers it names: mcp://mail.example.com/mcp)
    ");
    assert_eq!(told(&weir, &["auth", "add", SERVER], TOKEN).stderr, "");
    let unknown = told(&weir, &["auth", "add", "mcp://x.example.com", "--json"], TOKEN);
    assert!(unknown.stdout.contains(r#""in_project":false"#), "{unknown}");
    let known = told(&weir, &["auth", "add", SERVER, "--json"], TOKEN);
    assert!(known.stdout.contains(r#""in_project":true"#), "{known}");
}

#[test]
fn a_file_is_named_from_the_top() {
    let weir = Weir::new();
    let printed = weir.ok(&["auth", "add", SERVER, "--from", "file:secrets/mail"]);
    let path = weir.path().canonicalize().unwrap().join("secrets/mail");
    assert!(printed.contains(&format!("from file:{}", path.display())), "{printed}");
}

#[test]
fn what_is_typed_is_not_shown() {
    let weir = Weir::new();
    let mut command = weir.command();
    command.args(["auth", "add", SERVER]);
    let mut terminal = Terminal::run(command);
    terminal.see("secret for mcp://mail.example.com/mcp (not shown): ");
    terminal.press(&format!("wrong\x15{TOKEN}é\x7f\r"));
    terminal.see("stored bearer for mcp://mail.example.com/mcp, sent for anyone");
    assert!(
        !terminal.drawn().contains("planted") && !terminal.drawn().contains("wrong"),
        "{}",
        terminal.drawn()
    );
    assert_eq!(terminal.end(), Some(0));
    assert!(stored(&weir).contains(&format!("\"{TOKEN}\"")));
}

#[test]
fn ctrl_c_stores_nothing_and_leaves_the_terminal_as_it_was() {
    let weir = Weir::new();
    let mut command = weir.command();
    command.args(["auth", "add", SERVER]);
    let mut terminal = Terminal::run(command);
    let usual = LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
    terminal.see("(not shown): ");
    assert!(!terminal.modes().intersects(usual), "{:?}", terminal.modes());
    terminal.press("half\x03");
    assert_eq!(terminal.ended(), Some(130));
    assert!(terminal.modes().contains(usual), "{:?}", terminal.modes());
    assert!(!weir.data().join("credentials.local").exists());
}
