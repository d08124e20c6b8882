//! A mirror: the pages are on every member of a ring, and the journal is on log devices or on the members.
//!
//! ```text
//!   MirrorPages ───► PageStore     pages on all members (store.rs), in turns that the ring gives (crate::ring):
//!                                  written and flushed (replicate.rs), read (read.rs), rebuilt (rebuild.rs, rebuild_rows.rs);
//!                                  what a member says of itself (heads.rs), what one lacks that is away (dirty.rs),
//!                                  and what one is that comes back (rejoin.rs)
//!   MirrorJournal ─► JournalStore  records and superblocks (journal.rs)
//!     LogDeviceJournal                         on log devices, all of them hold all of it (log_devices.rs);
//!                                  another one is copied to and takes the place of one (log_copy.rs)
//!     MemberJournal                    on the members, each holds what came in its turn (member_journal.rs);
//!                                  who has to be there to open it (quorum.rs), telling them so (membership.rs)
//! ```
//!
//! 1. A write is done when every member that takes part has taken it; a flush, when all of them have made durable what
//!    was done before it, and a head on each says so. Until then the layers above keep what was written: in memory, and
//!    in the journal. So a cut, the loss of all members but one, or both together lose nothing.
//! 2. That a member takes part no more is durable ([`crate::layout::PageStore::state`]) before what it lacks is given up elsewhere.
//! 3. After an opening a member counts only if the state says that it took part, and its head that it came as far. Any
//!    other is stale: it is rebuilt from those that count before it is read. Without one that counts nothing is served.
//!    Nor is anything served where the journal knows of none but superblocks older than one that the heads know of.
//! 4. The journal alone holds superblocks, with what the mirror wants remembered: who took part, and how far they came.
//!    Members are told of each superblock by the next flush or the end: no older one is taken for it later.

mod dirty;
pub mod head_copies;
mod heads;
mod journal;
mod log_copy;
pub mod log_devices;
mod log_losses;
mod log_queue;
pub mod member_journal;
mod membership;
mod mends;
mod quorum;
mod read;
mod rebuild;
mod rebuild_rows;
mod rejoin;
mod replicate;
mod store;
pub(crate) mod stripe_log;
mod striping;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::{Rc, Weak};

use crate::device::Drive;
use crate::env::Env;
use crate::error::{DeviceError, Error};
use crate::events::Events;
use crate::format::ring_head::Mark;
use crate::format::superblock::StoreState;
use crate::ring::copying::Copies;
use crate::ring::{Member, MemberState, MemberStatus, Ring, RingOptions};

use super::Verifier;
use dirty::Dirty;
use heads::{MemberHead, Opening};
pub use journal::MirrorJournal;
pub use log_copy::{LogCopy, LogCopyStatus};
use member_journal::LogState;
pub(crate) use quorum::{LogNeeds, log_needs};
pub use rejoin::Rejoined;
pub use stripe_log::{RegionOfLog, StripeRegion};
use striping::Striping;

/// How far the members came that took part, as a superblock remembers it.
pub(crate) fn mark_of(StoreState([_, epoch, through, _]): StoreState) -> Mark {
    Mark { epoch, through }
}

/// The mirror. A clone is another handle to the same.
pub struct MirrorPages<E, M>(Rc<Inner<E, M>>);

impl<E, M> Clone for MirrorPages<E, M> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<E, M> fmt::Debug for MirrorPages<E, M> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("MirrorPages").field("members", &self.0.ring.members.len()).finish_non_exhaustive()
    }
}

struct Inner<E, M> {
    ring: Ring<E, M>,
    /// Which opening of which volume this is, as the heads say it.
    opening: Opening,
    /// The head of each member.
    heads: Vec<MemberHead>,
    progress: Progress,
    /// Writes that not all members have, and bytes that are put once more.
    copies: Rc<Copies>,
    /// Of the latter, those that nobody waits for.
    mends: Cell<usize>,
    /// The regions that changed, for members that are away.
    dirty: Dirty,
    /// The journal, where the members hold it.
    log: LogState,
    /// What there is of stripes.
    striping: Option<Striping>,
    /// Who knows the sums of what the members hold.
    verifier: RefCell<Option<Weak<dyn Verifier>>>,
}

/// How far writes and flushes came in this opening.
#[derive(Debug, Default)]
struct Progress {
    /// Writes so far.
    issued: Cell<u64>,
    /// What a flush waits for, of those.
    flush_wanted: Cell<u64>,
    /// What a completed flush covered, or was found durable on all since.
    flushed: Cell<Mark>,
}

impl<E: Env, M: Drive> MirrorPages<E, M> {
    /// A mirror on these members, each at its place; `None` is one that is not there. Nothing is known of them before
    /// [`crate::layout::PageStore::resume`] or [`crate::layout::PageStore::init`].
    ///
    /// # Errors
    ///
    /// [`Error::Unusable`] where there are none, or too many, or they are too small.
    pub fn new(env: E, members: Vec<Option<M>>, options: RingOptions) -> Result<Self, Error> {
        let ring = Ring::new(env, members, options)?;
        let places = ring.members.len();
        Ok(Self(Rc::new(Inner {
            ring,
            opening: Opening::default(),
            heads: (0..places).map(|_| MemberHead::default()).collect(),
            progress: Progress::default(),
            copies: Rc::default(),
            mends: Cell::default(),
            dirty: Dirty::default(),
            log: LogState::new(places),
            striping: options.stripes.map(Striping::new),
            verifier: RefCell::default(),
        })))
    }

    /// Where changes of stripes are logged, set before the volume is opened.
    pub fn log_stripes_in(&self, region: Rc<dyn StripeRegion>) {
        if let Some(striping) = &self.0.striping {
            striping.log.set_region(region);
        }
    }

    /// Whether the members hold the journal too.
    pub fn holds_log(&self) -> bool {
        self.0.ring.options.log_bytes > 0
    }

    /// Whether the log devices hold a log of stripes, too.
    pub(crate) fn has_stripes(&self) -> bool {
        self.0.striping.is_some()
    }

    /// What each member does and did.
    pub fn members(&self) -> Vec<MemberStatus> {
        let now_ns = self.0.ring.env.now_ns();
        let status = |(place, member): (usize, &Member<M>)| {
            let status = member.status(now_ns);
            let lacks_bytes = match status.state {
                MemberState::Out => self.lacking_bytes(place),
                _ => status.lacks_bytes,
            };
            MemberStatus { lacks_bytes, ..status }
        };
        self.0.ring.members.iter().enumerate().map(status).collect()
    }

    /// Bytes that the device of each member has at least: its head, its share of the journal if it holds one, and its share of
    /// the pages.
    pub fn member_device_bytes(&self) -> u64 {
        self.0.member_device_bytes()
    }

    /// What happened to its members.
    pub fn events(&self) -> Rc<Events> {
        Rc::clone(&self.0.ring.events)
    }

    /// How many members read now, of those that take part.
    pub fn window(&self) -> (usize, usize) {
        self.0.ring.window()
    }

    /// Leaves a member out: whoever provides it may know of a failure before it shows.
    pub fn fail(&self, place: usize, error: DeviceError) {
        self.0.ring.fail(place, error);
    }

    /// Puts another device in the place of a member that does not take part, and rebuilds it.
    ///
    /// # Errors
    ///
    /// [`Error::Unusable`] where the member takes part, or the device is too small; that of the device.
    pub async fn replace(&self, place: usize, device: M) -> Result<(), Error> {
        self.check_fits(place, &device)?;
        self.replace_shared(place, Rc::new(device)).await
    }

    /// That a device may take the place of a member, which does not take part.
    fn check_fits(&self, place: usize, device: &M) -> Result<(), Error> {
        let unusable = |why: &str| Err(Error::Unusable(why.to_owned()));
        let Some(member) = self.0.ring.members.get(place) else {
            return unusable("the ring has no such member");
        };
        if !self.0.opening.resumed.get() {
            return unusable("the volume is not open yet");
        }
        if member.state.get().takes_writes() {
            return unusable("that member takes part: leave it out before it is replaced");
        }
        self.check_device(device)
    }

    /// That a device is large enough for a member, and promises as much of its sectors.
    ///
    /// # Errors
    ///
    /// [`Error::Unusable`], which says what it lacks.
    pub fn check_device(&self, device: &M) -> Result<(), Error> {
        let unusable = |why: &str| Err(Error::Unusable(why.to_owned()));
        let (geometry, needed) = (device.geometry(), self.0.ring.geometry.get());
        if geometry.size_bytes < self.member_device_bytes() {
            return unusable("the new member is smaller than the ring");
        }
        if geometry.sector_bytes > needed.sector_bytes || (needed.atomic_sectors && !geometry.atomic_sectors)
        {
            return unusable("the new member promises less of its sectors than the ring does");
        }
        Ok(())
    }

    /// As [`Self::replace`], with a device that fits.
    async fn replace_shared(&self, place: usize, device: Rc<M>) -> Result<(), Error> {
        let unusable = |why: &str| Err(Error::Unusable(why.to_owned()));
        let member = &self.0.ring.members[place];
        member.replace(Rc::clone(&device));
        self.0.heads[place].forget();
        self.0.log.regions[place].leave();
        let founded = self.0.ring.limited(self.0.init_head(place)).await;
        if !member.has(&device) {
            return unusable("another device was put there meanwhile");
        }
        if let Err(error) = founded {
            member.failure.borrow_mut().get_or_insert(error);
            return Err(error.into());
        }
        member.state.set(MemberState::Stale);
        self.rebuild_stale();
        Ok(())
    }
}
