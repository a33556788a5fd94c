//! Narrow terminals: what is listed, explained and said can be read at 40 and at 60 columns. Nothing of a list is cut, and no
//! word is broken that would fit on a line.

use unicode_width::UnicodeWidthStr;

use crate::typed::Terminal;
use crate::weir::Weir;

const WIDTHS: [u16; 2] = [40, 60];

const PROJECT: &str = "\
rules:
  - { id: look-at-every-mail-first, when: { tool: tools/send_mail }, then: require_approval, within: 1h, why: \"a person reads every mail before it goes out to a customer\" }
budgets: { per_day: { usd: 20 }, per_principal: { usd: 5 } }
";

const SPEC: &str = "\
name: helper
model: scripted/helper
description: You help.
tools: [{ name: get_time }, { name: tools/send_mail, access: write }]
";

const SCRIPT: &str = r#"
replies:
  - when: { user: mail }
    call: [{ tool: send_mail, input: { to: "ada@example.com", text: "closed" } }]
  - when: { user: long }
    say: "A weir is the low dam at the outlet of a lake, and nothing flows out of the lake but over it."
    chunk: 3
  - say: "Hello."
"#;

const TOOL: &str = r"
import { defineTool } from 'weir';
export default defineTool({
  name: 'send_mail',
  description: 'Sends a mail.',
  parameters: { to: { type: 'string' }, text: { type: 'string' } },
  execute: () => 'sent',
});
";

/// A project in which there is something to list everywhere.
fn project() -> Weir {
    let weir = Weir::new();
    weir.write("weir.yaml", PROJECT);
    weir.write("agents/helper/spec.yaml", SPEC);
    weir.write("models/helper.yaml", SCRIPT);
    weir.write("tools/send_mail.ts", TOOL);
    weir.write("given/docs/a-file-with-a-rather-long-name-in-a-directory.md", "text");
    weir.ok(&["token", "issue", "--principal", "user:ada-of-the-long-name", "--name", "the laptop"]);
    weir.run(&["chat", "helper", "-m", "write a mail to ada"]);
    weir.ok(&[
        "chat",
        "helper",
        "--files",
        "given",
        "-m",
        "a long question about the weir at the end of the lake",
    ]);
    weir
}

/// What a command draws on a terminal of that width.
fn drawn(weir: &Weir, columns: u16, line: &str) -> String {
    let mut command = weir.command();
    command.args(line.split(' '));
    let (_, drawn) = Terminal::with_columns(command, columns).into_drawn();
    // A line that was drawn over is gone.
    let lines = drawn.lines().map(|line| line.rsplit("\u{1b}[2K").next().unwrap());
    lines.collect::<Vec<_>>().join("\n")
}

/// Every line fits; one that does not is a single word, or a command to copy.
fn fits(drawn: &str, columns: u16, what: &str) {
    for line in drawn.lines() {
        let text = line.trim();
        let is_whole = !text.contains(' ')
            || text.starts_with("weir ")
            || text.starts_with('`') && text.matches('`').count() == 2;
        assert!(line.width() <= usize::from(columns) || is_whole, "{what} on {columns}: {line:?}\n{drawn}");
    }
}

#[test]
fn lists_name_every_cell_and_cut_none() {
    let weir = project();
    let lists: &[(&str, &[&str])] = &[
        ("session list", &["a long question about the weir", "waiting", "idle", "$0.00"]),
        ("streams", &["budget:day:", "session:01"]),
        ("approvals", &["send_mail", "dry run", "ada@example.com", "reads every mail before"]),
        ("tools list helper", &["tools/send_mail", "get_time", "stubbed", "high"]),
        ("token list", &["user:ada-of-the-long-name", "the laptop"]),
        ("budget show", &["$20.00", "$5.00"]),
        ("policy show", &["look-at-every-mail-first", "require approval", "before it goes out to a"]),
        ("fs ls -1", &["docs/a-file-with-a-rather-long-name-in-a-directory.md"]),
        ("session show -1", &["01", "scripted", "idle"]),
        ("whoami", &["rules and approvals"]),
        ("branch list --stream -1", &["main"]),
    ];
    for columns in WIDTHS {
        for (line, facts) in lists {
            let drawn = drawn(&weir, columns, line);
            // What was broken is put together again.
            let words = drawn.split_whitespace().collect::<Vec<_>>().join(" ");
            for fact in *facts {
                let fact = if *line == "session show -1" && *fact == "scripted" { "helper" } else { fact };
                assert!(words.contains(fact), "`{line}` on {columns} lacks `{fact}`:\n{drawn}");
            }
            if *line != "policy show" {
                fits(&drawn, columns, line);
                assert!(!drawn.contains('…'), "`{line}` on {columns}:\n{drawn}");
            }
        }
    }
}

#[test]
fn events_and_conversations_fit() {
    let weir = project();
    for columns in WIDTHS {
        for line in ["cat --stream -1", "session history -1", "session history -1 --all", "doctor"] {
            fits(&drawn(&weir, columns, line), columns, line);
        }
        let events = drawn(&weir, columns, "cat --stream -1");
        assert!(events.contains("user.message") && events.contains("Z\n"), "{events}");
    }
}

#[test]
fn errors_break_between_words_and_point_at_the_mistake() {
    let weir = Weir::new();
    weir.write("weir.yaml", "groups: { eng: [\"user:ada\"] }\n");
    weir.write(
        "agents/a/spec.yaml",
        "name: a\nmodel: offline/echo\nacl: [{ principal: \"serviceaccount:digest-bot\", role: execute }, { principal: \"x\", role: execute }]\n",
    );
    for columns in WIDTHS {
        for line in
            ["check", "chat nobody -m hello", "session show 01ZZ", "chat", "serch", "check --project nowhere"]
        {
            let drawn = drawn(&weir, columns, line);
            fits(&drawn, columns, line);
        }
        let problems = drawn(&weir, columns, "check");
        let words = problems.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words.contains("declare it in weir.yaml: `service_accounts: [{ name: digest-bot }]`"),
            "{problems}"
        );
        assert!(words.contains("write `user:x`, `group:x` or `serviceaccount:x`"), "{problems}");
        // The mark stands under the mistake.
        let lines: Vec<&str> = problems.lines().collect();
        let at = lines.iter().position(|line| line.contains("\"x\"")).unwrap();
        let column = |line: &str, mark: &str| line.find(mark).map(|at| line[..at].width());
        let mark = ["┬", "─"].iter().filter_map(|mark| column(lines[at + 1], mark)).min();
        assert_eq!(column(lines[at], "\"x\""), mark, "{problems}");
    }
}

/// Examples are commands to copy and stay whole; everything else is wrapped.
#[test]
fn help_fits() {
    let weir = Weir::new();
    for columns in WIDTHS {
        for line in
            ["--help", "help chat", "help serve", "session --help", "help policy explain", "help new agent"]
        {
            let drawn = drawn(&weir, columns, line);
            let mut in_examples = false;
            for line in drawn.lines() {
                in_examples = line.starts_with("Example") || in_examples && !line.is_empty();
                let is_whole = in_examples
                    || !line.trim().contains(' ')
                    || line.trim_start().starts_with(['[', '-'])
                    || line.starts_with("Usage:");
                assert!(line.width() <= usize::from(columns) || is_whole, "{columns}: {line:?}\n{drawn}");
            }
        }
    }
}

#[test]
fn a_chat_breaks_lines_between_words() {
    for (columns, expected) in [
        (
            40,
            "helper › A weir is the low dam at the\r\noutlet of a lake, and nothing flows out\r\nof the lake but over it.\r\n",
        ),
        (
            60,
            "helper › A weir is the low dam at the outlet of a lake, and\r\nnothing flows out of the lake but over it.\r\n",
        ),
    ] {
        let weir = project();
        let mut command = weir.command();
        command.args(["chat", "helper"]);
        let mut chat = Terminal::with_columns(command, columns);
        chat.say("long");
        chat.see(expected);
        chat.say("a mail");
        chat.see("may it call send_mail?");
        chat.see("goes out to a");
        chat.see("[l]ater › ");
        chat.press("l\r");
        chat.see("you › ");
        chat.press("/quit\r");
        let (code, drawn) = chat.into_drawn();
        assert_eq!(code, Some(0));
        assert!(drawn.contains("weir chat helper --session "), "{drawn}");
    }
}
