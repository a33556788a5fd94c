//! `weir chat` as a person meets it: on a terminal, with keys.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::chat::project;
use crate::running::{eventually, eventually_or};
use crate::weir::Weir;

const ENTER: &str = "\r";
const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";

/// A terminal with a chat in it.
pub(crate) struct Terminal {
    child: Child,
    keys: File,
    /// Everything that was drawn.
    drawn: Arc<Mutex<Vec<u8>>>,
    watcher: JoinHandle<()>,
    /// How much of it has been looked at.
    seen: usize,
}

impl Terminal {
    fn start(weir: &Weir, args: &[&str]) -> Self {
        let mut command = weir.command();
        command.args(args);
        Self::run(command)
    }

    /// A command at a terminal.
    pub(crate) fn run(command: Command) -> Self {
        Self::with_columns(command, 100)
    }

    /// A command at a terminal of that width.
    pub(crate) fn with_columns(mut command: Command, columns: u16) -> Self {
        let keys = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keys).unwrap();
        unlockpt(&keys).unwrap();
        let name = ptsname(&keys, Vec::new()).unwrap();
        let line = rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        tcsetwinsize(&line, Winsize { ws_row: 40, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let end = || Stdio::from(line.try_clone().unwrap());
        command.env("TERM", "xterm").env("NO_COLOR", "1");
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let (keys, drawn) = (File::from(keys), Arc::default());
        let watcher = watch(keys.try_clone().unwrap(), Arc::clone(&drawn));
        Self { child, keys, drawn, watcher, seen: 0 }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Presses a key until something is drawn for it: before keys are read one by one, it may be the terminal's own.
    fn press_until(&mut self, key: &str, text: &str) {
        let from = self.seen;
        for _ in 0..10 {
            self.press(key);
            for _ in 0..100 {
                if String::from_utf8_lossy(&self.drawn.lock().unwrap()[from..]).contains(text) {
                    return self.see(text);
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
        self.see(text);
    }

    /// Waits until something is drawn, and looks on after it.
    pub(crate) fn see(&mut self, text: &str) {
        let (from, mark) = (self.seen, text.as_bytes());
        self.seen = eventually_or(
            || {
                let drawn = self.drawn.lock().unwrap();
                let found = drawn[from..].windows(mark.len()).position(|part| part == mark);
                found.map(|at| from + at + mark.len())
            },
            || {
                let drawn = self.drawn.lock().unwrap();
                format!("`{text}` in {:?}", String::from_utf8_lossy(&drawn[from..]))
            },
        );
    }

    /// Says something when it is asked to.
    pub(crate) fn say(&mut self, text: &str) {
        self.see("you › ");
        self.press(text);
        self.press(ENTER);
    }

    /// What Ctrl-C sends when the terminal is not busy with a line.
    fn interrupt(&self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
    }

    /// Presses a key that ends the chat, and waits for its end. The prompt is drawn a moment before keys are read one by
    /// one; a key of this kind that comes in between is the terminal's own, so that it is pressed again, as people do.
    fn leave(mut self, key: &str) -> Option<i32> {
        for _ in 0..10 {
            self.press(key);
            for _ in 0..100 {
                if let Some(status) = self.child.try_wait().unwrap() {
                    return status.code();
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
        self.end()
    }

    /// Everything that was drawn so far.
    pub(crate) fn drawn(&self) -> String {
        String::from_utf8_lossy(&self.drawn.lock().unwrap()).into_owned()
    }

    /// Waits for the end, and for everything that was drawn before it.
    pub(crate) fn into_drawn(mut self) -> (Option<i32>, String) {
        let code = self.ended();
        self.watcher.join().unwrap();
        (code, String::from_utf8_lossy(&self.drawn.lock().unwrap()).into_owned())
    }

    /// How the terminal treats keys: whether it shows them, waits for whole lines, and makes signals of them.
    pub(crate) fn modes(&self) -> LocalModes {
        tcgetattr(&self.keys).unwrap().local_modes
    }

    pub(crate) fn end(mut self) -> Option<i32> {
        self.ended()
    }

    /// Waits for the end; the terminal can be looked at afterwards.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        let child = Mutex::new(&mut self.child);
        eventually(|| child.lock().unwrap().try_wait().unwrap()).code()
    }
}

/// Something, if it was drawn.
fn said(drawn: &Mutex<Vec<u8>>, text: &str) -> Option<()> {
    String::from_utf8_lossy(&drawn.lock().unwrap()).contains(text).then_some(())
}

/// Reads what is drawn, and answers like a terminal when it is asked where the cursor is.
fn watch(mut terminal: File, drawn: Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    const WHERE: &[u8] = b"\x1b[6n";
    std::thread::spawn(move || {
        let (mut piece, mut answered) = ([0; 4096], 0);
        while let Ok(length @ 1..) = terminal.read(&mut piece) {
            let mut drawn = drawn.lock().unwrap();
            drawn.extend_from_slice(&piece[..length]);
            let asked = drawn.windows(WHERE.len()).filter(|part| *part == WHERE).count();
            drop(drawn);
            for _ in answered..asked {
                let _ = terminal.write_all(b"\x1b[1;1R");
            }
            answered = asked;
        }
    })
}

#[test]
fn a_chat_on_a_terminal() {
    let weir = project();
    let mut chat = Terminal::start(&weir, &["chat", "helper", "--title", "Typed"]);
    chat.see("helper · scripted/demo · /help for help");
    chat.say("What time is it?");
    chat.see("Let me look.");
    chat.see("→ get_time {}");
    chat.see("It is 2");
    chat.say("/usage");
    chat.see(" out, $0.00; 2 model calls");
    chat.say("/help");
    chat.see("  /fork [SEQ]");
    chat.say("/histroy");
    chat.see("there is no command `/histroy`");
    // A space makes words of it.
    chat.say(" /hello");
    chat.see("script has no reply for ` /hello`");
    chat.say("/fork 1");
    chat.see("branch `fork-1`, forked at #1");
    chat.say("hello");
    chat.see("Hello, you.");
    chat.say("/history");
    chat.see("hello");
    chat.see("Hello, you.");
    chat.see("you › ");
    let drawn = Arc::clone(&chat.drawn);
    assert_eq!(chat.leave(CTRL_D), Some(0));
    eventually(|| said(&drawn, "go on later with `weir chat helper --session "));
    let shown = weir.json(&["session", "show", "-1"]);
    assert_eq!((&shown["title"], &shown["branch"]), (&"Typed".into(), &"fork-1".into()));
    // What was said is remembered for the next time, by its owner alone.
    let history = weir.data().join("chat-history");
    assert!(std::fs::read_to_string(&history).unwrap().starts_with("What time is it?\n"));
    assert_eq!(std::fs::metadata(history).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn ctrl_c_stops_an_answer_clears_a_line_and_leaves_an_empty_one() {
    let weir = project();
    let mut chat = Terminal::start(&weir, &["chat", "helper"]);
    chat.say("slow");
    // Its request is out once it is in the list.
    eventually(|| {
        weir.run(&["session", "list", "--status", "running"]).stdout.contains("running").then_some(())
    });
    chat.interrupt();
    chat.see("cancelled");
    chat.see("you › ");
    chat.press("half a tho");
    chat.see("half a tho");
    chat.press(CTRL_C);
    chat.say("hello");
    chat.see("helper › Hello, you.");
    // The first one may have been meant for the answer that has just ended.
    chat.see("you › ");
    chat.press_until(CTRL_C, "press Ctrl-C again or Ctrl-D to leave");
    chat.see("you › ");
    chat.press("no\r");
    chat.see("script has no reply for `no`");
    chat.see("you › ");
    chat.press_until(CTRL_C, "press Ctrl-C again or Ctrl-D to leave");
    let drawn = Arc::clone(&chat.drawn);
    assert_eq!(chat.leave(CTRL_C), Some(0));
    eventually(|| said(&drawn, "go on later with"));
}

/// Whoever looks sees the words come, and is told when they are not the answer.
#[test]
fn an_answer_grows_and_one_that_broke_off_is_marked() {
    let weir = project();
    let mut chat = Terminal::start(&weir, &["chat", "helper"]);
    chat.say("flaky");
    chat.see("half an ans\r\nthe answer broke off\r\nattempt 1 failed: ");
    chat.see("Hello, you.\r\n");
    chat.say("drip");
    chat.see("One d");
    chat.interrupt();
    chat.see("\r\ncancelled");
    // What was said of it is kept, and is no part of the next question.
    chat.say("and then");
    chat.see("helper › Then nothing.");
    chat.say("/history");
    chat.see("[interrupted by the user]");
    chat.see("you › ");
    assert_eq!(chat.leave(CTRL_D), Some(0));
    let request = weir.ok(&["session", "show", "-1", "--request", "4", "--json"]);
    let request: serde_json::Value = serde_json::from_str(&request).unwrap();
    let text = request.to_string();
    assert!(text.contains("[interrupted by the user]") && text.contains("and then"), "{text}");
}

/// What is typed while an answer comes does not land in it, and is said after it, line by line.
#[test]
fn lines_typed_ahead_are_said_in_their_order() {
    let weir = project();
    let mut chat = Terminal::start(&weir, &["chat", "helper"]);
    chat.say("steady");
    chat.see("helper › One ");
    chat.press("hello\rand then\r\x1b[200~hello\ntwice\x1b[201~\rhalf a");
    chat.see("two three four five six.");
    chat.see("you › hello\r\n");
    chat.see("helper › Hello, you.");
    chat.see("you › and then\r\n");
    chat.see("helper › Then nothing.");
    chat.see("you › ");
    chat.see("helper › Hello, you.");
    // What was begun stands at the prompt.
    chat.see("half a");
    chat.press("\x15/quit\r");
    assert_eq!(chat.ended(), Some(0));
    assert!(chat.modes().contains(LocalModes::ECHO | LocalModes::ICANON), "the terminal is as it was");
    let history = weir.ok(&["session", "history", "-1", "--json"]);
    let said: Vec<serde_json::Value> =
        history.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said: Vec<&str> = said
        .iter()
        .filter(|line| line["type"] == "user")
        .map(|line| line["text"].as_str().unwrap())
        .collect();
    assert_eq!(said, ["steady", "hello", "and then", "hello\ntwice"]);
}

/// Nothing is said for a while, and whoever waits sees that something is at work.
#[test]
fn a_wait_has_a_sign_of_life() {
    let weir = project();
    let mut chat = Terminal::start(&weir, &["chat", "helper"]);
    chat.say("slow");
    chat.see("waiting for the model · 0 s");
    chat.interrupt();
    chat.see("cancelled");
    chat.see("you › ");
    assert_eq!(chat.leave(CTRL_D), Some(0));
    // Whoever reads a pipe sees nothing of it.
    let ran = weir.run(&["chat", "helper", "-m", "steady"]);
    assert!(!ran.stderr.contains("waiting") && ran.stdout == "One two three four five six.\n", "{ran}");
}

/// Joined pictures and joined letters are shown as they are, as they stream and later.
#[test]
fn joiners_do_what_they_are_for() {
    let weir = Weir::new();
    weir.write("agents/helper/spec.yaml", "name: helper\nmodel: offline/echo\n");
    let text = "👩\u{200d}👩\u{200d}👧 می\u{200c}شود pay\u{200d}pal";
    weir.ok(&["chat", "helper", "-m", text]);
    let mut history = Terminal::start(&weir, &["session", "history", "-1"]);
    history.see("👩\u{200d}👩\u{200d}👧 می\u{200c}شود pay\\u{200d}pal");
    assert_eq!(history.end(), Some(0));
}

#[test]
fn a_chat_goes_on_where_it_was_left() {
    let weir = project();
    let session = weir.say("hello");
    weir.ok(&["session", "message", &session, "What time is it?"]);
    let mut chat = Terminal::start(&weir, &["chat", "helper", "--session", &session]);
    chat.see("you › hello");
    chat.see("helper › Hello, you.");
    chat.see("something is still unanswered");
    chat.see("Let me look.");
    chat.see("It is 2");
    // A paste of several lines is one message.
    chat.see("you › ");
    chat.press("\x1b[200~hello\nand good day\x1b[201~");
    chat.see("and good day");
    chat.press(ENTER);
    chat.see("Hello, you.");
    chat.say("/quit");
    assert_eq!(chat.end(), Some(0));
    let history = weir.ok(&["session", "history", &session, "--json"]);
    assert!(history.contains(r#""text":"hello\nand good day""#), "{history}");
}

#[test]
fn a_terminal_is_never_told_what_was_stored_raw() {
    let weir = Weir::new();
    weir.write("agents/helper/spec.yaml", "name: helper\nmodel: offline/echo\n");
    weir.ok(&["chat", "helper", "-m", "evil \u{1b}]0;title\u{7}\u{202e}"]);
    for args in [
        &["chat", "helper", "--session", "-1"][..],
        &["session", "history", "-1"],
        &["session", "history", "-1", "--json"],
    ] {
        let mut terminal = Terminal::start(&weir, args);
        terminal.see("evil ");
        let drawn = Arc::clone(&terminal.drawn);
        let ended = if args[0] == "chat" {
            terminal.see("you › ");
            terminal.leave(CTRL_D)
        } else {
            terminal.end()
        };
        assert_eq!(ended, Some(0));
        let drawn = String::from_utf8_lossy(&drawn.lock().unwrap()).into_owned();
        assert!(!drawn.contains("\u{1b}]0;") && !drawn.contains('\u{202e}'), "{drawn:?}");
    }
}

/// A tool that is edited while a chat is open takes effect with the next message, and its errors name the line that was written.
#[test]
fn a_script_is_hot_and_its_errors_have_its_lines() {
    let weir = Weir::new();
    weir.ok(&["init"]);
    let file = weir.path().join("tools/count_words.ts");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut chat = Terminal::start(&weir, &["chat", "helper"]);
    chat.say("count: a low dam");
    chat.see("3 words, 9 characters.");
    std::fs::write(&file, text.replace("words: words.length", "words: words.length + 100")).unwrap();
    chat.say("count: a low dam");
    chat.see("103 words, 9 characters.");

    let thrown = "interface Odd { readonly why: string }\n    const odd: Odd = { why: 'no good' };\n    throw new TypeError(odd.why);";
    std::fs::write(&file, text.replace("return { words", &format!("{thrown}\n    return {{ words"))).unwrap();
    let line = std::fs::read_to_string(&file).unwrap().lines().position(|line| line.contains("throw new"));
    chat.say("count: a low dam");
    chat.see(&format!("✗ count_words: tools/count_words.ts:{}:", line.unwrap() + 1));
    chat.see(": TypeError: no good");

    // Something that does not even build ends nothing but the message.
    std::fs::write(&file, text.replace("execute:", "execut:")).unwrap();
    chat.say("count: a low dam");
    chat.see("execut");
    std::fs::write(&file, &text).unwrap();
    chat.say("count: one");
    chat.see("1 words, 3 characters.");
    assert_eq!(chat.leave(CTRL_D), Some(0));
}
