//! Opening a member again that was away.
//!
//! 1. What was open of it is let go of first, and a file is open to one at a time: while a request hangs that the kernel
//!    still has of the one before, it cannot be opened anew. An export's server carries out nothing any more of the
//!    connection before ([`crate::volume::fencing`]).
//! 2. A member that is opened in vain stays away, and why it was lost stays said.

use std::path::Path;
use std::rc::Rc;

use evenkeel_engine::device::Drive;
use evenkeel_engine::error::Error;
use evenkeel_engine::layout::JournalStore;
use evenkeel_engine::layout::mirror::Rejoined;
use evenkeel_engine::ring::MemberState;

use super::{LEAVING, Mirror, MirrorDrive, Opened, Patience, open_one};
use crate::drive::DriveOptions;
use crate::volume::description::Member;

/// Why a member was not taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotTaken {
    /// It cannot be had now.
    NotThere(String),
    /// It answers, and is not taken as it is.
    Refused(String),
}

impl Mirror {
    /// Whether a member is away: it failed, or was not there.
    pub(crate) fn is_away(&self, place: usize) -> bool {
        let states = self.ring.members();
        states.get(place).is_some_and(|it| it.state == MemberState::Out)
    }

    /// Opens the member at `place` again, of which `described` tells, and has it take part, if it is the one that was away.
    pub(in crate::volume) async fn rejoin_member(
        &self,
        folder: &Path,
        place: usize,
        described: &Member,
    ) -> Result<Rejoined, NotTaken> {
        // What it alone had of the log goes home first.
        if !self.comes_soon(|| !self.logs.wants_checkpoint()).await {
            return Err(NotTaken::NotThere("what it alone may hold is still on its way home".to_owned()));
        }
        self.members.borrow_mut()[place].drive = None;
        self.ring.let_go(place);
        let options = DriveOptions { busy_timeout: LEAVING, ..described.options() };
        let purpose = self.opening.member(place, described.unfenced);
        let limit = (self.options.answer_max_ns, Patience::Serving);
        let drive = match open_one(&self.event_loop, folder, described, options, limit, purpose).await {
            Opened::There(drive) => drive,
            Opened::Missing(why) => return Err(NotTaken::NotThere(why)),
            Opened::Mistake(error) => {
                return Err(NotTaken::NotThere(format!("{}: {}", error.doing, error.source)));
            }
        };
        let member = MirrorDrive::new(Rc::clone(&drive), self.geometry)
            .map_err(|unfit| NotTaken::Refused(unfit.to_string()))?;
        // The volume may have grown since it was opened.
        let large_enough = member.enlarge(self.ring.member_device_bytes()).await;
        large_enough.map_err(|error| NotTaken::Refused(error.to_string()))?;
        let rejoined = self.ring.rejoin(place, member).await.map_err(|error| match error {
            Error::Unusable(why) => NotTaken::Refused(why),
            error => NotTaken::NotThere(error.to_string()),
        })?;
        {
            let mut entries = self.members.borrow_mut();
            let entry = &mut entries[place];
            entry.generation += 1;
            (entry.why, entry.drive) = (None, Some(drive));
        }
        self.watch_member(place);
        Ok(rejoined)
    }
}
