//! Standard output and error.
//!
//! 1. What cannot be printed is one line and an exit code, not a panic.
//! 2. On a terminal sentences break between words, at 80 columns; what is read by a program is as it was.
//! 3. Nothing that is printed moves the cursor or does anything else to a terminal, but for [`crate::screen`]: a name may
//!    have any characters.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

use evenkeel_host::standard_error;

use crate::failure::Failure;

/// How long a reader of standard error is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// A path or name in one piece, as a person may see it: what a terminal would not print is escaped, as in JSON.
pub(crate) fn shown(name: impl fmt::Display) -> String {
    escaped(&name.to_string(), &[])
}

/// `text` with its control characters escaped, but for `kept`.
fn escaped(text: &str, kept: &[char]) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            letter if !letter.is_control() || kept.contains(&letter) => escaped.push(letter),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            letter => escaped.push_str(&format!("\\u{:04x}", u32::from(letter))),
        }
    }
    escaped
}

/// Prints `text`, in lines. A reader that has seen enough (`| head`) is no failure: the work goes on without
/// it.
pub(crate) fn say(text: &str) -> Result<(), Failure> {
    say_to_reader(text).map(drop)
}

/// As [`say`], for work that is done for its reader alone: whether there is one.
pub(crate) fn say_to_reader(text: &str) -> Result<bool, Failure> {
    let text = escaped(text, &['\n', '\t']);
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => {
            Err(Failure::about(Path::new("standard output"), format!("{error}; redirect it elsewhere")))
        }
    }
}

/// As [`say`], for tables and sentences that people read: on a terminal the latter are folded.
pub(crate) fn tell(text: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() { say(&folded(text)) } else { say(text) }
}

/// What every terminal shows in a line.
const COLUMNS: usize = 80;

/// `text` with longer lines broken between words. A row of a table, whose columns lie two blanks apart, stays whole.
fn folded(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let is_row = line.trim().contains("  ");
        if is_row || line.trim_end().chars().count() <= COLUMNS {
            folded.push_str(line);
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let mut column = 0;
        for word in line.split_whitespace() {
            let length = word.chars().count();
            if column > 0 && column + 1 + length > COLUMNS {
                folded.push('\n');
                column = 0;
            }
            let before = if column == 0 { indent } else { " " };
            folded.push_str(before);
            folded.push_str(word);
            column += before.chars().count() + length;
        }
        folded.push_str(if line.ends_with('\n') { "\n" } else { "" });
    }
    folded
}

/// As [`say`], for a server: whoever reads this may take its time, and clients are not to wait for that.
pub(crate) fn announce(text: String) {
    let _nobody_listens = thread::Builder::new().spawn(move || say(&text));
}

/// Prints a line on standard error. Where nobody takes it (a pipe without a reader, or with one that does not read, a
/// full disk), nobody is told, and nothing else happens.
pub(crate) fn complain(line: &str) {
    let _nobody_takes_it = standard_error::say(&shown(line), PATIENCE);
}

/// As [`complain`], for a server, which has others to see to: a line that is not taken at once is dropped.
pub(crate) fn mention(line: &str) {
    let _nobody_takes_it = standard_error::say(&shown(line), Duration::ZERO);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_folded_between_words_and_rows_of_tables_are_not() {
        let sentence = "A write of 256 KiB takes 323 us. ".repeat(9);
        let row = format!("{}\n", ["64 KiB"; 20].join("  "));
        let text = format!("\n{row}\n  {}\nshort  row\n{}", sentence.trim(), "x".repeat(100));
        let lines = folded(&text);
        let lines: Vec<&str> = lines.split('\n').collect();
        assert_eq!((lines[1], lines.last()), (row.trim(), Some(&"x".repeat(100).as_str())));
        let prose = &lines[3..lines.len() - 2];
        assert!(
            prose.len() == 4 && prose.iter().all(|line| line.len() <= 80 && line.starts_with("  ")),
            "{prose:?}"
        );
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&prose.join(" ")), words(&sentence));
        assert_eq!(folded("short\n\nshort"), "short\n\nshort");
    }

    #[test]
    fn what_does_something_to_a_terminal_is_escaped_and_the_rest_is_as_it_was() {
        for (name, expected) in [
            ("/srv/a b's \"c\"/\u{e4}\u{6f22}", "/srv/a b's \"c\"/\u{e4}\u{6f22}"),
            ("two\nlines\tand\rback", "two\\nlines\\tand\\rback"),
            ("\u{1b}[31mred\u{7}\u{7f}\u{9b}", "\\u001b[31mred\\u0007\\u007f\\u009b"),
        ] {
            assert_eq!(shown(name), expected);
        }
        assert_eq!(escaped("a\tb\nc\u{1b}\n", &['\n', '\t']), "a\tb\nc\\u001b\n");
        // A document stays one, and says the same.
        let document = serde_json::json!({ "path": "a\u{1b}\u{7f}\u{9b}" });
        let read: serde_json::Value = serde_json::from_str(&escaped(&document.to_string(), &[])).unwrap();
        assert_eq!(read, document);
    }
}
