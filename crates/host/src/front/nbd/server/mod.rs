//! The server's side: any number of connections to one export.
//!
//! 1. A connection ends alone: whatever its client sends, and wherever it stops, neither the others nor the
//!    server notice.
//! 2. Nothing is allocated for a client beyond [`Limits`], and it is released however the connection ends.
//! 3. A request that was begun is finished, even if nobody is left to be told.
//! 4. All places taken, a client that comes has that of a session in its handshake. A session whose transmission phase
//!    has begun keeps its place. Of a peer that has several sessions in their handshake, the one that comes among them, and
//!    most of them, the oldest of those that said least yields. Where no peer has more than one, one of those that said least yields, drawn by chance,
//!    and none before it had [`YIELDS_AFTER_NS`]: so any number of silent peers delay a client, and keep none out.
//! 5. After [`Server::stop`] no request is read any more; those under way are answered, then the connections
//!    end.

mod handshake;
mod long_changes;
mod negotiation;
mod pieces;
mod requests;
mod transmission;
mod writers;

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use evenkeel_engine::env::Env;

use super::admission::{Admission, SharedAdmission};
use super::export::Export;
use super::limits::Limits;
use crate::front::session::{ConnectionStatus, FrontStatus, Group, Peer};
use crate::front::statistics::Counting;
use crate::nbd::buffer_pool::Pool;
use crate::nbd::input::Input;
use crate::nbd::tls::{TlsServer, Wire};
use crate::net::ByteStream;
use crate::wait::{Notify, Raced, Signal, race};
use long_changes::LongChanges;
use transmission::Connection;
use writers::{Access, Newest};

/// For so long a session in its handshake keeps its place, if its peer has no other: a round trip within a site.
const YIELDS_AFTER_NS: u64 = 50_000_000;

/// How a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum Ending {
    /// The client said so, or closed the connection between two messages.
    #[error("the client ended the connection")]
    Disconnected,
    /// There were too many connections.
    #[error("refused: there are connections_max connections")]
    TooMany,
    /// The client broke the protocol, or a limit beyond which there is no answer.
    #[error("refused: {0}")]
    Refused(&'static str),
    /// The handshake, or something that others waited for, took too long.
    #[error("timed out: {0}")]
    TimedOut(&'static str),
    /// The bytes ended or failed.
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
    /// [`Server::stop`].
    #[error("the server stopped")]
    Stopped,
    /// A later opening of the same volume took its place ([`crate::nbd::proto::writer`]).
    #[error("a later opening of the same volume writes to the export now")]
    Superseded,
    /// It had not finished its handshake when all places were taken and another client came.
    #[error("its handshake had not ended when others waited for a place")]
    Evicted,
}

/// Why a connection is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    Server,
    Superseded,
    Evicted,
}

impl From<Stop> for Ending {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Server => Self::Stopped,
            Stop::Superseded => Self::Superseded,
            Stop::Evicted => Self::Evicted,
        }
    }
}

impl From<crate::nbd::proto::Malformed> for Ending {
    fn from(malformed: crate::nbd::proto::Malformed) -> Self {
        Self::Refused(malformed.0)
    }
}

/// What the server knows of one connection.
pub(crate) struct Link {
    id: u64,
    peer: Peer,
    began_ns: u64,
    admission: Rc<Admission>,
    counting: Counting,
    is_open: Cell<bool>,
    has_tls: Cell<bool>,
    access: Cell<Access>,
    /// What it said in its handshake: its flags, and options.
    progress: Cell<u32>,
    /// Its long discards and zeroings that were begun.
    long_changes: LongChanges,
    is_to_stop: Cell<Option<Stop>>,
    stop: Signal,
}

impl Link {
    /// The connection ends; the first reason counts, but that nobody waits for one which is superseded.
    fn end(&self, why: Stop) {
        match why {
            Stop::Superseded => self.is_to_stop.set(Some(why)),
            _ => self.is_to_stop.set(self.is_to_stop.get().or(Some(why))),
        }
        self.stop.raise();
    }

    /// Ends once a later opening of the same volume takes the connection's place.
    async fn superseded(&self) {
        self.stop.until(|| (self.is_to_stop.get() == Some(Stop::Superseded)).then_some(())).await;
    }

    /// Ends once the connection is to stop.
    async fn stopping(&self) -> Stop {
        self.stop.until(|| self.is_to_stop.get()).await
    }

    /// One more message of the handshake has come.
    fn note_progress(&self) {
        self.progress.set(self.progress.get() + 1);
    }

    /// Whether it may be ended for another client's sake.
    fn may_yield(&self) -> bool {
        self.access.get() == Access::Negotiating && self.is_to_stop.get().is_none()
    }
}

struct Shared<E, X> {
    env: E,
    export: X,
    limits: Limits,
    tls: Option<TlsServer>,
    shared_admission: Rc<SharedAdmission>,
    pool: Rc<Pool>,
    counting: Counting,
    links: RefCell<BTreeMap<u64, Rc<Link>>>,
    accepted: Cell<u64>,
    refused: Cell<u64>,
    evicted: Cell<u64>,
    is_stopping: Cell<bool>,
    link_ended: Notify,
    /// The newest opening that named its number.
    newest: Cell<Option<Newest>>,
}

/// A server of one export. A clone is another handle to the same server.
pub struct Server<E, X>(Rc<Shared<E, X>>);

impl<E, X> Clone for Server<E, X> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

/// A connection's place among the others, given up when it is dropped.
struct Place<E, X> {
    shared: Rc<Shared<E, X>>,
    link: Rc<Link>,
}

impl<E, X> Drop for Place<E, X> {
    fn drop(&mut self) {
        let mut links = self.shared.links.borrow_mut();
        links.remove(&self.link.id);
        if links.is_empty() {
            self.shared.pool.clear();
        }
        drop(links);
        self.shared.link_ended.all();
    }
}

impl<E: Env, X: Export> Server<E, X> {
    /// A server of `export` in the world of `env`. With `tls`, nothing is served without it.
    pub fn new(env: E, export: X, limits: Limits, tls: Option<TlsServer>) -> Self {
        let limits = limits.made_consistent(export.block_sizes(), export.whole_max_bytes());
        Self(Rc::new(Shared {
            env,
            export,
            limits,
            tls,
            shared_admission: Rc::default(),
            pool: Rc::default(),
            counting: Counting::new(),
            links: RefCell::default(),
            accepted: Cell::new(0),
            refused: Cell::new(0),
            evicted: Cell::new(0),
            is_stopping: Cell::new(false),
            link_ended: Notify::default(),
            newest: Cell::default(),
        }))
    }

    /// Serves one connection until it has ended and all its requests are done. `peer` tells the status page who
    /// it is.
    pub async fn serve(&self, stream: impl ByteStream, peer: impl Into<Peer>) -> Ending {
        let shared = &self.0;
        if shared.is_stopping.get() {
            stream.shutdown();
            return Ending::Stopped;
        }
        let peer = peer.into();
        if !shared.has_place(peer.group) {
            shared.refused.set(shared.refused.get() + 1);
            stream.shutdown();
            return Ending::TooMany;
        }
        let place = self.place(peer);
        let link = &place.link;
        let limit = shared.env.sleep(shared.limits.handshake_max_ns);
        let mut input = Input::new();
        let shaken =
            race(handshake::run(shared, link, stream, &mut input), race(link.stopping(), limit)).await;
        match shaken {
            Raced::First(Ok((wire, session))) => {
                link.is_open.set(true);
                Connection::run(Rc::clone(shared), Rc::clone(link), wire, session, input).await
            }
            Raced::First(Err(ending)) => ending,
            Raced::Second(Raced::First(stop)) => stop.into(),
            Raced::Second(Raced::Second(())) => Ending::TimedOut("the handshake"),
        }
    }

    fn place(&self, peer: Peer) -> Place<E, X> {
        let shared = &self.0;
        let id = shared.accepted.get();
        shared.accepted.set(id + 1);
        let link = Rc::new(Link {
            id,
            peer,
            began_ns: shared.env.now_ns(),
            admission: Admission::new(Rc::clone(&shared.shared_admission), shared.limits),
            counting: Counting::new(),
            is_open: Cell::new(false),
            has_tls: Cell::new(false),
            access: Cell::new(Access::Negotiating),
            progress: Cell::new(0),
            long_changes: LongChanges::default(),
            is_to_stop: Cell::new(None),
            stop: Signal::default(),
        });
        shared.links.borrow_mut().insert(id, Rc::clone(&link));
        Place { shared: Rc::clone(shared), link }
    }

    /// Reads no more requests, and refuses new connections. Ends when every connection has ended, in order.
    pub async fn stop(&self) {
        self.0.is_stopping.set(true);
        let links: Vec<_> = self.0.links.borrow().values().cloned().collect();
        links.iter().for_each(|link| link.end(Stop::Server));
        self.0.link_ended.until(|| self.0.links.borrow().is_empty().then_some(())).await;
    }

    /// What there is to show.
    pub fn status(&self) -> FrontStatus {
        let shared = &self.0;
        let (in_flight_bytes, in_flight_peak_bytes) = shared.shared_admission.in_flight_bytes();
        let connections = shared.links.borrow().values().map(|link| link.status()).collect();
        FrontStatus {
            statistics: shared.counting.snapshot(),
            in_flight_bytes,
            in_flight_peak_bytes,
            in_flight_max_bytes: shared.limits.in_flight_all_max_bytes(),
            connections_accepted: shared.accepted.get(),
            connections_refused: shared.refused.get(),
            connections_evicted: shared.evicted.get(),
            connections,
            file_system: None,
        }
    }
}

impl<E: Env, X> Shared<E, X> {
    /// Whether there is a place for one more connection, of this peer, or a session that yields its own.
    fn has_place(&self, comer: Option<Group>) -> bool {
        let links = self.links.borrow();
        // Whoever was evicted is gone before anything else comes of it.
        let staying = links.values().filter(|link| link.is_to_stop.get() != Some(Stop::Evicted));
        if staying.count() < self.limits.connections_max {
            return true;
        }
        let half_open: Vec<&Rc<Link>> = links.values().filter(|link| link.may_yield()).collect();
        let Some(link) = self.yielding(&half_open, comer) else { return false };
        link.end(Stop::Evicted);
        self.evicted.set(self.evicted.get() + 1);
        true
    }

    /// Which of these sessions, all in their handshake and the oldest first, yields its place.
    fn yielding<'a>(&self, half_open: &[&'a Rc<Link>], comer: Option<Group>) -> Option<&'a Rc<Link>> {
        let mut of_peers: BTreeMap<Option<Group>, Vec<&'a Rc<Link>>> = BTreeMap::new();
        for link in half_open {
            of_peers.entry(link.peer.group).or_default().push(link);
        }
        let sessions = |group: Option<Group>, of_peer: &[_]| of_peer.len() + usize::from(group == comer);
        let most = of_peers
            .iter()
            .max_by_key(|(group, of_peer)| (sessions(**group, of_peer), Reverse(of_peer[0].id)));
        let (group, most) = most?;
        if sessions(*group, most) > 1 {
            return most.iter().min_by_key(|link| (link.progress.get(), link.id)).copied();
        }
        let now_ns = self.env.now_ns();
        let had_time = |link: &&Rc<Link>| now_ns.saturating_sub(link.began_ns) >= YIELDS_AFTER_NS;
        let least = half_open.iter().filter(|link| had_time(link)).map(|link| link.progress.get()).min()?;
        let silent: Vec<&'a Rc<Link>> =
            half_open.iter().copied().filter(|link| had_time(link) && link.progress.get() == least).collect();
        Some(silent[self.env.random() as usize % silent.len()])
    }
}

impl Link {
    fn status(&self) -> ConnectionStatus {
        let (requests_in_flight, in_flight_bytes) = self.admission.in_flight();
        ConnectionStatus {
            id: self.id,
            peer: Rc::clone(&self.peer.name),
            began_ns: self.began_ns,
            is_open: self.is_open.get(),
            has_tls: self.has_tls.get(),
            requests_in_flight,
            in_flight_bytes,
            statistics: self.counting.snapshot(),
        }
    }
}

/// Ends a stream that a handshake has, whatever ends the handshake.
struct EndOnDrop<S: ByteStream>(Option<Wire<S>>);

impl<S: ByteStream> Drop for EndOnDrop<S> {
    fn drop(&mut self) {
        if let Some(wire) = &self.0 {
            wire.shutdown();
        }
    }
}
