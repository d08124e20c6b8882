//! The transmission phase: one task reads requests, one sends replies, and each request that is not done at
//! once has a task of its own.
//!
//! 1. A request is admitted before its payload is read or room for its reply is made; one that finds no room in time
//!    goes on in pieces ([`super::pieces`]).
//! 2. Replies that are ready leave together.
//! 3. The phase is over when every request is done and its reply has left or nobody can be told any more.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::rc::Rc;
use std::task::{Context, Waker};

use evenkeel_engine::env::Env;

use super::negotiation::Session;
use super::{Ending, Link, Shared};
use crate::front::nbd::admission::Ticket;
use crate::front::nbd::export::Export;
use crate::front::nbd::limits::TASK_BYTES_MAX;
use crate::nbd::buffer_pool::Pool;
use crate::nbd::input::Input;
use crate::nbd::proto::command;
use crate::nbd::proto::transmission::Request;
use crate::nbd::send_queue::SendQueue;
use crate::nbd::tls::Wire;
use crate::net::ByteStream;
use crate::wait::{Raced, Signal, race};

/// A connection in its transmission phase.
pub(super) struct Connection<E, X, S: ByteStream> {
    pub(super) shared: Rc<Shared<E, X>>,
    pub(super) link: Rc<Link>,
    pub(super) session: Session,
    pub(super) reply_queue: SendQueue<Ticket>,
    pub(super) pool: Rc<Pool>,
    /// Room in which headers are put together.
    pub(super) scratch: RefCell<Vec<u8>>,
    pub(super) wire: Wire<S>,
    sender_done: Cell<bool>,
    sender_ended: Signal,
}

impl<E: Env, X: Export, S: ByteStream> Connection<E, X, S> {
    /// Runs the phase to its end.
    pub(super) async fn run(
        shared: Rc<Shared<E, X>>,
        link: Rc<Link>,
        wire: Wire<S>,
        session: Session,
        input: Input,
    ) -> Ending {
        let env = shared.env.clone();
        let pool = Rc::clone(&shared.pool);
        let connection = Rc::new(Self {
            shared,
            link,
            session,
            reply_queue: SendQueue::new(Rc::clone(&pool)),
            pool,
            scratch: RefCell::default(),
            wire,
            sender_done: Cell::new(false),
            sender_ended: Signal::default(),
        });
        let sender = Rc::clone(&connection);
        env.spawn(async move { sender.send_replies().await });

        let ending = match race(connection.read_requests(input), connection.link.stopping()).await {
            Raced::First(ending) => ending,
            Raced::Second(stop) => stop.into(),
        };
        let limits = &connection.shared.limits;
        // A client that is gone is not waited for, nor one whose place a later opening takes meanwhile.
        let superseded = || connection.link.superseded();
        if !matches!(ending, Ending::TimedOut(_) | Ending::Superseded) {
            let limit = race(superseded(), env.sleep(limits.drain_max_ns));
            let _ = race(connection.drained(), limit).await;
        }
        connection.reply_queue.close();
        connection.link.long_changes.client_gone();
        if !matches!(ending, Ending::Superseded) {
            let limit = race(superseded(), env.sleep(limits.drain_max_ns));
            let _ = race(connection.wire.say_goodbye(), limit).await;
        }
        connection.wire.shutdown();
        connection.sender_ended.until(|| connection.sender_done.get().then_some(())).await;
        connection.link.admission.until_idle().await;
        ending
    }

    /// Waits until every request is done and every reply has left.
    async fn drained(&self) {
        self.link.admission.until_idle().await;
    }

    /// Sends replies until nothing more is to be sent or it fails.
    async fn send_replies(&self) {
        let sent_bytes = Cell::new(0);
        while let Some((bytes, ticket)) = self.reply_queue.next().await {
            let send = self.send(bytes, &sent_bytes);
            let sent = self.link.admission.unless_stalled(&self.shared.env, &sent_bytes, send).await;
            let Some(Ok(bytes)) = sent else { break };
            drop(ticket);
            self.reply_queue.recycle(bytes);
        }
        self.reply_queue.close();
        self.link.long_changes.client_gone();
        // The reader ends, too, if it has not yet.
        self.wire.shutdown();
        self.sender_done.set(true);
        self.sender_ended.raise();
    }

    /// Sends all of `bytes`, and counts them one send after the other.
    async fn send(&self, mut bytes: Vec<u8>, sent_bytes: &Cell<u64>) -> io::Result<Vec<u8>> {
        let mut at = 0;
        while at < bytes.len() {
            let sent;
            (sent, bytes) = self.wire.write_some(bytes, at).await;
            let sent = sent?;
            at += sent;
            sent_bytes.set(sent_bytes.get() + sent as u64);
        }
        Ok(bytes)
    }

    async fn read_requests(self: &Rc<Self>, mut input: Input) -> Ending {
        input.grow(self.shared.limits.input_bytes);
        loop {
            match self.read_request(&mut input).await {
                Ok(()) => {}
                Err(ending) => return ending,
            }
        }
    }

    /// Reads one request and starts it.
    async fn read_request(self: &Rc<Self>, input: &mut Input) -> Result<(), Ending> {
        let header_bytes = self.session.headers.request_bytes();
        while input.ready().len() < header_bytes {
            let had = input.ready().len();
            if !input.fill(&self.wire).await? {
                return Err(match had {
                    0 => Ending::Disconnected,
                    _ => Ending::Broken(io::ErrorKind::UnexpectedEof.into()),
                });
            }
        }
        let request = Request::decode(&input.ready()[..header_bytes], self.session.headers)?;
        input.consume(header_bytes);
        self.wire.note_request();
        if request.command == command::DISCONNECT {
            return Err(Ending::Disconnected);
        }
        let payload_bytes = self.payload_bytes(&request);
        let refusal = self.refusal(&request);
        if refusal.is_some() && payload_bytes > 0 {
            if payload_bytes > u32::MAX.into() {
                return Err(Ending::Refused("a request's payload is too long"));
            }
            input.skip(&self.wire, payload_bytes).await?;
        }
        let env = &self.shared.env;
        if let Some(refusal) = refusal {
            let ticket = self.link.admission.admit(env, 0, false).await;
            self.refuse(&request, refusal, ticket.expect("there is room for nothing"));
            return Ok(());
        }
        if Self::is_change(&request) && request.len > 0 {
            self.shared.note_change(&self.link);
        }
        let (bytes, is_divisible) = (self.held_bytes(&request), self.is_divisible(&request));
        let Some(ticket) = self.link.admission.admit(env, bytes, is_divisible).await else {
            return self.carry_out_in_pieces(request, input).await;
        };
        if self.reply_queue.is_closed() {
            // Nobody can be told any more. What is left in the input would be done in one go: nothing that it
            // answers would be held up in flight.
            return Err(Ending::Broken(io::ErrorKind::BrokenPipe.into()));
        }
        let payload = self.payload(input, payload_bytes).await?;
        self.start(request, payload, ticket);
        Ok(())
    }

    /// The next `len` bytes that the client sends.
    pub(super) async fn payload(&self, input: &mut Input, len: u64) -> Result<Vec<u8>, Ending> {
        if len == 0 {
            return Ok(Vec::new());
        }
        let came_bytes = input.came_bytes();
        let take = input.take(&self.wire, self.pool.take(len as usize));
        match self.link.admission.unless_stalled(&self.shared.env, &came_bytes, take).await {
            Some(taken) => Ok(taken?),
            None => Err(Ending::TimedOut("a request's payload")),
        }
    }

    /// Runs a request: here if it is done at once, else as a task.
    fn start(self: &Rc<Self>, request: Request, payload: Vec<u8>, ticket: Ticket) {
        let ticket = match self.answer_at_once(&request, ticket) {
            Ok(()) => return,
            Err(ticket) => ticket,
        };
        let connection = Rc::clone(self);
        let began_ns = self.shared.env.now_ns();
        let mut task = Box::pin(async move { connection.answer(request, payload, ticket, began_ns).await });
        debug_assert!(
            size_of_val(&*task) as u64 <= TASK_BYTES_MAX,
            "{} bytes for a request",
            size_of_val(&*task)
        );
        // A task is asked again as soon as it is spawned: nobody has to wake it for that.
        if task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            self.shared.env.spawn(task);
        }
    }
}
