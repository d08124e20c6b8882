//! What is drawn on a terminal again and again, in place.
//!
//! 1. Only this moves the cursor. Text is escaped before: a name does nothing to the terminal.
//! 2. The cursor is back however the drawing ends, unless the process is killed.
//! 3. A picture never scrolls: what is too much for the terminal is cut off, its last lines first.

use std::io::{self, Write};

use evenkeel_host::terminal;

use crate::stdout::shown;

/// Rows of a terminal that does not say how many it has.
const ROWS: usize = 24;

const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";
/// Longer lines are cut off, and do not go on in the next.
const CUT_LINES: &str = "\x1b[?7l";
const WRAP_LINES: &str = "\x1b[?7h";
const CLEAR: &str = "\x1b[2J";
const TO_TOP: &str = "\x1b[H";
const CLEAR_REST_OF_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

/// A terminal on which pictures are drawn.
pub(crate) struct Screen {
    is_begun: bool,
}

impl Screen {
    /// The terminal that standard output is; `None` where it is none, or cannot draw.
    pub(crate) fn on_stdout() -> Option<Self> {
        let is_dumb = std::env::var_os("TERM").is_none_or(|name| name == "dumb" || name.is_empty());
        (io::IsTerminal::is_terminal(&io::stdout()) && !is_dumb).then_some(Self { is_begun: false })
    }

    /// Draws `text` in place of what was there.
    ///
    /// # Errors
    ///
    /// Those of writing to the terminal.
    pub(crate) fn draw(&mut self, text: &str) -> io::Result<()> {
        let rows = terminal::size().map_or(ROWS, |(rows, _)| rows.into());
        let begin = if self.is_begun { "" } else { CLEAR };
        self.is_begun = true;
        put(&format!("{HIDE_CURSOR}{CUT_LINES}{begin}{}", picture(text, rows)))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.is_begun {
            let _the_terminal_may_be_gone = put(&format!("{WRAP_LINES}{SHOW_CURSOR}\n"));
        }
    }
}

/// What draws `text` from the top of a terminal with so many rows.
fn picture(text: &str, rows: usize) -> String {
    let lines: Vec<String> = text.lines().take(rows.max(1)).map(shown).collect();
    let joint = format!("{CLEAR_REST_OF_LINE}\r\n");
    format!("{TO_TOP}{}{CLEAR_REST_OF_LINE}{CLEAR_BELOW}", lines.join(&joint))
}

fn put(bytes: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_keeps_to_the_rows_that_there_are_and_to_itself() {
        let picture = picture("one\n\x1b[31mtwo\nthree\n", 2);
        assert_eq!(picture, "\x1b[Hone\x1b[K\r\n\\u001b[31mtwo\x1b[K\x1b[J");
    }
}
