//! Orders to the server of a volume: a socket in the volume's folder, for this user only.
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
use crate::remedy::Advise;
use crate::volume::grow::{Grower, Grown};
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
    /// Offer so many bytes; or say what that would take, and change nothing.
    Grow { size_bytes: u64, dry_run: bool },
}

/// Handles that carry orders out.
#[derive(Clone)]
pub(super) struct Workers {
    /// Replaces members, of a mirror.
    pub(super) replacer: Option<Replacer>,
    pub(super) grower: Grower,
    /// What can be done about a refusal, in the words of the program that serves.
    pub(super) advise: Advise,
}

/// What came of it: why not, if so.
#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    refused: Option<String>,
    /// Whether the new one is in use all the same.
    #[serde(default)]
    is_taken: bool,
    /// How the volume has grown, or would.
    #[serde(default)]
    grown: Option<Grown>,
}

/// Takes orders, for as long as the loop runs.
pub(super) fn serve(event_loop: &Loop, listener: Listener, workers: Workers) {
    let env = event_loop.clone();
    event_loop.spawn(async move {
        loop {
            let Ok(stream) = listener.accept().await else {
                env.sleep(ACCEPT_AGAIN_NS).await;
                continue;
            };
            let (limit, workers) = (env.clone(), workers.clone());
            // An order that has begun is carried out, whoever waits for it.
            env.spawn(async move {
                let silence = async {
                    limit.sleep(ORDER_MAX_NS).await;
                    None
                };
                if let Some(order) = race(read(&stream), silence).await {
                    let answer = carry_out(&order, &workers).await;
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

async fn carry_out(order: &[u8], workers: &Workers) -> Answer {
    let replacer = || {
        let no_mirror = || VolumeError::Refused("layout single has no member to be replaced".to_owned());
        workers.replacer.as_ref().ok_or_else(no_mirror)
    };
    let answered = match serde_json::from_slice(order) {
        Ok(Order::Consider(question)) => match replacer() {
            Ok(replacer) => replacer.consider(&question).await.map(|()| None),
            Err(error) => Err(error),
        },
        Ok(Order::Replace(replacement)) => match replacer() {
            Ok(replacer) => replacer.replace(&replacement).await.map(|()| None),
            Err(error) => Err(error),
        },
        Ok(Order::Grow { size_bytes, dry_run: true }) => workers.grower.plan(size_bytes).await.map(Some),
        Ok(Order::Grow { size_bytes, dry_run: false }) => workers.grower.grow(size_bytes).await.map(Some),
        Err(error) => Err(VolumeError::Refused(format!("the order is none: {error}"))),
    };
    let is_taken = matches!(answered, Err(VolumeError::Undescribed(_)));
    let (grown, error) = match answered {
        Ok(grown) => (grown, None),
        Err(error) => (None, Some(error)),
    };
    let refused = error.map(|error| error.explained(workers.advise)).map(|why| match is_taken {
        true => format!("{why}; correct that, and have it name the new one there before the next start"),
        false => why,
    });
    Answer { refused, is_taken, grown }
}

/// Asks the server of the volume in `folder` whether it would replace a member; `None` where nobody serves it.
///
/// # Errors
///
/// Why it would not, or that it gave no answer.
pub fn consider(folder: &Path, question: Question) -> Option<Result<(), VolumeError>> {
    give(folder, &Order::Consider(question)).map(|answered| answered.map(drop))
}

/// Has the server of the volume in `folder` replace a member; `None` where nobody serves it.
///
/// # Errors
///
/// Why it refused, or gave no answer.
pub fn replace(folder: &Path, replacement: Replacement) -> Option<Result<(), VolumeError>> {
    give(folder, &Order::Replace(replacement)).map(|answered| answered.map(drop))
}

/// Has the server of the volume in `folder` make it offer `size_bytes`, or say what that would take; `None` where nobody
/// serves it.
///
/// # Errors
///
/// Why it refused, or gave no answer.
pub fn grow(folder: &Path, size_bytes: u64, dry_run: bool) -> Option<Result<Grown, VolumeError>> {
    let answered = give(folder, &Order::Grow { size_bytes, dry_run })?;
    Some(answered.and_then(|grown| {
        let no_word = || io::Error::new(io::ErrorKind::InvalidData, "its answer does not say how");
        grown.ok_or_else(|| unanswered(folder, no_word()))
    }))
}

fn give(folder: &Path, order: &Order) -> Option<Result<Option<Grown>, VolumeError>> {
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
        let left = || io::Error::new(io::ErrorKind::UnexpectedEof, "it went away before it had answered");
        if !text.ends_with('\n') {
            return Err(left());
        }
        let garbled = |_| io::Error::new(io::ErrorKind::InvalidData, "its answer is none of this version");
        serde_json::from_str(&text).map_err(garbled)
    };
    Some(match answered() {
        Ok(Answer { refused: None, grown, .. }) => Ok(grown),
        Ok(Answer { refused: Some(why), is_taken: true, .. }) => Err(VolumeError::Undescribed(why)),
        Ok(Answer { refused: Some(why), is_taken: false, .. }) => Err(VolumeError::Refused(why)),
        Err(error) => Err(unanswered(folder, error)),
    })
}

fn unanswered(folder: &Path, source: io::Error) -> VolumeError {
    VolumeError::Unanswered { folder: folder.to_owned(), source }
}
