//! The status over HTTP: a page, documents and metrics, to be read.
//!
//! ```text
//! mod        addresses; a thread with a loop of its own, which accepts and answers
//!   request    what is asked for, and whether it is answered at all
//!   answers    what is answered
//!   exchange   moments of the volume, between its loop and this one
//!   history    what it did in the last minutes
//!   fuzzing    any bytes as a client
//!   page       what a browser shows: its files, in page/
//! ```
//!
//! 1. The volume's loop only takes moments: one at a time, with a pause between, however many ask. All else is done here.
//! 2. Nothing is changed by a request. All of a request, its time and its answer are bounded, and so is the number of
//!    connections: the oldest makes room for the next, so whoever connects and asks for nothing keeps nobody waiting.
//! 3. Other machines are listened to only where somebody said so.

mod answers;
mod exchange;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod history;
mod page;
mod request;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use evenkeel_engine::env::Env;

use super::metrics;
use super::scrape::Scrape;
use super::status::SharedWatched;
use crate::event_loop::{Backend, EventLoop, Loop, race};
use crate::net::{ByteStream, Listener, Stream, bind_tcp};
use crate::remedy::Advise;
use answers::Answer;
use exchange::Exchange;
use history::{SAMPLE_EVERY_NS, Samples};
use request::{HEAD_MAX_BYTES, Hosts, Request};

/// How long a request may take to come, its answer to be made, and all of it to be read.
const HEAD_MAX_NS: u64 = 5_000_000_000;
const ANSWER_MAX_NS: u64 = 5_000_000_000;
const READ_MAX_NS: u64 = 10_000_000_000;

/// Connections at a time, of each address.
const CONNECTIONS_MAX: usize = 16;

/// Where the page is, and who may see it.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// `HOST:PORT`.
    pub address: String,
    /// Whether other machines may.
    pub is_public: bool,
    /// Names by which it is asked, beside addresses and `localhost`.
    pub names: Vec<String>,
}

/// What there is at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Offer {
    /// The metrics alone.
    Metrics,
    /// The page, and all that it shows.
    Everything,
}

/// An address that is listened on; whoever connects waits to be accepted.
#[derive(Debug)]
pub(super) struct Site {
    socket: OwnedFd,
    pub(super) at: SocketAddr,
    offer: Offer,
    hosts: Hosts,
}

impl Site {
    /// Listens for scrapes.
    ///
    /// # Errors
    ///
    /// Those of the name's resolution, `bind` and `listen`.
    pub(super) fn of_metrics(address: &str) -> io::Result<Self> {
        let (socket, at) = bind_tcp(address)?;
        Ok(Self { socket, at, offer: Offer::Metrics, hosts: Hosts::Any })
    }

    /// Listens for browsers.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` for an address that other machines reach, unless they may; as [`Self::of_metrics`].
    pub(super) fn of_page(options: &HttpOptions) -> io::Result<Self> {
        let addresses: Vec<SocketAddr> = options.address.to_socket_addrs()?.collect();
        let is_near = |address: &SocketAddr| address.ip().to_canonical().is_loopback();
        if !options.is_public && !addresses.iter().all(is_near) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "other machines reach it"));
        }
        let (socket, at) = bind_tcp(&addresses[..])?;
        Ok(Self { socket, at, offer: Offer::Everything, hosts: Hosts::Named(options.names.clone()) })
    }
}

/// The thread that answers, for as long as this is there.
pub(super) struct Server {
    exchange: Arc<Exchange>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.exchange.close();
        if let Some(thread) = self.thread.take() {
            let _it_panicked_and_said_so = thread.join();
        }
    }
}

/// Answers whoever connects to `sites`; `None` where there is none.
///
/// # Errors
///
/// Where there is no room for a thread or its loop.
pub(super) fn serve(
    event_loop: &Loop,
    sites: Vec<Site>,
    watched: SharedWatched,
    advise: Advise,
) -> io::Result<Option<Server>> {
    if sites.is_empty() {
        return Ok(None);
    }
    let exchange = Arc::new(Exchange::default());
    let (began, begins) = sync_channel(1);
    let thread = {
        let exchange = Arc::clone(&exchange);
        thread::Builder::new().name("http".to_owned()).spawn(move || run(sites, exchange, advise, &began))?
    };
    let server = Server { exchange: Arc::clone(&exchange), thread: Some(thread) };
    begins.recv().unwrap_or_else(|_| Err(io::Error::other("its thread ended")))?;
    let env = event_loop.clone();
    event_loop.spawn(async move { exchange.give(&env, || Scrape::of(&watched.now())).await });
    Ok(Some(server))
}

/// The thread.
fn run(sites: Vec<Site>, exchange: Arc<Exchange>, advise: Advise, began: &SyncSender<io::Result<()>>) {
    let begin = || {
        let event_loop = EventLoop::new(Backend::Threads)?;
        let env = event_loop.handle();
        let has_page = sites.iter().any(|site| site.offer == Offer::Everything);
        let samples = Rc::new(RefCell::new(Samples::default()));
        for Site { socket, offer, hosts, .. } in sites {
            let listener = Listener::from_fd(&env, socket)?;
            let desk =
                Desk { offer, hosts, exchange: Arc::clone(&exchange), samples: Rc::clone(&samples), advise };
            accept(&env, listener, Rc::new(desk));
        }
        if has_page {
            sample(&env, Arc::clone(&exchange), samples);
        }
        Ok(event_loop)
    };
    match begin() {
        Ok(event_loop) => {
            let _told = began.send(Ok(()));
            event_loop.block_on(exchange.closed());
        }
        Err(error) => {
            let _told = began.send(Err(error));
        }
    }
}

/// Keeps what the volume does.
fn sample(event_loop: &Loop, exchange: Arc<Exchange>, samples: Rc<RefCell<Samples>>) {
    let env = event_loop.clone();
    event_loop.spawn(async move {
        let mut due_ns = env.now_ns();
        while let Some(scrape) = exchange.ask().await {
            samples.borrow_mut().take(&scrape.document);
            let now_ns = env.now_ns();
            // Nothing is made up for after a loop that was held.
            due_ns = (due_ns + SAMPLE_EVERY_NS).max(now_ns);
            env.sleep(due_ns - now_ns).await;
        }
    });
}

/// What answers need.
struct Desk {
    offer: Offer,
    hosts: Hosts,
    exchange: Arc<Exchange>,
    samples: Rc<RefCell<Samples>>,
    advise: Advise,
}

fn accept(event_loop: &Loop, listener: Listener, desk: Rc<Desk>) {
    let env = event_loop.clone();
    let mut open: VecDeque<Rc<Stream>> = VecDeque::new();
    event_loop.spawn(async move {
        loop {
            let Ok(stream) = listener.accept().await else {
                env.sleep(super::ACCEPT_AGAIN_NS).await;
                continue;
            };
            let stream = Rc::new(stream);
            open.retain(|stream| Rc::strong_count(stream) > 1);
            if open.len() == CONNECTIONS_MAX
                && let Some(oldest) = open.pop_front()
            {
                oldest.shutdown();
            }
            open.push_back(Rc::clone(&stream));
            let (desk, limit) = (Rc::clone(&desk), env.clone());
            env.spawn(async move {
                if let Some(answer) =
                    race(desk.hear(&stream, &limit), nothing_after(&limit, HEAD_MAX_NS + ANSWER_MAX_NS)).await
                {
                    let write = async {
                        let _a_reader_that_left_is_fine = stream.write(answer).await;
                    };
                    race(write, limit.sleep(READ_MAX_NS)).await;
                }
                stream.shutdown();
            });
        }
    });
}

async fn nothing_after<T>(env: &Loop, ns: u64) -> Option<T> {
    env.sleep(ns).await;
    None
}

impl Desk {
    /// Hears a request; what is to be answered, if anything.
    async fn hear(&self, stream: &Stream, env: &Loop) -> Option<Vec<u8>> {
        let head = race(async { Some(read_head(stream).await) }, nothing_after(env, HEAD_MAX_NS)).await?;
        let head = match head? {
            Ok(head) => head,
            Err(answer) => return Some(answer.into_bytes(true)),
        };
        Some(match Request::parse(&head, &self.hosts) {
            Ok(request) => {
                let made =
                    race(async { Some(self.answer(&request).await) }, nothing_after(env, ANSWER_MAX_NS))
                        .await;
                made.unwrap_or_else(Answer::busy).into_bytes(request.wants_body)
            }
            Err(why) => Answer::refused(why, self.advise).into_bytes(!head.starts_with(b"HEAD ")),
        })
    }

    async fn answer(&self, request: &Request) -> Answer {
        match (request.path.as_str(), self.offer) {
            ("/metrics", _) => match self.exchange.ask().await {
                Some(scrape) => Answer::found(answers::METRICS, metrics::render(&scrape)),
                None => Answer::busy(),
            },
            (_, Offer::Metrics) => Answer::nothing("the metrics are at /metrics"),
            ("/status.json", Offer::Everything) => match self.exchange.ask().await {
                Some(scrape) => Answer::found(answers::JSON, scrape.document.to_json()),
                None => Answer::busy(),
            },
            ("/history.json", Offer::Everything) => {
                let history = self.samples.borrow().after(request.number("after"));
                let text = serde_json::to_vec(&history).expect("names and numbers can be written");
                Answer::found(answers::JSON, text)
            }
            (path, Offer::Everything) => match page::file(path) {
                Some((content_type, text)) => Answer::found(content_type, text),
                None => Answer::nothing("there are /, /status.json, /history.json and /metrics"),
            },
        }
    }
}

/// The head of a request, or what is answered to one that is too long; `None` where its client left before its end.
async fn read_head(stream: &Stream) -> Option<Result<Vec<u8>, Answer>> {
    let (mut head, mut len) = (vec![0; HEAD_MAX_BYTES], 0);
    while !request::is_whole(&head[..len]) {
        if len == head.len() {
            return Some(Err(Answer::too_long()));
        }
        let came;
        (came, head) = stream.read(head, len).await;
        match came {
            Ok(count) if count > 0 => len += count,
            _ => return None,
        }
    }
    head.truncate(len);
    Some(Ok(head))
}
