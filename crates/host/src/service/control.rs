//! Orders to the server of a mirror: a socket in the volume's folder, for this user only.
//!
//! One connection gives one order, a JSON object in a line; the answer is another.

use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use evenkeel_engine::env::Env;
use serde::{Deserialize, Serialize};

use super::ACCEPT_AGAIN_NS;
use crate::event_loop::{Loop, race};
use crate::net::{ByteStream, Listener, Stream, connect_unix_blocking};
use crate::volume::replace::{Question, Replacement, Replacer};
use crate::volume::{CONTROL_SOCKET, VolumeError};

/// Longest order, with its end.
const ORDER_MAX_BYTES: usize = 16 << 10;

/// How long the whole of an order may take to come.
const ORDER_MAX_NS: u64 = 1_000_000_000;

/// How long its answer may take to be taken.
const ANSWER_MAX_NS: u64 = 1_000_000_000;

/// Longest answer that is read, and how long it is waited for: a new member may take its time.
const ANSWER_MAX_BYTES: u64 = 64 << 10;
const ANSWER_WAITED_FOR: Duration = Duration::from_secs(120);

/// An order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Order {
    /// Say whether a member can be replaced, and change nothing.
    Consider(Question),
    /// Put another drive in the place of a member.
    Replace(Replacement),
}

/// What came of it: why not, if so.
#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    refused: Option<String>,
    /// Whether the new one is in use all the same.
    #[serde(default)]
    is_taken: bool,
}

/// Takes orders, for as long as the loop runs.
pub(super) fn serve(event_loop: &Loop, listener: Listener, replacer: Replacer) {
    let env = event_loop.clone();
    event_loop.spawn(async move {
        loop {
            let Ok(stream) = listener.accept().await else {
                env.sleep(ACCEPT_AGAIN_NS).await;
                continue;
            };
            let (limit, replacer) = (env.clone(), replacer.clone());
            // An order that has begun is carried out, whoever waits for it.
            env.spawn(async move {
                let silence = async {
                    limit.sleep(ORDER_MAX_NS).await;
                    None
                };
                if let Some(order) = race(read(&stream), silence).await {
                    let answer = carry_out(&order, &replacer).await;
                    let text = serde_json::to_string(&answer).expect("a text can be written");
                    let write = async {
                        let _who_asked_may_have_left = stream.write(format!("{text}\n").into_bytes()).await;
                    };
                    race(write, limit.sleep(ANSWER_MAX_NS)).await;
                }
                stream.shutdown();
            });
        }
    });
}

/// The bytes of an order.
async fn read(stream: &Stream) -> Option<Vec<u8>> {
    let (mut buffer, mut len) = (vec![0; ORDER_MAX_BYTES], 0);
    while !buffer[..len].contains(&b'\n') {
        if len == buffer.len() {
            return None;
        }
        let came;
        (came, buffer) = stream.read(buffer, len).await;
        match came {
            Ok(count) if count > 0 => len += count,
            _ => return None,
        }
    }
    buffer.truncate(len);
    Some(buffer)
}

async fn carry_out(order: &[u8], replacer: &Replacer) -> Answer {
    let answered = match serde_json::from_slice(order) {
        Ok(Order::Consider(question)) => replacer.consider(&question),
        Ok(Order::Replace(replacement)) => replacer.replace(&replacement).await,
        Err(error) => Err(VolumeError::Refused(format!("the order is none: {error}"))),
    };
    let is_taken = matches!(answered, Err(VolumeError::Undescribed(_)));
    let refused = answered.err().map(|error| match is_taken {
        true => format!("{error}; mend that, and have it name the new one there before the next start"),
        false => error.to_string(),
    });
    Answer { refused, is_taken }
}

/// Asks the server of the volume in `folder` whether it would replace a member; `None` where nobody serves it.
///
/// # Errors
///
/// Why it would not, or that it gave no answer.
pub fn consider(folder: &Path, question: Question) -> Option<Result<(), VolumeError>> {
    give(folder, &Order::Consider(question))
}

/// Has the server of the volume in `folder` replace a member; `None` where nobody serves it.
///
/// # Errors
///
/// Why it refused, or gave no answer.
pub fn replace(folder: &Path, replacement: Replacement) -> Option<Result<(), VolumeError>> {
    give(folder, &Order::Replace(replacement))
}

fn give(folder: &Path, order: &Order) -> Option<Result<(), VolumeError>> {
    use io::ErrorKind::{ConnectionRefused, NotFound};
    let mut stream = match connect_unix_blocking(&folder.join(CONTROL_SOCKET)) {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), NotFound | ConnectionRefused) => return None,
        Err(error) => return Some(Err(unanswered(folder, error))),
    };
    let mut answered = || -> io::Result<Answer> {
        stream.set_read_timeout(Some(ANSWER_WAITED_FOR))?;
        let mut text = serde_json::to_string(order)?;
        text.push('\n');
        stream.write_all(text.as_bytes())?;
        text.clear();
        (&stream).take(ANSWER_MAX_BYTES).read_to_string(&mut text)?;
        serde_json::from_str(&text).map_err(io::Error::from)
    };
    Some(match answered() {
        Ok(Answer { refused: None, .. }) => Ok(()),
        Ok(Answer { refused: Some(why), is_taken: true }) => Err(VolumeError::Undescribed(why)),
        Ok(Answer { refused: Some(why), is_taken: false }) => Err(VolumeError::Refused(why)),
        Err(error) => Err(unanswered(folder, error)),
    })
}

fn unanswered(folder: &Path, source: io::Error) -> VolumeError {
    VolumeError::Unanswered { folder: folder.to_owned(), source }
}
