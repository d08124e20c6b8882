//! Which sessions may write.
//!
//! 1. A session that names its [`Writer`] is admitted once every session that it supersedes, and every one that named none,
//!    has ended, and the requests of all these are over: nothing that an earlier opening of the same volume sent is
//!    carried out after it.
//! 2. While there is such a session, one of another volume is refused, and one that names none only reads.
//! 3. A session of an earlier opening than one that is there, or than any that was there, is refused: a server that was
//!    superseded does not come back, however often it tries. What was there is forgotten once a session without a name
//!    changes something, or another volume is admitted; not for a session that only might.
//! 4. A number that no opening can have is refused, so that nobody is kept out for it.

use std::rc::Rc;

use evenkeel_engine::env::Env;
use evenkeel_engine::format::unit::OPENING_END;

use super::{Link, Shared, Stop};
use crate::front::nbd::export::Export;
use crate::nbd::proto::writer::Writer;

/// What a session may do, once its handshake has decided that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Nothing was decided yet.
    Negotiating,
    /// It changes nothing.
    Reads,
    /// It writes, under this name if it has one.
    Writes(Option<Writer>),
}

/// The newest opening that was admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Newest {
    volume: u64,
    number: u64,
}

/// Why a session is not admitted.
pub(super) const IN_USE: &str = "another volume writes to the export: end its server first";
const YIELDS: &str = "a server that opened the same volume later writes to the export now: stop that one before this one \
                      is started again; where there is none, start the export's server anew";
const IS_OVER: &str = "the same volume was opened later than by this server: start it anew; where no later server exists, \
                       or the export was put back to an older state, start the export's server anew first";
const NO_OPENING: &str = "no volume was opened so often: the NUMBER of an opening is below 4294967296";
const _: () = assert!(OPENING_END == 4_294_967_296, "as it is told");

impl<E: Env, X: Export> Shared<E, X> {
    /// Whether a session writes that named its writer: others may read only.
    pub(super) fn has_writer(&self) -> bool {
        self.links.borrow().values().any(|link| matches!(link.access.get(), Access::Writes(Some(_))))
    }

    /// Decides what the session of `link` may do, and waits until those have ended that it supersedes.
    ///
    /// # Errors
    ///
    /// Why not.
    pub(super) async fn admit(&self, link: &Rc<Link>, writer: Option<Writer>) -> Result<(), &'static str> {
        let Some(writer) = writer.filter(|_| !self.export.is_read_only()) else {
            let may_write = !self.export.is_read_only() && !self.has_writer();
            link.access.set(if may_write { Access::Writes(None) } else { Access::Reads });
            return Ok(());
        };
        if writer.only_looks() {
            link.access.set(Access::Reads);
            return Ok(());
        }
        if writer.number.is_some_and(|number| number >= OPENING_END) {
            return Err(NO_OPENING);
        }
        let mut before = Vec::new();
        for other in self.links.borrow().values().filter(|other| !Rc::ptr_eq(other, link)) {
            match other.access.get() {
                Access::Negotiating | Access::Reads => {}
                Access::Writes(Some(theirs)) if writer.volume != theirs.volume => return Err(IN_USE),
                Access::Writes(Some(theirs)) if writer.yields_to(theirs) => return Err(YIELDS),
                Access::Writes(Some(theirs)) if !writer.supersedes(theirs) => {}
                Access::Writes(_) => before.push(Rc::clone(other)),
            }
        }
        let newest = self.newest.get().filter(|newest| newest.volume == writer.volume);
        if let (Some(number), Some(newest)) = (writer.number, newest)
            && number < newest.number
        {
            return Err(IS_OVER);
        }
        let number = writer.number.or(newest.map(|newest| newest.number));
        self.newest.set(number.map(|number| Newest { volume: writer.volume, number }));
        // From here on whoever comes finds the writer, though its session has not begun.
        link.access.set(Access::Writes(Some(writer)));
        before.iter().for_each(|other| other.end(Stop::Superseded));
        let are_over = || {
            let links = self.links.borrow();
            before.iter().all(|other| !links.contains_key(&other.id)).then_some(())
        };
        self.link_ended.until(are_over).await;
        Ok(())
    }

    /// The session of `link` is about to change something.
    pub(super) fn note_change(&self, link: &Link) {
        // One that is being superseded is no change after the one that takes its place.
        let is_unnamed = link.access.get() == Access::Writes(None);
        if is_unnamed && self.newest.get().is_some() && !self.has_writer() {
            // What the drive says of its openings may be anything from now on.
            self.newest.set(None);
        }
    }
}
