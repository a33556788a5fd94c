//! Which credential is chosen, what is sent, and what becomes of a file that is not as it should be.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;

const SERVER: &str = "mcp://mail.example.com";
const TOKEN: &str = "planted-token-81f2";

fn entry(holder: &str, kind: CredentialKind, given: &str) -> Entry {
    let given = match given.parse() {
        Ok(from) => Given::From(from),
        Err(_) => Given::Secret(Secret::new(given)),
    };
    let header = (kind == CredentialKind::Header).then(|| "X-Api-Key".to_owned());
    Entry { server: SERVER.to_owned(), holder: holder.parse().unwrap(), kind, header, given }
}

/// What weir.yaml says: holder, kind, where from.
type Declared<'a> = &'a [(&'a str, CredentialKind, Option<&'a str>)];

fn credentials(directory: &Path, declared: Declared<'_>, stored: &[Entry]) -> Credentials {
    let file = CredentialFile::within(directory);
    for entry in stored {
        file.put(entry.clone()).unwrap();
    }
    let declared = declared.iter().map(|(holder, kind, from)| {
        let from = from.map(|from| from.parse().unwrap());
        (holder.parse().unwrap(), Credential { kind: *kind, from, header: None })
    });
    let variables = [("MAIL", "from-the-variable"), ("LINES", "a\nb: c"), ("SHORT", "abc")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let places = Places { variables, directory: directory.to_owned() };
    Credentials::new(
        BTreeMap::from([(SERVER.to_owned(), declared.collect())]),
        file,
        places,
        Redactor::default(),
    )
}

async fn sent(credentials: &Credentials, principal: &str) -> Result<Option<(String, String)>, String> {
    let groups = ["group:ops".to_owned(), "group:eng".to_owned()];
    let groups = if principal == "user:ada" { &groups[..] } else { &[] };
    let resolved = credentials.resolve(SERVER, principal, groups).await;
    resolved
        .map(|found| found.map(|found| (found.header, found.value.expose().to_owned())))
        .map_err(|error| error.to_string())
}

#[tokio::test]
async fn the_most_specific_holder_wins_and_the_project_before_the_machine() {
    use CredentialKind::{Basic, Bearer, Header, Oauth};
    let stored = [
        entry("*", Bearer, "anyones-token"),
        entry("group:ops", Bearer, "token-of-ops"),
        entry("group:eng", Bearer, "token-of-eng"),
        entry("user:ada", Bearer, "token-of-ada"),
    ];
    let check =
        async |declared: Declared<'_>, stored: &[Entry], principal: &str, expected: Option<(&str, &str)>| {
            let directory = tempfile::tempdir().unwrap();
            let credentials = credentials(directory.path(), declared, stored);
            let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
            assert_eq!(
                sent(&credentials, principal).await,
                Ok(expected),
                "{declared:?} {} {principal}",
                stored.len()
            );
        };
    let authorization = |value| Some(("authorization", value));
    check(&[], &[], "user:ada", None).await;
    check(&[], &stored[..1], "user:ada", authorization("Bearer anyones-token")).await;
    check(&[], &stored[..2], "user:ada", authorization("Bearer token-of-ops")).await;
    check(&[], &stored[..3], "user:ada", authorization("Bearer token-of-eng")).await;
    check(&[], &stored, "user:ada", authorization("Bearer token-of-ada")).await;
    check(&[], &stored, "user:eve", authorization("Bearer anyones-token")).await;
    check(&[], &stored[1..], "user:eve", None).await;
    // The project says where: that is where it is looked for.
    let of_eng = [("group:eng", Bearer, Some("env:MAIL"))];
    let approved = [&stored[..2], &[entry("group:eng", Bearer, "env:MAIL")]].concat();
    check(&of_eng, &approved, "user:ada", authorization("Bearer from-the-variable")).await;
    check(&of_eng, &approved, "user:eve", authorization("Bearer anyones-token")).await;
    // It says of which kind only: the stored one is sent so.
    check(&[("group:eng", Oauth, None)], &stored, "user:ada", authorization("Bearer token-of-ada")).await;
    check(
        &[("user:ada", Basic, None)],
        &[entry("*", Bearer, "ada:pw")],
        "user:ada",
        authorization("Basic YWRhOnB3"),
    )
    .await;
    check(&[], &[entry("*", Header, TOKEN)], "user:eve", Some(("x-api-key", TOKEN))).await;
    check(&[], &[entry("*", Bearer, "env:MAIL")], "user:eve", authorization("Bearer from-the-variable"))
        .await;
    check(&[], &[entry("*", Bearer, "exec:echo printed")], "user:eve", authorization("Bearer printed")).await;
}

#[tokio::test]
async fn a_program_that_only_the_project_names_is_not_started() {
    let directory = tempfile::tempdir().unwrap();
    let canary = directory.path().join("canary");
    let exec = format!("exec:touch {}", canary.display());
    let declared = [("user:ada", CredentialKind::Bearer, Some(exec.as_str()))];
    let other = [entry("user:ada", CredentialKind::Bearer, "exec:echo other")];
    for stored in [&[][..], &other] {
        let refused = credentials(directory.path(), &declared, stored).resolve(SERVER, "user:ada", &[]).await;
        let refused = refused.unwrap_err();
        assert!(matches!(refused, CredentialError::NotApproved { .. }), "{refused}");
        assert!(refused.help().contains("weir auth add") && refused.help().contains("--from 'exec:touch"));
        assert!(!canary.exists());
    }
    // Stored in the same words, it is: it prints nothing, but it has run.
    let same = [entry("user:ada", CredentialKind::Bearer, &exec)];
    assert!(credentials(directory.path(), &declared, &same).resolve(SERVER, "user:ada", &[]).await.is_err());
    assert!(canary.exists());
}

#[tokio::test]
async fn a_variable_or_a_file_that_only_the_project_names_is_not_sent() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("id_rsa"), TOKEN).unwrap();
    for (from, value) in [("env:MAIL", "from-the-variable"), ("file:id_rsa", TOKEN)] {
        let declared = [("user:ada", CredentialKind::Bearer, Some(from))];
        let other = [entry("user:ada", CredentialKind::Bearer, "env:OTHER")];
        for stored in [&[][..], &other] {
            let credentials = credentials(directory.path(), &declared, stored);
            let refused = credentials.resolve(SERVER, "user:ada", &[]).await.unwrap_err();
            assert_eq!(
                format!("{refused}; {}", refused.help()),
                format!(
                    "the credential of `user:ada` for `{SERVER}` comes from `{from}`, which was never approved on this machine; \
                     approve it with `weir auth add {SERVER} --principal user:ada --from {from}`"
                )
            );
        }
        let same = [entry("user:ada", CredentialKind::Bearer, from)];
        let credentials = credentials(directory.path(), &declared, &same);
        let expected = ("authorization".to_owned(), format!("Bearer {value}"));
        assert_eq!(sent(&credentials, "user:ada").await, Ok(Some(expected)));
    }
}

#[tokio::test]
async fn what_is_declared_and_not_there_is_an_error_that_says_how_to_add_it() {
    use CredentialKind::{Basic, Bearer};
    let explain = async |declared: Declared<'_>, stored: &[Entry]| {
        let directory = tempfile::tempdir().unwrap();
        let credentials = credentials(directory.path(), declared, stored);
        let error = credentials.resolve(SERVER, "user:ada", &["group:eng".to_owned()]).await.unwrap_err();
        format!("{} | {error} | {}", error.code(), error.help())
    };
    assert_eq!(
        explain(&[("group:eng", Bearer, None)], &[]).await,
        "credentials::missing | there is no credential for `mcp://mail.example.com` on behalf of `group:eng` | add it with \
         `weir auth add mcp://mail.example.com --principal group:eng`"
    );
    assert_eq!(
        explain(&[("user:ada", Bearer, Some("env:NOWHERE"))], &[entry("user:ada", Bearer, "env:NOWHERE")])
            .await,
        "credentials::not-found | the credential of `user:ada` for `mcp://mail.example.com` comes from `env:NOWHERE`, but that \
         variable is not set | put it there, or store another with `weir auth add mcp://mail.example.com --principal user:ada`"
    );
    assert_eq!(
        explain(&[], &[entry("*", Bearer, "env:LINES")]).await,
        "credentials::unusable | the credential of `*` for `mcp://mail.example.com` has characters that cannot be sent in a \
         header | store another with `weir auth add mcp://mail.example.com --principal '*'`"
    );
    assert!(explain(&[], &[entry("*", Basic, TOKEN)]).await.contains("is not `user:password`"));
}

#[tokio::test]
async fn a_changed_secret_takes_effect_and_the_redactor_knows_all_of_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    let credentials = credentials(directory.path(), &[], &[entry("*", CredentialKind::Bearer, "file:token")]);
    for token in ["first-token", "second-token"] {
        std::fs::write(&path, token).unwrap();
        assert_eq!(sent(&credentials, "user:eve").await.unwrap().unwrap().1, format!("Bearer {token}"));
    }
    let references = BTreeMap::from([("A".to_owned(), "env:MAIL".parse().unwrap())]);
    let environment = credentials.environment(&references).await.unwrap();
    assert_eq!(environment["A"].expose(), "from-the-variable");
    let told = "Bearer first-token, second-token; from-the-variable";
    assert_eq!(credentials.redactor().redact(told), "[secret], [secret]; [secret]");
    let references = BTreeMap::from([("A".to_owned(), "env:NOWHERE".parse().unwrap())]);
    let error = credentials.environment(&references).await.unwrap_err();
    assert_eq!(error.to_string(), "`A` comes from `env:NOWHERE`, but that variable is not set");
}

#[test]
fn what_is_stored_is_for_its_owner_only_and_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let file = CredentialFile::within(&directory.path().join("deep/.weir"));
    assert_eq!(file.load().unwrap(), []);
    let entries = [
        entry("*", CredentialKind::Header, TOKEN),
        entry("user:ada", CredentialKind::Basic, "env:MAIL"),
        entry("group:eng", CredentialKind::Oauth, "exec:pass show x"),
    ];
    for entry in &entries {
        assert!(!file.put(entry.clone()).unwrap());
    }
    let mut loaded = file.load().unwrap();
    loaded.sort_by_key(|entry| entries.iter().position(|known| known == entry));
    assert_eq!(loaded, entries);
    assert!(!format!("{loaded:?}").contains(TOKEN));
    let mode = std::fs::metadata(file.path()).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode, 0o600);
    assert!(file.put(entry("*", CredentialKind::Bearer, "other")).unwrap());
    assert_eq!(file.load().unwrap().len(), 3);
    assert!(file.remove(SERVER, &Holder::Anyone).unwrap() && !file.remove(SERVER, &Holder::Anyone).unwrap());
    assert_eq!(file.load().unwrap().len(), 2);
    let names =
        std::fs::read_dir(file.path().parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names, ["credentials.local", "credentials.lock"]);
}

#[test]
fn a_file_that_is_not_as_it_should_be_is_refused_and_not_repeated() {
    let directory = tempfile::tempdir().unwrap();
    let file = CredentialFile::within(directory.path());
    file.put(entry("*", CredentialKind::Bearer, TOKEN)).unwrap();
    let good = std::fs::read_to_string(file.path()).unwrap();
    let mode = |mode| std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    for open in [0o640, 0o604, 0o620, 0o602, 0o610, 0o777] {
        mode(open);
        for error in
            [file.load().unwrap_err(), file.put(entry("user:ada", CredentialKind::Bearer, "x")).unwrap_err()]
        {
            assert_eq!(error.code(), "credentials::open-to-others", "{open:o}");
            assert!(
                error.to_string().contains(&format!("(mode {open:04o})"))
                    && error.help().contains("chmod 600"),
                "{error}"
            );
        }
    }
    mode(0o600);
    let line = TOKEN.len() / 2;
    let half = good.find(TOKEN).unwrap() + line;
    for (content, code) in [
        (good[..half].to_owned(), "credentials::malformed"),
        (String::new(), "credentials::malformed"),
        (format!("{TOKEN}\n"), "credentials::malformed"),
        (good.replace("\"bearer\"", &format!("\"{TOKEN}\"")), "credentials::malformed"),
        (good.replace("\"*\"", &format!("\"{TOKEN}\"")), "credentials::malformed"),
        (good.replace("\"secret\"", "\"secrets\""), "credentials::malformed"),
        (good.replace("\"secret\": ", "\"from\": "), "credentials::malformed"),
        (good.replace("\"version\": 1", "\"version\": 2"), "credentials::version"),
        ("x".repeat(4 * 1024 * 1024 + 1), "credentials::too-large"),
    ] {
        assert_ne!(content, good);
        std::fs::write(file.path(), &content).unwrap();
        for error in
            [file.load().unwrap_err(), file.put(entry("user:ada", CredentialKind::Bearer, "x")).unwrap_err()]
        {
            assert_eq!(error.code(), code, "{}", &content[..content.len().min(200)]);
            let told = format!("{error} {error:?} {}", error.help());
            assert!(!told.contains(&TOKEN[..line]), "{told}");
        }
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), content, "it is left as it was");
    }
    std::fs::remove_file(file.path()).unwrap();
    std::os::unix::fs::symlink(directory.path().join("elsewhere"), file.path()).unwrap();
    assert_eq!(file.load().unwrap_err().code(), "credentials::not-a-file");
    std::fs::remove_file(file.path()).unwrap();
    std::fs::create_dir(file.path()).unwrap();
    assert_eq!(file.load().unwrap_err().code(), "credentials::not-a-file");
}

/// Only a test that runs as root can make a file that belongs to somebody else.
#[test]
fn a_file_of_another_user_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = CredentialFile::within(directory.path());
    file.put(entry("*", CredentialKind::Bearer, TOKEN)).unwrap();
    if std::os::unix::fs::chown(file.path(), Some(12_345), None).is_err() {
        eprintln!("SKIPPED: this user cannot give files away");
        return;
    }
    let error = file.load().unwrap_err();
    assert_eq!(error.to_string(), format!("`{}` belongs to another user (uid 12345)", file.path().display()));
}

/// What a process that died in the middle left behind is neither read nor kept.
#[test]
fn an_unfinished_file_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let file = CredentialFile::within(directory.path());
    std::fs::write(directory.path().join(".weir-out-left.tmp"), TOKEN).unwrap();
    assert_eq!(file.load().unwrap(), []);
    file.put(entry("*", CredentialKind::Bearer, "other-token")).unwrap();
    assert_eq!(file.load().unwrap().len(), 1);
    assert!(!directory.path().join(".weir-out-left.tmp").exists());
}

#[test]
fn changes_by_many_lose_nothing() {
    let directory = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for n in 0..16 {
            let file = CredentialFile::within(directory.path());
            scope.spawn(move || {
                file.put(entry(&format!("user:u{n}"), CredentialKind::Bearer, "token")).unwrap()
            });
        }
    });
    assert_eq!(CredentialFile::within(directory.path()).load().unwrap().len(), 16);
}
