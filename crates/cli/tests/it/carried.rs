//! Directories that become files of a session, and back: nothing is lost that is a file, and nothing is followed that is not.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use insta::assert_snapshot;

use crate::outside::{Project, field, script};
use crate::secrets::{decoded, walk};

fn project() -> Project {
    let project = Project::new();
    project.agent("keeper", "tools:\n  - { name: fs }\n", &script(&[]));
    project
}

/// The files under a directory: their contents, and whether they can be run.
fn files(directory: &Path) -> BTreeMap<String, (Vec<u8>, bool)> {
    let each = walk(directory).into_iter().map(|path| {
        let runs = std::fs::metadata(&path).unwrap().permissions().mode() & 0o111 != 0;
        let name = path.strip_prefix(directory).unwrap().to_string_lossy().into_owned();
        (name, (std::fs::read(path).unwrap(), runs))
    });
    each.collect()
}

#[test]
fn a_directory_comes_back_as_it_was() {
    let project = project();
    let given = project.weir.path().join("given");
    for (name, content) in [
        ("readme.md", "hello\n"),
        ("empty", ""),
        ("a/b/c/deep.txt", "deep"),
        ("with space & 'quotes' \"$HOME\".txt", "odd"),
        ("-rf", "dash"),
        ("grüße/日本.txt", "unicode"),
    ] {
        project.write(&format!("given/{name}"), content);
    }
    std::fs::write(given.join("bytes.bin"), (0..=255u8).cycle().take(300_000).collect::<Vec<_>>()).unwrap();
    project.program("given/run.sh", "#!/bin/sh\n");
    let session = project.chat("keeper", "hello", &["--files", "given"]);
    project.ok(&["fs", "export", &session, "out"]);
    assert_eq!(files(&project.weir.path().join("out")), files(&given));

    // What is different is taken over; what is gone is gone; the past has it still.
    let before = project.json(&["session", "state", &session])["seq"].to_string();
    std::fs::remove_file(given.join("empty")).unwrap();
    project.write("given/readme.md", "changed\n");
    project.write("given/new.txt", "new\n");
    let taken = project.json(&["fs", "import", &session, "given"]);
    assert_eq!((&taken["written"], &taken["deleted"]), (&2.into(), &1.into()), "{taken}");
    project.ok(&["fs", "export", &session, "again"]);
    assert_eq!(files(&project.weir.path().join("again")), files(&given));
    project.ok(&["fs", "export", &session, "before", "--at", &before]);
    assert_eq!(files(&project.weir.path().join("before")), files(&project.weir.path().join("out")));
    // Nothing is different now, and so nothing is written down.
    let taken = project.json(&["fs", "import", &session, "given"]);
    assert_eq!((&taken["written"], &taken["deleted"]), (&0.into(), &0.into()), "{taken}");
    assert_eq!(project.payloads(&session, "file.written").len(), 8 + 2);
}

#[test]
fn links_and_odd_names_are_left_out_and_told() {
    let project = project();
    let given = project.weir.path().join("given");
    project.write("outside/secret.txt", "planted-outside-5b1e");
    project.write("given/plain.txt", "planted-plain-77aa");
    project.write("given/.git/config", "planted-git-19c2");
    project.write("given/.weir/credentials.local", "planted-data-d04f");
    let outside = project.weir.path().join("outside");
    symlink(outside.join("secret.txt"), given.join("file-link")).unwrap();
    symlink(&outside, given.join("directory-link")).unwrap();
    symlink("/nowhere", given.join("dangling")).unwrap();
    symlink(".", given.join("loop")).unwrap();
    std::fs::write(given.join("red\u{1b}[31m\nforged: line"), "odd").unwrap();
    std::fs::write(given.join(OsStr::from_bytes(b"not-utf8-\xff")), "odd").unwrap();
    let made = std::process::Command::new("mkfifo").arg(given.join("pipe")).status().unwrap();
    assert!(made.success());

    let ran = project.run(&["chat", "keeper", "-m", "hello", "--files", "given"]);
    assert_eq!(ran.code, 0, "{ran}");
    assert!(!ran.stderr.contains('\u{1b}') && !ran.stderr.contains("\nforged"), "{ran}");
    assert_snapshot!(project.weir.mask(&ran.stderr), @r"
    warning: left out: dangling (a symbolic link)
    warning: left out: directory-link (a symbolic link)
    warning: left out: file-link (a symbolic link)
    warning: left out: loop (a symbolic link)
    warning: left out: not-utf8-� (path `not-utf8-�` is not UTF-8)
    warning: left out: pipe (a pipe, a socket or a device)
    warning: left out: red\u{1b}[31m\nforged: line (path `red\u{1b}[31m\nforged: line` contains the control character U+001B)
    note: never taken: .git/, .weir/
    session [id]
    ");
    let session = project.latest();
    let paths: Vec<String> =
        project.lines(&["fs", "ls", &session]).iter().map(|file| field(file, "path")).collect();
    assert_eq!(paths, ["plain.txt"]);
    let stored = decoded(&project.weir);
    assert!(stored.contains("planted-plain-77aa"), "the search would find them");
    for secret in ["planted-outside-5b1e", "planted-git-19c2", "planted-data-d04f"] {
        assert!(!stored.contains(secret), "{secret}");
    }
    // The same from a session that has begun.
    let taken = project.json(&["fs", "import", &session, "given"]);
    assert_eq!((&taken["written"], &taken["deleted"]), (&0.into(), &0.into()), "{taken}");
    assert_eq!(taken["skipped"].as_array().unwrap().len(), 7, "{taken}");

    // What is there is not written over, nor is a link followed on the way out.
    project.ok(&["fs", "export", &session, "out"]);
    let full = project.run(&["fs", "export", &session, "out", "--json"]);
    assert_eq!(full.code, 2, "{full}");
    symlink(&outside, project.weir.path().join("elsewhere")).unwrap();
    assert_ne!(project.run(&["fs", "export", &session, "elsewhere"]).code, 0);
    assert_eq!(files(&outside).len(), 1);
}

#[test]
fn the_tools_of_an_agent_are_listed_with_what_a_call_would_do() {
    let project = Project::new();
    project.server("bell", &[crate::outside::tool("ring")]);
    project.write("tools/count.ts", "import { defineTool } from 'weir';\nexport default defineTool({ name: 'count', description: 'Counts.', parameters: {}, execute: async () => 1 });\n");
    project.agent("other", "", &script(&[]));
    let spec = "tools:\n  - { name: bash, access: write }\n  - { name: http, access: write, hosts: [example.com] }\n  - { name: tools/count, access: read }\n  \
                - { server: \"mcp://./servers/bell.py\", access: write, effect: idempotent }\n  - { server: \"weir://other\" }\n\
                acl:\n  - { principal: \"user:eve\", role: execute }\n";
    project.agent("all", spec, &script(&[]));
    project.write(
        "weir.yaml",
        "project: p\ntool_grants:\n  - tool: http\n    grants: [{ principal: \"user:eve\", access: read }]\n  - tool: tools/count\n    grants: [{ principal: \"user:eve\", access: read }]\nrules:\n  - { id: no-count, when: { tool: count, principal: \"user:eve\" }, then: deny }\n",
    );
    project.build();
    assert_snapshot!(project.ok(&["tools", "list", "all", "--live-writes=ring"]), @"
    NAME         KIND     ACCESS  EFFECT      RISK    GRANT  CALLS    SOURCE
    bash         builtin  write   idempotent  high    write  live     bash
    http         builtin  write   write       medium  write  stubbed  http
    count        script   read    read        low     read   live     tools/count
    ring         mcp      write   idempotent  high    write  live     mcp://./servers/bell.py
    other        agent    read    read        low     read   live     weir://other
    result_read  builtin  read    read        low     read   live     result_read
    ");
    assert_snapshot!(project.ok(&["tools", "list", "all", "--as", "user:eve"]), @"
    NAME         KIND     ACCESS  EFFECT      RISK    GRANT  CALLS    SOURCE
    bash         builtin  write   idempotent  high    none   denied   bash
    http         builtin  write   write       medium  read   stubbed  http
    count        script   read    read        low     read   denied   tools/count
    ring         mcp      write   idempotent  high    none   denied   mcp://./servers/bell.py
    other        agent    read    read        low     none   denied   weir://other
    result_read  builtin  read    read        low     read   live     result_read
    ");
    let listed = project.lines(&["tools", "list", "all", "--as", "user:eve"]);
    for tool in &listed {
        assert_eq!(tool["parameters"]["type"], "object", "{tool}");
        assert!(tool["description"].is_string(), "{tool}");
    }
    let denied_by =
        |name: &str| listed.iter().find(|tool| tool["name"] == name).unwrap()["denied_by"].clone();
    assert_eq!([denied_by("bash"), denied_by("count")], ["grant", "no-count"].map(serde_json::Value::from));
    let http = listed.iter().find(|tool| tool["name"] == "http").unwrap();
    assert_eq!((&http["grant"], &http["live"]), (&"read".into(), &false.into()), "{http}");
}
