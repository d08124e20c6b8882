//! The terminal that standard output is, if it is one.

use std::io;

/// Its rows and columns; `None` where standard output is no terminal, or one that does not know.
pub fn size() -> Option<(u16, u16)> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some((size.ws_row, size.ws_col))
}
