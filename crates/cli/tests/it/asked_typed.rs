//! Calls that must be approved, asked about at a terminal.

use crate::outside::Desk;
use crate::typed::Terminal;

const ENTER: &str = "\r";
const CHOICE: &str = "[l]ater › ";

fn chat(desk: &Desk, agent: &str, more: &[&str]) -> Terminal {
    Terminal::run(desk.project.command(&[&["chat", agent, "--live-writes"], more].concat()))
}

/// Types a line when the terminal asks for one.
fn say(chat: &mut Terminal, prompt: &str, text: &str) {
    chat.see(prompt);
    chat.press(text);
    chat.press(ENTER);
}

fn leave(mut chat: Terminal) {
    say(&mut chat, "you › ", "/quit");
    assert_eq!(chat.end(), Some(0));
}

#[test]
fn each_call_is_shown_and_decided_by_itself() {
    let desk = Desk::new();
    let mut chat = chat(&desk, "helper", &[]);
    say(&mut chat, "you › ", "ring twice");
    chat.see("helper asks: may it call ring?");
    chat.see("{\"n\":1}");
    chat.see("tool 'ring' requires approval: ");
    say(&mut chat, CHOICE, "what?");
    say(&mut chat, CHOICE, "n");
    say(&mut chat, "why not (may be left empty) › ", "once is enough");
    chat.see("{\"n\":2}");
    say(&mut chat, CHOICE, "y");
    chat.see("said no: once is enough");
    chat.see("It said: ");
    assert_eq!(desk.rings(), 1);
    leave(chat);
}

#[test]
fn arguments_are_edited_and_what_is_wrong_with_them_is_told() {
    let desk = Desk::new();
    let mut chat = chat(&desk, "helper", &[]);
    say(&mut chat, "you › ", "ring");
    say(&mut chat, CHOICE, "e");
    // The editor begins with the arguments as they are.
    chat.see("arguments › {\"n\":1}");
    chat.press("}");
    chat.press(ENTER);
    chat.see("the arguments are not JSON");
    say(&mut chat, CHOICE, "e");
    chat.see("arguments › {\"n\":1}");
    chat.press("\x7f\x7f\"many\"}");
    chat.press(ENTER);
    chat.see("with these arguments the call would be refused: schema: ");
    assert_eq!(desk.rings(), 0);
    say(&mut chat, CHOICE, "e");
    chat.see("arguments › {\"n\":1}");
    chat.press("\x7f\x7f42}");
    chat.press(ENTER);
    chat.see("It said: ");
    assert_eq!(desk.project.calls("bell").last().unwrap()["arguments"], serde_json::json!({"n": 42}));
    leave(chat);
}

#[test]
fn a_yes_for_the_session_asks_no_more_and_later_asks_again() {
    let desk = Desk::new();
    let mut first = chat(&desk, "helper", &[]);
    say(&mut first, "you › ", "ring twice");
    say(&mut first, CHOICE, "l");
    say(&mut first, CHOICE, "y");
    // One was decided and one put off: it is not asked again at once.
    first.see("must be approved; /approvals asks again");
    assert_eq!(desk.rings(), 1);
    say(&mut first, "you › ", "/approvals");
    first.see("{\"n\":1}");
    say(&mut first, CHOICE, "\x04");
    first.see("/approvals asks again");
    say(&mut first, "you › ", "/quit");
    assert_eq!(first.end(), Some(0));
    // Whoever comes back is asked at once.
    let mut second = chat(&desk, "helper", &["--session", "-1"]);
    second.see("may it call ring?");
    say(&mut second, CHOICE, "s");
    second.see("It said: ");
    assert_eq!(desk.rings(), 1);
    say(&mut second, "you › ", "ring");
    second.see("It said: ");
    assert_eq!(desk.rings(), 1);
    say(&mut second, "you › ", "/approvals");
    second.see("nothing waits for approval");
    leave(second);
}

#[test]
fn what_an_inner_agent_asks_is_asked_in_the_chat_with_its_name() {
    let desk = Desk::new();
    let mut chat = chat(&desk, "boss", &[]);
    say(&mut chat, "you › ", "ring");
    chat.see("helper asks on behalf of boss: may it call ring?");
    say(&mut chat, CHOICE, "y");
    chat.see("The helper: It said: ");
    assert_eq!(desk.rings(), 1);
    leave(chat);
}

/// What was asked for as real is not pretended without a word.
#[test]
fn a_call_that_would_be_a_dry_run_is_approved_for_real_or_as_one_and_never_by_a_plain_yes() {
    let desk = Desk::new();
    let (_, _) = desk.ask("helper", "ring", &["--live-writes"]);
    let mut chat = Terminal::run(desk.project.command(&["chat", "helper", "--session", "-1"]));
    chat.see("it would be a dry run, unless you say that it is for real");
    say(&mut chat, "yes, for [r]eal, [d]ry run", "y");
    say(&mut chat, "yes, for [r]eal, [d]ry run", "r");
    chat.see("It said: ring is done");
    // It was said of that call, and of no other.
    say(&mut chat, "you › ", "ring");
    say(&mut chat, "yes, for [r]eal, [d]ry run", "d");
    chat.see("DRY RUN");
    leave(chat);
    assert_eq!(desk.rings(), 1);
}

/// While one person thinks, another decides. Whoever comes second is told, and the chat goes on.
#[test]
fn who_comes_second_is_told_and_the_chat_goes_on() {
    let desk = Desk::new();
    let mut chat = chat(&desk, "helper", &[]);
    say(&mut chat, "you › ", "ring");
    chat.see(CHOICE);
    let call = crate::outside::field(&desk.project.lines(&["approvals"])[0], "id");
    desk.project.ok(&["deny", &call, "-m", "not now", "--no-run"]);
    chat.press("y");
    chat.press(ENTER);
    chat.see("was denied by ");
    chat.see("It said: tool 'ring' blocked: ");
    assert_eq!(desk.rings(), 0);
    leave(chat);
}
