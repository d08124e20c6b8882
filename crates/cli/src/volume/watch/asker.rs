//! Asks a volume's server, in a thread of its own.

use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;

use evenkeel_host::service::status::Status;

use super::LOOK_EVERY;

/// The thread that asks. It ends with the process: one that waits for a server cannot be told to.
pub(super) struct Asker {
    questions: Sender<()>,
    answers: Receiver<io::Result<Status>>,
}

impl Asker {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// Where there is no room for one.
    pub(super) fn start(volume: &Path) -> io::Result<Self> {
        let (volume, (questions, asked), (answer, answers)) = (volume.to_owned(), channel(), channel());
        thread::Builder::new().name("asks".to_owned()).spawn(move || {
            while let Ok(()) = asked.recv() {
                if answer.send(Status::ask(&volume)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { questions, answers })
    }

    /// What the server answers; `None` once `is_given_up`.
    pub(super) fn ask(&self, is_given_up: impl Fn() -> bool) -> Option<io::Result<Status>> {
        self.questions.send(()).ok()?;
        loop {
            match self.answers.recv_timeout(LOOK_EVERY) {
                Ok(answer) => return Some(answer),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if is_given_up() => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}
