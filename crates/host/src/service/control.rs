//! Orders to the server of a volume: a socket in the volume's folder, for this user only.
//!
//! One connection gives one order, a JSON object in a line; the answer is another. A conversion takes long: before its answer there
//! are lines that say how far it is, and whoever ordered it gives it up by ending its side of the connection.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::pending;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use evenkeel_engine::env::Env;
use serde::{Deserialize, Serialize};

use super::ACCEPT_AGAIN_NS;
use super::conversion::{Conversions, Outcome};
use super::events::{About, Kind, Reporter};
use crate::event_loop::{Loop, race};
use crate::net::{ByteStream, Listener, Stream, connect_unix_blocking};
use crate::remedy::Advise;
use crate::volume::convert_served::{Converter, Progress};
use crate::volume::grow::{Grower, Grown};
use crate::volume::replace::{Question, Replacement, Replacer};
use crate::volume::{CONTROL_SOCKET, VolumeError};
use crate::wait::{self, Raced};

/// Longest order, with its end.
const ORDER_MAX_BYTES: usize = 16 << 10;

/// How long the whole of an order may take to come.
const ORDER_MAX_NS: u64 = 1_000_000_000;

/// How long its answer may take to be taken.
const ANSWER_MAX_NS: u64 = 1_000_000_000;

/// Between two lines that say how far an order is.
const STAGE_EVERY_NS: u64 = 200_000_000;

/// What is answered where an order was given up, by whoever gave it or by a stop.
const GIVEN_UP: &str = "the conversion was given up, and the volume is what it was";

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
    /// Say whether the volume can be converted now, and change nothing.
    ConsiderConversion,
    /// Have the members take the place of those there are that are described in this folder.
    Convert { from: PathBuf },
}

/// Handles that carry orders out.
#[derive(Clone)]
pub(super) struct Workers {
    /// Replaces members, of a mirror.
    pub(super) replacer: Option<Replacer>,
    pub(super) grower: Grower,
    /// Converts the volume; `None` where nothing of it is changed.
    pub(super) converter: Option<Converter>,
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
    /// Pages with contents that were copied, where it is converted.
    #[serde(default)]
    converted_pages: Option<u64>,
}

/// How far an order is that takes long.
#[derive(Debug, Serialize, Deserialize)]
struct Stage {
    doing: String,
    done_bytes: u64,
    all_bytes: u64,
}

/// A line of the server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Stage(Stage),
    Answer(Answer),
}

/// Who takes orders. A clone is another handle to the same.
#[derive(Clone)]
pub(super) struct Desk {
    event_loop: Loop,
    workers: Rc<RefCell<Workers>>,
    conversions: Conversions,
    reporter: Reporter,
}

impl Desk {
    pub(super) fn new(
        event_loop: &Loop,
        workers: Workers,
        conversions: &Conversions,
        reporter: &Reporter,
    ) -> Self {
        let workers = Rc::new(RefCell::new(workers));
        let (event_loop, conversions) = (event_loop.clone(), conversions.clone());
        Self { event_loop, workers, conversions, reporter: reporter.clone() }
    }

    /// From now on these carry orders out.
    pub(super) fn put(&self, workers: Workers) {
        self.workers.replace(workers);
    }
}

/// Takes orders, for as long as the loop runs.
pub(super) fn serve(event_loop: &Loop, listener: Listener, desk: &Desk) {
    let (env, desk) = (event_loop.clone(), desk.clone());
    event_loop.spawn(async move {
        loop {
            let Ok(stream) = listener.accept().await else {
                env.sleep(ACCEPT_AGAIN_NS).await;
                continue;
            };
            let (limit, desk) = (env.clone(), desk.clone());
            // An order that has begun is carried out, whoever waits for it.
            env.spawn(async move {
                let silence = async {
                    limit.sleep(ORDER_MAX_NS).await;
                    None
                };
                if let Some(order) = race(read(&stream), silence).await {
                    let answer = desk.carry_out(&stream, &order).await;
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

impl Desk {
    async fn carry_out(&self, stream: &Stream, order: &[u8]) -> Answer {
        let workers = self.workers.borrow().clone();
        let mut done = Answer { refused: None, is_taken: false, grown: None, converted_pages: None };
        let Err(error) = self.try_to(stream, order, &workers, &mut done).await else { return done };
        let is_taken = matches!(error, VolumeError::Undescribed(_));
        let why = error.explained(workers.advise);
        let is_replacement = matches!(serde_json::from_slice(order), Ok(Order::Replace(_)));
        let why = match is_taken && is_replacement {
            true => format!("{why}; correct that, and have it name the new one there before the next start"),
            false => why,
        };
        Answer { refused: Some(why), is_taken, ..done }
    }

    async fn try_to(
        &self,
        stream: &Stream,
        order: &[u8],
        workers: &Workers,
        done: &mut Answer,
    ) -> Result<(), VolumeError> {
        let replacer = || {
            let no_mirror = || VolumeError::Refused("layout single has no member to be replaced".to_owned());
            workers.replacer.as_ref().ok_or_else(no_mirror)
        };
        let converter = || {
            let not_now = "it is served so that nothing of it changes: serve it otherwise first";
            workers.converter.as_ref().ok_or_else(|| VolumeError::Refused(not_now.to_owned()))
        };
        match serde_json::from_slice(order) {
            Ok(Order::Consider(question)) => {
                let _under_way = self.conversions.begin_other()?;
                replacer()?.consider(&question).await
            }
            Ok(Order::Replace(replacement)) => {
                let _under_way = self.conversions.begin_other()?;
                replacer()?.replace(&replacement).await
            }
            Ok(Order::Grow { size_bytes, dry_run }) => {
                let _under_way = self.conversions.begin_other()?;
                done.grown = Some(match dry_run {
                    true => workers.grower.plan(size_bytes).await?,
                    false => workers.grower.grow(size_bytes).await?,
                });
                Ok(())
            }
            Ok(Order::ConsiderConversion) => {
                self.conversions.check_can_begin()?;
                converter()?.check()
            }
            Ok(Order::Convert { from }) => {
                let converter = converter()?;
                done.converted_pages = Some(self.convert(stream, converter, &from).await?);
                Ok(())
            }
            Err(error) => Err(VolumeError::Refused(format!("the order is none: {error}"))),
        }
    }

    /// Converts the volume, unless its client ends the connection; answers how many pages had contents.
    async fn convert(&self, stream: &Stream, converter: &Converter, from: &Path) -> Result<u64, VolumeError> {
        let begun = || {
            let begun = format!("the volume is copied to the members described in {}", from.display());
            self.reporter.report(Kind::ConversionBegun, &About::default(), begun);
        };
        let progress = Rc::new(Progress::default());
        let left = async {
            // It has nothing more to say.
            let _end_or_error = stream.read(vec![0], 0).await;
        };
        let converting = self.conversions.convert(&self.event_loop, converter, from, &progress, begun, left);
        let telling = self.tell_stages(stream, &progress);
        let Raced::First(converted) = wait::race(converting, telling).await;
        let ended = converted.and_then(|outcome| match outcome {
            Outcome::Converted { pages, not_closed } => {
                if let Some(error) = not_closed {
                    let why = format!("the members that it had were not closed in order: {error}");
                    self.reporter.report(Kind::FormerNotClosed, &About::default(), why);
                }
                Ok(pages)
            }
            Outcome::GivenUp => Err(VolumeError::Refused(GIVEN_UP.to_owned())),
        });
        if let Err(error) = &ended {
            let why = format!("the volume is not converted: {error}");
            self.reporter.report(Kind::ConversionFailed, &About::default(), why);
        }
        ended
    }

    /// Says how far it is, now and then.
    async fn tell_stages(&self, stream: &Stream, progress: &Progress) -> Infallible {
        loop {
            self.event_loop.sleep(STAGE_EVERY_NS).await;
            let stage = Stage {
                doing: progress.doing.get().to_owned(),
                done_bytes: progress.done_bytes.get(),
                all_bytes: progress.all_bytes.get(),
            };
            let text = serde_json::to_string(&stage).expect("a text can be written");
            let write = async { stream.write(format!("{text}\n").into_bytes()).await.0.is_ok() };
            let limit = async {
                self.event_loop.sleep(ANSWER_MAX_NS).await;
                false
            };
            if !race(write, limit).await {
                // Who does not read is told no more of it.
                pending::<()>().await;
            }
        }
    }
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

/// A conversion that the server of a volume was told to make.
#[derive(Debug)]
pub struct ConversionOrder {
    folder: PathBuf,
    stream: UnixStream,
}

/// Asks the server of the volume in `folder` whether it would convert it, as far as is known before the new members are there; `None`
/// where nobody serves it.
///
/// # Errors
///
/// Why it would not, or that it gave no answer.
pub fn consider_conversion(folder: &Path) -> Option<Result<(), VolumeError>> {
    give(folder, &Order::ConsiderConversion).map(|answered| answered.map(drop))
}

/// Has the server of the volume in `folder` convert it to the members that are described in `from`; `None` where nobody serves it.
///
/// # Errors
///
/// Where it cannot be told.
pub fn convert(folder: &Path, from: &Path) -> Option<Result<ConversionOrder, VolumeError>> {
    let order = Order::Convert { from: from.to_owned() };
    let told = tell(folder, &order)?;
    Some(told.map(|stream| ConversionOrder { folder: folder.to_owned(), stream }))
}

impl ConversionOrder {
    /// Gives it up, unless it is too late: [`Self::wait`] says which.
    pub fn give_up(&self) {
        let _it_may_have_ended = self.stream.shutdown(Shutdown::Write);
    }

    /// Waits no more: [`Self::wait`] ends, whatever became of it.
    pub fn leave(&self) {
        let _it_may_have_ended = self.stream.shutdown(Shutdown::Both);
    }

    /// Waits for its end. `progress` is told what is being done, bytes done and bytes in all.
    ///
    /// # Errors
    ///
    /// Those of the connection.
    pub fn wait(&self, mut progress: impl FnMut(&str, u64, u64)) -> io::Result<ConversionEnd> {
        let mut lines = BufReader::new(&self.stream);
        loop {
            match read_line(&mut lines)? {
                Line::Stage(stage) => progress(&stage.doing, stage.done_bytes, stage.all_bytes),
                Line::Answer(answer) => return Ok(ConversionEnd(answer)),
            }
        }
    }

    /// How many pages had contents, of one that [`Self::wait`] answers.
    ///
    /// # Errors
    ///
    /// [`VolumeError::Refused`] where the volume is what it was. [`VolumeError::Unanswered`] and [`VolumeError::Undescribed`] where it
    /// may be converted.
    pub fn pages(&self, ended: io::Result<ConversionEnd>) -> Result<u64, VolumeError> {
        let ConversionEnd(answer) = ended.map_err(|error| unanswered(&self.folder, error))?;
        let no_word = || io::Error::new(io::ErrorKind::InvalidData, "its answer does not say how");
        answer.done()?.converted_pages.ok_or_else(|| unanswered(&self.folder, no_word()))
    }
}

/// The server's answer.
#[derive(Debug)]
pub struct ConversionEnd(Answer);

impl Answer {
    fn done(self) -> Result<Self, VolumeError> {
        match (self.refused, self.is_taken) {
            (None, _) => Ok(Self { refused: None, ..self }),
            (Some(why), true) => Err(VolumeError::Undescribed(why)),
            (Some(why), false) => Err(VolumeError::Refused(why)),
        }
    }
}

fn give(folder: &Path, order: &Order) -> Option<Result<Option<Grown>, VolumeError>> {
    let told = tell(folder, order)?;
    Some(told.and_then(|stream| match read_line(&mut BufReader::new(stream)) {
        Ok(Line::Answer(answer)) => answer.done().map(|answer| answer.grown),
        Ok(Line::Stage(_)) => Err(unanswered(folder, garbled())),
        Err(error) => Err(unanswered(folder, error)),
    }))
}

/// Gives the server of the volume an order, and waits for nothing; `None` where nobody serves it.
fn tell(folder: &Path, order: &Order) -> Option<Result<UnixStream, VolumeError>> {
    use io::ErrorKind::{ConnectionRefused, NotFound};
    let mut stream = match connect_unix_blocking(&folder.join(CONTROL_SOCKET)) {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), NotFound | ConnectionRefused) => return None,
        Err(error) => return Some(Err(unanswered(folder, error))),
    };
    let told = || -> io::Result<UnixStream> {
        stream.set_read_timeout(Some(ANSWER_WAITED_FOR))?;
        let mut text = serde_json::to_string(order)?;
        text.push('\n');
        stream.write_all(text.as_bytes())?;
        Ok(stream)
    };
    Some(told().map_err(|error| unanswered(folder, error)))
}

/// The next line of a server.
fn read_line(from: &mut impl BufRead) -> io::Result<Line> {
    let mut text = String::new();
    from.take(ANSWER_MAX_BYTES).read_line(&mut text)?;
    let left = || io::Error::new(io::ErrorKind::UnexpectedEof, "it went away before it had answered");
    if !text.ends_with('\n') {
        return Err(left());
    }
    serde_json::from_str(&text).map_err(|_| garbled())
}

fn garbled() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "its answer is none of this version")
}

fn unanswered(folder: &Path, source: io::Error) -> VolumeError {
    VolumeError::Unanswered { folder: folder.to_owned(), source }
}
