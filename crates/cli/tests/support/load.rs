//! Clients that write, zero, read and flush at once over several connections, beside a [`Model`] of what they
//! were told.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;

use evenkeel_engine::device::{Durability, Extent, FlushScope};
use evenkeel_engine::env::Env;
use evenkeel_host::event_loop::{Backend, EventLoop, Loop};
use evenkeel_host::nbd::client::{Client, ClientError, ConnectOptions};
use evenkeel_host::net::{Stream, connect_unix};

use super::far::members;
use super::model::{Death, Model, extent};
use super::served::{Chance, Server, Volume};

const CONNECTIONS: usize = 4;

/// Clients on each connection, each with one request under way.
const CLIENTS: usize = 6;

/// What a read of everything asks for at a time.
const READ_BYTES: usize = 4 << 20;

/// A connection that the load uses.
pub(crate) type Connection = Client<Stream>;

/// What the clients share.
pub(crate) struct Load {
    pub(crate) model: RefCell<Model>,
    size_bytes: u64,
    chance: RefCell<Chance>,
    working: Cell<usize>,
    /// Requests that were answered.
    pub(crate) answered: Cell<u64>,
    /// What the server said where it refused a request.
    pub(crate) refusals: RefCell<Vec<String>>,
}

impl Load {
    pub(crate) fn new(size_bytes: usize, seed: u64) -> Rc<Self> {
        Rc::new(Self {
            model: RefCell::new(Model::new(size_bytes)),
            size_bytes: size_bytes as u64,
            chance: RefCell::new(Chance(seed)),
            working: Cell::new(0),
            answered: Cell::new(0),
            refusals: RefCell::default(),
        })
    }

    /// One life of the server, under load, up to its kill.
    pub(crate) fn lives_and_is_killed(self: &Rc<Self>, volume: &Volume<'_>, flags: &str) {
        let mut server = volume.serve(flags);
        let event_loop = EventLoop::new(Backend::Auto).unwrap();
        self.run(&event_loop, &volume.socket(), |env| {
            let (load, server) = (Rc::clone(self), &mut server);
            async move {
                let count = 300 + load.draw().below(1000);
                load.goes_on(&env, count).await;
                server.kill();
            }
        });
        assert!(self.refusals.borrow().is_empty(), "{:?}", self.refusals.borrow());
    }

    /// That the volume, which is served again after a kill, is what the model knows of it.
    pub(crate) fn judge_after_kill(&self, volume: &Volume<'_>) {
        let found = read_all(&EventLoop::new(Backend::Auto).unwrap(), &volume.socket());
        self.model.borrow_mut().judge(found, Death::Kill);
    }

    /// Connects and sets the clients to work; `meanwhile` sees to their end: the server's.
    pub(crate) fn run<F: Future<Output = ()>>(
        self: &Rc<Self>,
        event_loop: &EventLoop,
        socket: &Path,
        meanwhile: impl FnOnce(Loop) -> F,
    ) {
        let env = event_loop.handle();
        event_loop.block_on(async {
            for _ in 0..CONNECTIONS {
                let connection = connect(&env, socket).await;
                for _ in 0..CLIENTS {
                    let (load, connection, chance) = (Rc::clone(self), connection.clone(), self.draw());
                    self.working.set(self.working.get() + 1);
                    env.spawn(async move {
                        load.work(&connection, chance).await;
                        load.working.set(load.working.get() - 1);
                    });
                }
            }
            meanwhile(env.clone()).await;
            while self.working.get() > 0 {
                env.sleep(1_000_000).await;
            }
        });
    }

    /// Waits until so many more requests are answered, or one is refused.
    pub(crate) async fn goes_on(&self, env: &Loop, requests: u64) {
        let until = self.answered.get() + requests;
        while self.answered.get() < until && self.refusals.borrow().is_empty() {
            env.sleep(500_000).await;
        }
    }

    /// Waits until a member is what it is to be, or a request is refused.
    pub(crate) async fn until_standing(&self, env: &Loop, server: &Server, place: usize, standing: &str) {
        while members(server)[place].standing != standing && self.refusals.borrow().is_empty() {
            env.sleep(5_000_000).await;
        }
    }

    /// A source of chance of its own.
    pub(crate) fn draw(&self) -> Chance {
        Chance(self.chance.borrow_mut().next())
    }

    /// Until the connection breaks or the server refuses.
    async fn work(&self, connection: &Connection, mut chance: Chance) {
        loop {
            match self.ask(connection, &mut chance).await {
                Ok(()) => self.answered.set(self.answered.get() + 1),
                Err(ClientError::Broken(_)) => return,
                Err(error) => return self.refusals.borrow_mut().push(error.to_string()),
            }
        }
    }

    async fn ask(&self, connection: &Connection, chance: &mut Chance) -> Result<(), ClientError> {
        let (kind, extent) = (chance.below(100), extent(chance, self.size_bytes));
        match kind {
            0..2 => {
                let mark = self.model.borrow().mark();
                connection.flush(FlushScope::Whole).await?;
                self.model.borrow_mut().flushed(mark, None);
            }
            2..5 => {
                let mark = self.model.borrow().mark();
                connection.flush(FlushScope::Ranges(&[extent])).await?;
                self.model.borrow_mut().flushed(mark, Some(extent));
            }
            5..15 => {
                let Some(number) = self.model.borrow_mut().look(extent) else { return Ok(()) };
                let mut found = vec![0; extent.len as usize];
                connection.read(extent.offset, &mut found).await?;
                self.model.borrow_mut().looked(number, &found);
            }
            _ => {
                let is_durable = kind < 25;
                let durability = if is_durable { Durability::Durable } else { Durability::Buffered };
                let begun = self.model.borrow_mut().begin(extent, kind % 10 == 9);
                let Some((number, change)) = begun else { return Ok(()) };
                if change.is_zeroes() {
                    connection.write_zeroes(extent, durability, kind % 20 == 9).await?;
                } else {
                    connection.write(extent.offset, &change.bytes(), durability).await?;
                }
                self.model.borrow_mut().acknowledge(number, is_durable);
            }
        }
        Ok(())
    }
}

/// A connection to the server at `socket`.
pub(crate) async fn connect(env: &Loop, socket: &Path) -> Connection {
    let stream = connect_unix(env, socket).await.unwrap();
    Client::connect(env, stream, &ConnectOptions::default()).await.unwrap()
}

/// All bytes of the volume at `socket`.
pub(crate) fn read_all(event_loop: &EventLoop, socket: &Path) -> Vec<u8> {
    let env = event_loop.handle();
    event_loop.block_on(async {
        let connection = connect(&env, socket).await;
        let mut found = vec![0xee; connection.negotiated().size_bytes as usize];
        let mut offset = 0;
        for piece in found.chunks_mut(READ_BYTES) {
            let read = connection.read(offset, piece).await;
            read.unwrap_or_else(|error| panic!("{:?}: {error}", Extent::new(offset, piece.len() as u64)));
            offset += piece.len() as u64;
        }
        found
    })
}

/// The same, for who has no loop.
pub(crate) fn contents(socket: &Path) -> Vec<u8> {
    read_all(&EventLoop::new(Backend::Auto).unwrap(), socket)
}

/// Writes `bytes` at `offset` over a connection of its own; they are not flushed.
pub(crate) fn write(socket: &Path, offset: u64, bytes: &[u8]) {
    write_as(socket, offset, bytes, Durability::Buffered);
}

/// Writes `bytes`, durable or not, by a connection of its own.
pub(crate) fn write_as(socket: &Path, offset: u64, bytes: &[u8], durability: Durability) {
    let event_loop = EventLoop::new(Backend::Auto).unwrap();
    let env = event_loop.handle();
    event_loop.block_on(async {
        connect(&env, socket).await.write(offset, bytes, durability).await.unwrap();
    });
}
