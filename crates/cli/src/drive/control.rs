//! The socket beside a drive's own, for who wants to pull its plug or to know how it does.
//!
//! One connection asks one thing: the word `cut` or `status` in a line. The answer is one JSON object in a line.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use evenkeel_engine::env::Env;
use evenkeel_host::event_loop::{Loop, race};
use evenkeel_host::net::{ByteStream, Listener, Stream};
use serde_json::{Value, json};

use super::control_path;
use super::listen::accept_all;
use super::served::{Drive, cut_text};
use crate::failure::Failure;
use crate::stdout::say;

/// Bytes of a question, with its end.
const QUESTION_MAX_BYTES: usize = 16;
/// How long a connection may take.
const TIMEOUT_NS: u64 = 1_000_000_000;
/// Bytes of an answer, and how long it is waited for.
const ANSWER_MAX_BYTES: u64 = 64 << 10;
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Answers whoever asks beside the drive's `socket`.
pub(super) fn listen(env: &Loop, socket: &Path, drive: &Rc<Drive>) -> Result<(), Failure> {
    let listener =
        Listener::unix(env, &control_path(socket)).map_err(|error| Failure::Unusable(error.to_string()))?;
    let (limit, drive) = (env.clone(), Rc::clone(drive));
    accept_all(env, listener, move |stream| {
        let (env, drive) = (limit.clone(), Rc::clone(&drive));
        limit.spawn(async move {
            race(answer(&stream, &drive), env.sleep(TIMEOUT_NS)).await;
            stream.shutdown();
        });
    });
    Ok(())
}

async fn answer(stream: &Stream, drive: &Drive) {
    let (mut buffer, mut len) = (vec![0; QUESTION_MAX_BYTES], 0);
    while len < buffer.len() && !buffer[..len].contains(&b'\n') {
        let came;
        (came, buffer) = stream.read(buffer, len).await;
        match came {
            Ok(count) if count > 0 => len += count,
            _ => return,
        }
    }
    let told = match buffer[..len].trim_ascii_end() {
        b"cut" => drive.cut(),
        b"status" => json!(drive.status()),
        _ => json!({ "error": "neither cut nor status" }),
    };
    let is_cut = told.get("ready_in_s").is_some() && told.get("schema").is_none();
    let _who_asked_may_have_left = stream.write(format!("{told}\n").into_bytes()).await;
    if is_cut {
        drive.end_after_cut();
    }
}

/// Pulls the plug of the drive on `socket`.
pub(super) fn cut(socket: &Path) -> Result<(), Failure> {
    say(&format!("{}\n", cut_text(&ask(socket, "cut\n")?)))
}

/// Prints what the drive on `socket` does.
pub(super) fn status(socket: &Path) -> Result<(), Failure> {
    say(&format!("{:#}\n", ask(socket, "status\n")?))
}

fn ask(socket: &Path, question: &str) -> Result<Value, Failure> {
    let path = control_path(socket);
    let mut stream = UnixStream::connect(&path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Failure::No(format!(
            "{}: no drive is served there; start it with `evenkeel drive`",
            socket.display()
        )),
        _ => Failure::about(&path, error),
    })?;
    let mut answered = || -> io::Result<Value> {
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        stream.write_all(question.as_bytes())?;
        let mut text = String::new();
        (&stream).take(ANSWER_MAX_BYTES).read_to_string(&mut text)?;
        serde_json::from_str(&text).map_err(io::Error::from)
    };
    answered()
        .map_err(|error| Failure::No(format!("{}: the drive does not answer: {error}", socket.display())))
}
