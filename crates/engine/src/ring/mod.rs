//! The ring: several drives that read and write in turns, whatever a layout keeps on them.
//!
//! ```text
//!            ┌──────────── window: these only read ────────────┐
//!   member 0 │ member 1 │ member 2 │ … │ member N-1              the window moves on by one place each turn
//!   writes what it was given while it was in the window; then flushes, says how far it has come, rests
//!
//!   layout ──► a queue for each member (gate.rs) ──(its turn, turns.rs)──► the drive (requests.rs)
//!          └─► reads, of the members in the window                     ──► the drive
//! ```
//!
//! The ring knows queues, turns and drives. What a layout keeps on the members, and when a member counts, the layout knows:
//! it holds a ring, and says what its members do in their turns ([`TakesTurns`]).
//!
//! 1. A member that is read writes nothing meanwhile, and one that writes is read only where no other can be.
//! 2. A member that fails to write, to flush or to answer takes part no more, until another device is put in its place.
//! 3. Of two overlapping writes the second begins when the first has ended; bytes that are put once more, to repair or to
//!    rebuild, never overtake or undo a write ([`copying`]).

pub(crate) mod answers;
mod auto;
mod background;
mod backlog;
pub(crate) mod copying;
mod drain;
mod frame_length;
mod gate;
mod idle_latency;
mod member;
mod read_tails;
mod requests;
mod rest;
mod turns;
mod watch;
mod window;
pub(crate) mod work;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::device::{Device, Drive, Geometry};
use crate::env::Env;
use crate::error::{DeviceError, Error};
use crate::events::{Event, Events};
use crate::format::PAGE_BYTES;
use crate::format::ring_head::{DATA_OFFSET, MEMBERS_MAX};
use crate::format::stripes::Stripes;
use crate::notify::Notify;
use crate::planted::{Bug, is_planted};

pub(crate) use background::{Admitted, Urgency};
pub(crate) use gate::Ticket;
pub(crate) use member::{ENXIO, Member};
pub use member::{MemberState, MemberStatus, RebuildFound, Role};
pub(crate) use requests::Change;
pub(crate) use turns::{TakesTurns, start};
pub use window::WindowOptions;

/// An error of a member whose cause is not its own.
pub(crate) const EIO: i32 = 5;

/// That of a member that does not answer.
pub(crate) const ETIMEDOUT: i32 = 110;

/// How reads and writes share the members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// In turns where they help these drives under this load, mixed where they do not, as observed.
    Auto,
    /// In turns: who reads does not write.
    Turns,
    /// Plain replication: writes go to all at once, a read to the least busy.
    Mixed,
    /// As mixed, but a member begins no write while it has reads.
    ReadFirst,
    /// A member that writes is treated as failed, and never all of them at once; no turns are kept.
    ReadAround,
}

/// How a ring is run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RingOptions {
    /// How reads and writes share the members.
    pub policy: Policy,
    /// How long a member writes, at most, before the next one's turn: a frame.
    pub turn_ns: u64,
    /// For how long it must have been quick after that before it is read; 0 not to probe it.
    pub rest_ns: u64,
    /// It is read after so long even if it is not.
    pub rest_max_ns: u64,
    /// How many members read.
    pub window: WindowOptions,
    /// Writes under way on a member at once.
    pub depth_max: usize,
    /// Bytes that a member makes durable at once where no turn ends. Nobody has to choose them; a simulation does.
    pub settled_bytes: u64,
    /// How long a member may take over one request before it counts as failed.
    pub answer_max_ns: u64,
    /// Bytes a second that a rebuild copies, at most.
    pub rebuild_bytes_per_s: u64,
    /// Bytes of a region of the log on each member, where it has no devices of its own; else 0. Fixed when the ring is
    /// made.
    pub log_bytes: u64,
    /// Members that the user has named as given up, a bit each: an empty log is opened without them.
    pub given_up: u64,
    /// Bytes that a rebuild copies at once: whole pages. Nobody has to choose them; a simulation does, so that a small volume
    /// is rebuilt in as many pieces as a large one.
    pub rebuild_piece_bytes: u64,
    /// The stripes over the members; `None` where each member holds everything. Fixed when the ring is made.
    pub stripes: Option<Stripes>,
}

impl Default for RingOptions {
    fn default() -> Self {
        Self {
            policy: Policy::Auto,
            turn_ns: 1_000_000_000,
            rest_ns: 100_000_000,
            rest_max_ns: 10_000_000_000,
            window: WindowOptions::default(),
            depth_max: 32,
            settled_bytes: 4 << 20,
            answer_max_ns: 30_000_000_000,
            rebuild_bytes_per_s: 64 << 20,
            log_bytes: 0,
            given_up: 0,
            rebuild_piece_bytes: 256 << 10,
            stripes: None,
        }
    }
}

/// So slow that nothing is rebuilt.
const NOTHING_BYTES_PER_S: u64 = 1;

impl RingOptions {
    /// For who opens a mirror that nobody reads from, who would be spared by turns, and leaves members that lack writes as they
    /// are.
    pub fn without_clients() -> Self {
        Self { policy: Policy::Mixed, rebuild_bytes_per_s: NOTHING_BYTES_PER_S, ..Self::default() }
    }
}

/// The members of a layout, and whose turn it is.
#[derive(Debug)]
pub(crate) struct Ring<E, M> {
    pub(crate) env: E,
    pub(crate) options: RingOptions,
    /// What each member offers to the layout: as small as the smallest of those that are there until the layout knows
    /// better.
    pub(crate) geometry: Cell<Geometry>,
    pub(crate) members: Vec<Member<M>>,
    /// Reads so far: to take turns among equals.
    pub(crate) reads: Cell<u64>,
    /// Reads that clients wait for.
    client_reads: Cell<u64>,
    /// When the last of these came.
    client_read_ns: Cell<u64>,
    /// Whether such may come: else all write at once in a turn.
    has_readers: Cell<bool>,
    /// More writes come as soon as other tasks had their turn.
    pub(crate) more_comes: Cell<bool>,
    /// As many when the window was last chosen.
    reads_before: Cell<u64>,
    /// How long members write before one leaves that has more.
    frame_length: frame_length::FrameLength,
    /// Whose turn comes next.
    next_writer: Cell<usize>,
    window: RefCell<window::Window>,
    /// What the members have to take home, and the room there is for it.
    backlog: backlog::Backlog,
    /// Whether members take turns, where that is decided as things go.
    mode: Cell<auto::Mode>,
    /// What reads had to wait, by whether they met writes.
    tails: read_tails::ReadTails,
    pub(crate) events: Rc<Events>,
    /// What is done in the background, and whether it ends.
    pub(crate) work: work::Work,
    /// Something came, ended, or changed its role.
    pub(crate) changed: Rc<Notify>,
}

impl<E, M> Drop for Ring<E, M> {
    fn drop(&mut self) {
        self.changed.all();
    }
}

impl<E: Env, M: Drive> Ring<E, M> {
    /// A ring of these members, each at its place; `None` is one that is not there.
    ///
    /// # Errors
    ///
    /// [`Error::Unusable`] where there are none, or too many, or they are too small.
    pub(crate) fn new(env: E, members: Vec<Option<M>>, options: RingOptions) -> Result<Self, Error> {
        let unusable = |why: &str| Err(Error::Unusable(why.to_owned()));
        if members.len() > MEMBERS_MAX {
            return unusable("a ring has 32 members at most");
        }
        if options.stripes.is_some_and(|stripes| stripes.members() != members.len()) {
            return unusable("a ring has as many members as its stripes have shards");
        }
        let geometries = || members.iter().flatten().map(Device::geometry);
        let Some(smallest) = geometries().map(|geometry| geometry.size_bytes).min() else {
            return unusable("none of the ring's members is there");
        };
        let Some(size_bytes) = smallest.checked_sub(DATA_OFFSET + options.log_bytes) else {
            return unusable("a member of the ring is too small to be one");
        };
        let size_bytes = match options.stripes {
            None => Some(size_bytes),
            Some(stripes) => stripes.offered_bytes(size_bytes),
        };
        let Some(size_bytes) = size_bytes else {
            return unusable("the members of the ring are too large");
        };
        let geometry = Geometry {
            size_bytes: size_bytes / PAGE_BYTES * PAGE_BYTES,
            sector_bytes: geometries().map(|geometry| geometry.sector_bytes).max().unwrap_or(512),
            atomic_sectors: geometries().all(|geometry| geometry.atomic_sectors),
        };
        Ok(Self {
            env,
            options,
            geometry: Cell::new(geometry),
            members: members.into_iter().map(|device| Member::new(device, &options)).collect(),
            reads: Cell::default(),
            client_reads: Cell::default(),
            client_read_ns: Cell::default(),
            has_readers: Cell::new(true),
            more_comes: Cell::default(),
            reads_before: Cell::default(),
            frame_length: frame_length::FrameLength::default(),
            next_writer: Cell::default(),
            window: RefCell::new(window::Window::new(options.window, options.policy == Policy::Auto)),
            backlog: backlog::Backlog::default(),
            mode: Cell::new(auto::Mode::Turns),
            tails: read_tails::ReadTails::default(),
            events: Rc::default(),
            work: work::Work::default(),
            changed: Rc::default(),
        })
    }

    /// Where on a member what it offers to the layout begins.
    pub(crate) fn data_offset(&self) -> u64 {
        DATA_OFFSET + self.options.log_bytes
    }

    /// Bytes that each member holds for the layout where the ring offers so many.
    pub(crate) fn member_bytes(&self, size_bytes: u64) -> u64 {
        match self.options.stripes {
            None => size_bytes,
            Some(stripes) => stripes.member_bytes(size_bytes).unwrap_or(u64::MAX / 2),
        }
    }

    /// Whether writes wait for a turn now.
    pub(crate) fn keeps_turns(&self) -> bool {
        match self.options.policy {
            Policy::Auto => self.mode.get() == auto::Mode::Turns,
            Policy::Turns | Policy::ReadAround => true,
            Policy::Mixed | Policy::ReadFirst => false,
        }
    }

    /// Whether turns are as long as they are told to be, and members rest behind them.
    pub(crate) fn has_full_turns(&self) -> bool {
        matches!(self.options.policy, Policy::Turns | Policy::Auto)
    }

    /// How many members read now, of those that take part.
    pub(crate) fn window(&self) -> (usize, usize) {
        let in_sync = || self.members.iter().filter(|member| member.is_in_sync());
        let is_mixed = self.options.policy == Policy::Auto && !self.keeps_turns();
        let only_reads = |member: &&Member<M>| member.role.get() == Role::Reading && !is_mixed;
        (in_sync().filter(only_reads).count(), in_sync().count())
    }

    /// Those that take part, with their places.
    pub(crate) fn taking_part(&self) -> impl Iterator<Item = (usize, &Member<M>)> {
        self.members.iter().enumerate().filter(|(_, member)| member.state.get().takes_writes())
    }

    /// The places of those that are in sync.
    pub(crate) fn places_in_sync(&self) -> Vec<usize> {
        (0..self.members.len()).filter(|&place| self.members[place].is_in_sync()).collect()
    }

    /// Fails a member: it takes part no more.
    pub(crate) fn fail(&self, place: usize, error: DeviceError) {
        let member = &self.members[place];
        if !member.state.get().takes_writes() {
            return;
        }
        if is_planted(Bug::RingKeepsFailed) {
            return;
        }
        member.failure.borrow_mut().get_or_insert(error);
        member.failed_ns.set(Some(self.env.now_ns()));
        let was_rebuilding = member.state.replace(MemberState::Out) != MemberState::InSync;
        self.events.note(Event::MemberLost { place, error, was_rebuilding });
        member.gate.set_failed(true);
        self.changed.all();
    }

    /// Fails a member for what `device` answered, unless that was replaced meanwhile: then it is nobody's concern.
    pub(crate) fn fail_device(&self, place: usize, device: &Rc<M>, error: DeviceError) {
        if self.members[place].has(device) {
            self.fail(place, error);
        }
    }

    /// Gives up what waits for members that take no writes.
    pub(crate) fn give_up_queues(&self) {
        for member in self.members.iter().filter(|member| !member.state.get().takes_writes()) {
            member.gate.set_failed(true);
        }
    }

    /// How full, of 1, is what holds the writes that the members have not taken yet.
    pub(crate) fn note_fill(&self, fill: f64) {
        self.backlog.note_fill(fill);
    }

    /// A client reads what is on the members.
    pub(crate) fn note_client_read(&self) {
        self.client_reads.set(self.client_reads.get() + 1);
        self.client_read_ns.set(self.env.now_ns());
    }

    /// Whether clients may read from now on.
    pub(crate) fn note_readers(&self, may_come: bool) {
        if self.has_readers.replace(may_come) != may_come {
            self.changed.all();
        }
    }

    /// Whether more writes come as soon as other tasks had their turn.
    pub(crate) fn note_more_comes(&self, comes: bool) {
        if self.more_comes.replace(comes) && !comes {
            self.changed.all();
        }
    }

    /// An error where nobody is left.
    pub(crate) fn check_alive(&self) -> Result<(), DeviceError> {
        self.check_open()?;
        let mut failure = None;
        let mut needed = self.readers_min();
        for member in &self.members {
            if member.is_in_sync() {
                needed -= 1;
                if needed == 0 {
                    return Ok(());
                }
            }
            failure = failure.or(*member.failure.borrow());
        }
        Err(failure.unwrap_or(DeviceError { doing: "reach a member of the ring", errno: EIO }))
    }
}
