//! The client's side: any number of requests under way over one connection.
//!
//! 1. What the server sends is hostile, too: it is bounded before anything is allocated for it, and ends this
//!    connection at worst.
//! 2. After the connection broke, every request fails, those under way and those to come. Nothing is sent
//!    twice.
//! 3. A request whose future is dropped is under way all the same; its reply is thrown away.
//! 4. A server that leaves a request without its answer for [`ConnectOptions::answer_max_ns`] is taken for lost, whatever
//!    else it says meanwhile.
//!
//! What is under way is not bounded here: callers bound it.

mod connect;
mod drive;
mod error;
mod handshake;
mod pending;
mod replies;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_engine::device::{Durability, Extent, FlushScope};
use evenkeel_engine::env::Env;

use super::proto::transmission::{Headers, Request};
use super::proto::writer::Writer;
use super::proto::{command, command_flag, status, transmission_flag};
use super::send_queue::SendQueue;
use super::tls::{TlsClient, Wire};
use crate::nbd::proto::handshake::BlockSizes;
use crate::net::ByteStream;
use crate::wait::{Notify, Raced, race};
use pending::{Answer, Expected, Pending, Reply};

pub use connect::{NotConnected, connect};
pub use drive::NbdDrive;
pub(crate) use drive::check_writes;
pub use error::ClientError;

/// What a client asks for.
#[derive(Debug, Clone)]
pub struct ConnectOptions {
    /// Which export; the one without a name is whatever the server has.
    pub export: String,
    /// The newest headers to ask for; the server may not know them.
    pub headers: Headers,
    /// Whether to ask for range flush.
    pub range_flush: bool,
    /// Who is to be the only one that writes; a server that does not know this leaves it ungranted, and one that knows no
    /// numbers grants it without.
    pub writer: Option<Writer>,
    /// TLS, without which nothing is then said.
    pub tls: Option<TlsClient>,
    /// From the first byte to the end of the handshake.
    pub handshake_max_ns: u64,
    /// From a request to the end of its answer; after up to an eighth more the connection is broken.
    pub answer_max_ns: u64,
}

/// Looks at what is under way while one request may wait for its answer.
const LOOKS: u32 = 8;

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            export: String::new(),
            headers: Headers::Extended,
            range_flush: true,
            writer: None,
            tls: None,
            handshake_max_ns: 10_000_000_000,
            answer_max_ns: 30_000_000_000,
        }
    }
}

/// What was negotiated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Negotiated {
    /// Bytes that the export offers.
    pub size_bytes: u64,
    /// Of [`transmission_flag`].
    pub flags: u16,
    /// Which requests it takes.
    pub block_sizes: BlockSizes,
    /// Which headers are spoken.
    pub headers: Headers,
    /// Whether a flush may name a range.
    pub range_flush: bool,
    /// Whether nothing of those who wrote before is carried out any more, and only [`ConnectOptions::writer`] writes.
    pub is_exclusive: bool,
    /// The number under which it does, of a server that knows numbers.
    pub number: Option<u64>,
    /// The number of the context that tells what is allocated, if it was granted.
    allocation_id: Option<u32>,
}

impl Negotiated {
    /// Whether the export has all of `flags`.
    pub const fn has(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }

    /// Whether it was let in to find out its number: what it writes is refused.
    pub fn only_looks(&self) -> bool {
        self.number == Some(0)
    }
}

struct Inner<S: ByteStream> {
    wire: Wire<S>,
    negotiated: Negotiated,
    send_queue: SendQueue<()>,
    pending: RefCell<Pending>,
    failure: RefCell<Option<ClientError>>,
    failed: Notify,
    is_closing: Cell<bool>,
}

impl<S: ByteStream> Inner<S> {
    /// Everything under way fails, and everything to come.
    fn fail(&self, error: ClientError) {
        self.failure.borrow_mut().get_or_insert(error.clone());
        // Before those whose requests fail with it: the cause is known before its effects.
        self.failed.all();
        self.pending.borrow_mut().fail_all(&error);
        self.send_queue.close();
        self.wire.shutdown();
    }

    /// Breaks the connection once the server has left a request without its answer for too long.
    async fn watch_over_answers(&self, env: &impl Env, answer_max_ns: u64) {
        let failed = self.failed.until(|| self.failure.borrow().is_some().then_some(()));
        let mut failed = std::pin::pin!(failed);
        let pause_ns = (answer_max_ns / u64::from(LOOKS)).max(1);
        while let Raced::Second(()) = race(failed.as_mut(), env.sleep(pause_ns)).await {
            if self.pending.borrow_mut().look() > LOOKS {
                let waited_s = answer_max_ns.div_ceil(1_000_000_000);
                let why = format!("the server has not answered a request for {waited_s} s");
                return self.fail(ClientError::Broken(why.into()));
            }
        }
    }

    async fn send_requests(&self) {
        while let Some((bytes, ())) = self.send_queue.next().await {
            let (sent, bytes) = self.wire.write(bytes).await;
            self.send_queue.recycle(bytes);
            if let Err(error) = sent {
                return self.fail(error.into());
            }
            if self.is_closing.get() && self.send_queue.is_empty() {
                self.wire.say_goodbye().await;
                return self.fail(ClientError::Broken("it was closed".into()));
            }
        }
    }
}

/// The last handle says goodbye.
struct Handle<S: ByteStream>(Rc<Inner<S>>);

impl<S: ByteStream> Drop for Handle<S> {
    fn drop(&mut self) {
        self.0.is_closing.set(true);
        let request = Request { flags: 0, command: command::DISCONNECT, cookie: 0, offset: 0, len: 0 };
        self.0.send_queue.append((), |out| request.encode(out, self.0.negotiated.headers));
    }
}

/// A connection to an export. A clone is another handle to it; when the last one is dropped, it ends.
pub struct Client<S: ByteStream>(Rc<Handle<S>>);

impl<S: ByteStream> Clone for Client<S> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<S: ByteStream> Client<S> {
    /// Shakes hands over `stream`; sends and receives in tasks of `env`.
    ///
    /// # Errors
    ///
    /// [`ClientError`] where the server refuses, does not answer in time, or speaks something else.
    pub async fn connect<E: Env>(env: &E, stream: S, options: &ConnectOptions) -> Result<Self, ClientError> {
        let shaken = race(handshake::run(stream, options), env.sleep(options.handshake_max_ns)).await;
        let (wire, input, negotiated) = match shaken {
            Raced::First(shaken) => shaken?,
            Raced::Second(()) => return Err(ClientError::Broken("the handshake took too long".into())),
        };
        let inner = Rc::new(Inner {
            wire,
            negotiated,
            send_queue: SendQueue::new(Rc::default()),
            pending: RefCell::default(),
            failure: RefCell::new(None),
            failed: Notify::default(),
            is_closing: Cell::new(false),
        });
        let (sender, receiver) = (Rc::clone(&inner), Rc::clone(&inner));
        let (watcher, time, answer_max_ns) = (Rc::clone(&inner), env.clone(), options.answer_max_ns);
        env.spawn(async move { sender.send_requests().await });
        env.spawn(async move { watcher.watch_over_answers(&time, answer_max_ns).await });
        env.spawn(async move { receiver.receive_replies(input).await });
        Ok(Self(Rc::new(Handle(inner))))
    }

    /// What was negotiated.
    pub fn negotiated(&self) -> &Negotiated {
        &self.0.0.negotiated
    }

    /// Why the connection is of no use any more, if so.
    pub fn failure(&self) -> Option<ClientError> {
        self.0.0.failure.borrow().clone()
    }

    /// Waits until the connection is of no use any more; what is returned does not keep it up.
    pub fn broken(&self) -> impl Future<Output = ClientError> + use<S> {
        let inner = Rc::clone(&self.0.0);
        async move { inner.failed.until(|| inner.failure.borrow().clone()).await }
    }

    /// Sends a request; the answer is awaited apart from it.
    fn submit(
        &self,
        flags: u16,
        command: u16,
        extent: Extent,
        payload: &[u8],
        expected: Expected,
    ) -> Reply<S> {
        let inner = &self.0.0;
        let negotiated = &inner.negotiated;
        if let Some(error) = inner.failure.borrow().clone() {
            return Reply::failed(error);
        }
        let is_extended = negotiated.headers == Headers::Extended;
        if !is_extended && extent.len > u32::MAX.into() {
            return Reply::failed(ClientError::NotOffered("requests beyond 4 GiB"));
        }
        let payload_flag =
            if is_extended && command == command::WRITE { command_flag::PAYLOAD_LEN } else { 0 };
        let cookie = inner.pending.borrow_mut().add(extent, expected);
        let flags = flags | payload_flag;
        let request = Request { flags, command, cookie, offset: extent.offset, len: extent.len };
        inner.send_queue.append((), |out| {
            request.encode(out, negotiated.headers);
            out.extend_from_slice(payload);
        });
        Reply::to(Rc::clone(inner), cookie)
    }

    fn fua(durability: Durability) -> u16 {
        match durability {
            Durability::Buffered => 0,
            Durability::Durable => command_flag::FUA,
        }
    }

    fn needs(&self, flag: u16, what: &'static str) -> Result<(), ClientError> {
        if self.negotiated().has(flag) { Ok(()) } else { Err(ClientError::NotOffered(what)) }
    }

    fn needs_fua(&self, durability: Durability) -> Result<(), ClientError> {
        match durability {
            Durability::Buffered => Ok(()),
            Durability::Durable => self.needs(transmission_flag::SEND_FUA, "durable writes"),
        }
    }

    /// Fills `into` from `offset`: one request, up to the largest block size.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), ClientError> {
        if into.is_empty() {
            return Ok(());
        }
        let extent = Extent::new(offset, into.len() as u64);
        match self.submit(0, command::READ, extent, &[], Expected::data(into.len())).await? {
            Answer::Data(bytes) => into.copy_from_slice(&bytes),
            Answer::Done | Answer::Status(_) => unreachable!("a read is answered with data"),
        }
        Ok(())
    }

    /// Writes `bytes` at `offset`: one request, up to the largest block size. It is on its way when this
    /// returns; the answer is awaited apart.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub fn write(
        &self,
        offset: u64,
        bytes: &[u8],
        durability: Durability,
    ) -> impl Future<Output = Result<(), ClientError>> + use<S> {
        let extent = Extent::new(offset, bytes.len() as u64);
        let reply = self
            .needs_fua(durability)
            .map(|()| self.submit(Self::fua(durability), command::WRITE, extent, bytes, Expected::Nothing));
        async move { reply?.await.map(drop) }
    }

    /// Makes completed writes durable. A scope of ranges is sent as such where that was negotiated, else
    /// everything is flushed.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn flush(&self, scope: FlushScope<'_>) -> Result<(), ClientError> {
        self.needs(transmission_flag::SEND_FLUSH, "flush")?;
        let ask = |extent| self.submit(0, command::FLUSH, extent, &[], Expected::Nothing);
        match scope {
            FlushScope::Ranges(ranges) if self.negotiated().range_flush => {
                // All on their way before the first is awaited.
                let replies: Vec<_> =
                    ranges.iter().filter(|range| range.len > 0).map(|&range| ask(range)).collect();
                for reply in replies {
                    reply.await?;
                }
            }
            _ => drop(ask(Extent::new(0, 0)).await?),
        }
        Ok(())
    }

    /// Drops the contents of `extent`.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn trim(&self, extent: Extent, durability: Durability) -> Result<(), ClientError> {
        self.needs(transmission_flag::SEND_TRIM, "trim")?;
        self.needs_fua(durability)?;
        self.submit(Self::fua(durability), command::TRIM, extent, &[], Expected::Nothing).await.map(drop)
    }

    /// Makes `extent` read as zeros.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn write_zeroes(
        &self,
        extent: Extent,
        durability: Durability,
        no_hole: bool,
    ) -> Result<(), ClientError> {
        self.needs(transmission_flag::SEND_WRITE_ZEROES, "write zeroes")?;
        self.needs_fua(durability)?;
        let flags = Self::fua(durability) | if no_hole { command_flag::NO_HOLE } else { 0 };
        self.submit(flags, command::WRITE_ZEROES, extent, &[], Expected::Nothing).await.map(drop)
    }

    /// Which bytes from `extent.offset` on have contents, as lengths; may end early.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn allocation(&self, extent: Extent) -> Result<Vec<(u64, bool)>, ClientError> {
        let Some(context) = self.negotiated().allocation_id else {
            return Err(ClientError::NotOffered("block status"));
        };
        let expected = Expected::Status { context, extents: Vec::new() };
        match self.submit(0, command::BLOCK_STATUS, extent, &[], expected).await? {
            Answer::Status(extents) => {
                Ok(extents.into_iter().map(|(len, found)| (len, found & status::HOLE == 0)).collect())
            }
            Answer::Done | Answer::Data(_) => unreachable!("block status is answered with extents"),
        }
    }
}
