//! A line that is typed and not shown.

use std::borrow::Cow;
use std::io::{self, Read, Write, stderr, stdin};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use weir_secrets::SECRET_BYTES_MAX;
use weir_types::{Explain, Fault};

use crate::exit::Exit;
use crate::report::{Failure, Outcome};
use crate::store::blocking;

/// Why nothing can be typed.
#[derive(Debug, thiserror::Error)]
#[error("the terminal cannot be read")]
struct TerminalError(#[source] io::Error);

impl Explain for TerminalError {
    fn code(&self) -> &'static str {
        "cli::terminal"
    }

    fn help(&self) -> Cow<'static, str> {
        "pipe the secret in instead: `… | weir auth add SERVER`".into()
    }

    fn fault(&self) -> Fault {
        Fault::Storage
    }
}

/// What was typed.
enum Typed {
    Line(String),
    Interrupted,
}

/// Asks, and reads a line that is not shown.
pub(super) async fn unseen(prompt: String) -> Outcome<String> {
    match blocking(move || read(&prompt)).await?.map_err(TerminalError)? {
        Typed::Line(line) => Ok(line),
        Typed::Interrupted => Err(Failure::Ended(Exit::Interrupted)),
    }
}

/// The terminal shows what is typed again, whatever happened.
struct Quiet(Termios);

impl Quiet {
    /// Keys come one by one, Ctrl-C among them: were it a signal, the process would end with a terminal that shows nothing.
    fn new() -> io::Result<Self> {
        let usual = tcgetattr(stdin())?;
        let mut quiet = usual.clone();
        quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(stdin(), OptionalActions::Flush, &quiet)?;
        Ok(Self(usual))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let _ = tcsetattr(stdin(), OptionalActions::Flush, &self.0);
        let _ = writeln!(stderr());
    }
}

fn read(prompt: &str) -> io::Result<Typed> {
    let _quiet = Quiet::new()?;
    let mut terminal = stderr().lock();
    write!(terminal, "{prompt}")?;
    terminal.flush()?;
    drop(terminal);
    let (mut line, mut keys) = (Vec::new(), stdin().lock());
    loop {
        let mut key = [0];
        if keys.read(&mut key)? == 0 {
            break;
        }
        match key[0] {
            b'\r' | b'\n' => break,
            // Ctrl-C, Ctrl-D, Ctrl-U, and the two keys that take a character back.
            0x03 => return Ok(Typed::Interrupted),
            0x04 if line.is_empty() => break,
            0x04 => {}
            0x15 => line.clear(),
            0x08 | 0x7f => take_back(&mut line),
            key if line.len() < SECRET_BYTES_MAX => line.push(key),
            _ => {}
        }
    }
    let line =
        String::from_utf8(line).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "that is no text"))?;
    Ok(Typed::Line(line))
}

/// A character has one byte that begins it and some that follow.
fn take_back(line: &mut Vec<u8>) {
    while let Some(byte) = line.pop() {
        if byte & 0xc0 != 0x80 {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_character_is_taken_back() {
        let mut line = "aé".as_bytes().to_vec();
        take_back(&mut line);
        assert_eq!(line, b"a");
        take_back(&mut line);
        take_back(&mut line);
        assert_eq!(line, b"");
    }
}
