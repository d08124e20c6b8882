//! Each copy of the head of each member and log device: an opening is content with one that is whole, a check is not.
//!
//! 1. Nothing is judged by what it should say of pages or records: a head whose other copy is gone is not made up.
//! 2. A copy that is wrong is written anew in its turn only, by the next head of its device, while the other copy is whole.
//!    A device without one that is whole is none of the mirror's: it is never given a head from what others know.
//! 3. What a cut may leave is no damage: of a volume that was not stopped in order, a copy may be torn.

use super::MirrorPages;
use super::log_devices::{LogDeviceJournal, LogDeviceState, Witness};
use crate::device::{Device, Drive};
use crate::env::Env;
use crate::error::DeviceError;
use crate::format::PAGE;
use crate::format::log_head::{self, LogHead};
use crate::format::ring_head::{self, RingHead};
use crate::join;

/// Copies of a head on each device.
const COPIES: usize = 2;

const _: () = assert!(ring_head::HEAD_COPIES == COPIES as u64 && log_head::HEAD_COPIES == COPIES as u64);

/// What is wrong with a copy of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeadFault {
    /// The device does not read it.
    #[error("it cannot be read ({0})")]
    Unreadable(DeviceError),
    /// It is not what anybody wrote.
    #[error("its checksum does not match")]
    Damaged,
    /// It is whole, and of another time or place.
    #[error("it is not what was written there last")]
    Other,
}

/// A copy of a head that is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongHead {
    /// The device's place among those of its kind.
    pub place: usize,
    /// Which copy.
    pub copy: usize,
    /// What is wrong with it.
    pub fault: HeadFault,
}

/// Whose heads are looked at, and when.
#[derive(Debug, Clone, Copy)]
pub struct HeadsOf {
    /// The volume's number.
    pub volume: u64,
    /// Whether it was stopped in order: then no head was under way.
    pub is_closed: bool,
}

/// What a copy of a head of either kind says of itself.
#[derive(Debug, Clone, Copy)]
struct HeadCopy {
    generation: u64,
    /// The volume, the place, and how many places there are.
    owner: (u64, usize, usize),
}

impl From<RingHead> for HeadCopy {
    fn from(RingHead { volume, generation, place, places, .. }: RingHead) -> Self {
        Self { generation, owner: (volume, place.into(), places.into()) }
    }
}

impl From<LogHead> for HeadCopy {
    fn from(LogHead { volume, generation, place, places, .. }: LogHead) -> Self {
        Self { generation, owner: (volume, place.into(), places.into()) }
    }
}

type Found = [Result<Option<HeadCopy>, DeviceError>; COPIES];

async fn read_copies<H: Into<HeadCopy>>(device: &impl Device, decode: fn(&[u8]) -> Option<H>) -> Found {
    let mut found = [Ok(None), Ok(None)];
    for (offset, found) in (0..).step_by(PAGE).zip(&mut found) {
        let mut page = [0; PAGE];
        *found = device.read(offset, &mut page).await.map(|()| decode(&page).map(Into::into));
    }
    found
}

/// What is wrong with the copies of the head of one device, whose owner would be `owner`.
fn wrong_copies(found: &Found, owner: (u64, usize, usize), is_closed: bool) -> Vec<(usize, HeadFault)> {
    let is_at_place =
        |copy: usize, head: &HeadCopy| head.owner == owner && head.generation % COPIES as u64 == copy as u64;
    let ours: Vec<Option<u64>> = (0..COPIES)
        .map(|copy| {
            let head = found[copy].as_ref().ok()?.filter(|head| is_at_place(copy, head))?;
            Some(head.generation)
        })
        .collect();
    let newest = ours.iter().flatten().max();
    let fault = |copy: usize| match &found[copy] {
        Err(error) => Some(HeadFault::Unreadable(*error)),
        // That which was being written may be torn; the other is whole then.
        Ok(None) => (is_closed || newest.is_none()).then_some(HeadFault::Damaged),
        // All of it is another device's: that is told otherwise.
        Ok(Some(_)) if newest.is_none() => None,
        Ok(Some(head)) => {
            let is_next_to = |newest: &u64| head.generation.abs_diff(*newest) <= 1;
            let is_right = is_at_place(copy, head) && (!is_closed || newest.is_some_and(is_next_to));
            (!is_right).then_some(HeadFault::Other)
        }
    };
    (0..COPIES).filter_map(|copy| Some((copy, fault(copy)?))).collect()
}

impl<E: Env, M: Drive> MirrorPages<E, M> {
    /// The copies of the heads of members that are wrong, of those members that answer.
    pub async fn wrong_heads(&self, of: HeadsOf) -> Vec<WrongHead> {
        let members = self.0.ring.members.iter().enumerate();
        let found = members.map(|(place, member)| async move {
            let device = member.device().ok().filter(|_| member.failure.borrow().is_none())?;
            let answer = async { Ok(read_copies(&*device, RingHead::decode).await) };
            Some((place, self.0.ring.limited(answer).await.ok()?))
        });
        wrong_heads(found, of, self.0.ring.members.len()).await
    }
}

impl<E: Env, L: Device, W: Witness> LogDeviceJournal<E, L, W> {
    /// The copies of the heads of log devices that are wrong, of those devices that answer.
    pub async fn wrong_heads(&self, of: HeadsOf) -> Vec<WrongHead> {
        let members = self.0.members.iter().enumerate();
        let found = members.map(|(place, member)| async move {
            let device = member.device().filter(|_| member.failure.get().is_none())?;
            let answer = async { Ok(read_copies(&*device, LogHead::decode).await) };
            Some((place, self.0.limited(answer).await.ok()?))
        });
        wrong_heads(found, of, self.0.members.len()).await
    }

    /// Writes the next head of each log device that takes part and has a wrong copy of it: its turn is that copy's, and
    /// it says what the other one does. Members need none of this, whose heads an opening and a stop write.
    ///
    /// # Errors
    ///
    /// Where none takes part any more.
    pub async fn repair_heads(&self) -> Result<(), DeviceError> {
        let of = HeadsOf { volume: self.0.volume.get(), is_closed: true };
        for WrongHead { place, copy, .. } in self.wrong_heads(of).await {
            let takes_part = self.0.members[place].state.get() == LogDeviceState::InSync;
            if takes_part && self.0.next_copy(place) == Some(copy) {
                self.0.write_head_again(place).await?;
            }
        }
        Ok(())
    }
}

/// What is wrong with the heads of `places` devices, those that were found, in the order of their places.
async fn wrong_heads(
    found: impl Iterator<Item = impl Future<Output = Option<(usize, Found)>>>,
    of: HeadsOf,
    places: usize,
) -> Vec<WrongHead> {
    let all = std::cell::RefCell::new(Vec::new());
    join::all(found.map(|found| async {
        let Some((place, copies)) = found.await else { return };
        let wrong = wrong_copies(&copies, (of.volume, place, places), of.is_closed);
        all.borrow_mut().extend(wrong.into_iter().map(|(copy, fault)| WrongHead { place, copy, fault }));
    }))
    .await;
    let mut all = all.into_inner();
    all.sort_by_key(|head| head.place);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: (u64, usize, usize) = (7, 1, 2);

    fn head(generation: u64) -> Result<Option<HeadCopy>, DeviceError> {
        Ok(Some(LogHead { volume: 7, generation, place: 1, places: 2, losses: 3 }.into()))
    }

    #[test]
    fn a_copy_is_wrong_unless_a_cut_may_have_left_it() {
        let torn = || Ok(None);
        let unreadable = DeviceError { doing: "read", errno: 5 };
        let others = Ok(Some(LogHead { volume: 8, generation: 4, place: 1, places: 2, losses: 3 }.into()));
        type Faults<'a> = &'a [(usize, HeadFault)];
        let cases: [(Found, Faults<'_>, Faults<'_>); 8] = [
            ([head(4), head(5)], &[], &[]),
            ([head(6), head(5)], &[], &[]),
            ([torn(), head(5)], &[(0, HeadFault::Damaged)], &[]),
            (
                [torn(), torn()],
                &[(0, HeadFault::Damaged), (1, HeadFault::Damaged)],
                &[(0, HeadFault::Damaged), (1, HeadFault::Damaged)],
            ),
            ([head(8), head(5)], &[(1, HeadFault::Other)], &[]),
            ([head(5), head(5)], &[(0, HeadFault::Other)], &[(0, HeadFault::Other)]),
            (
                [Err(unreadable), head(5)],
                &[(0, HeadFault::Unreadable(unreadable))],
                &[(0, HeadFault::Unreadable(unreadable))],
            ),
            ([others, head(5)], &[(0, HeadFault::Other)], &[(0, HeadFault::Other)]),
        ];
        for (found, closed, cut) in cases {
            assert_eq!(wrong_copies(&found, OWNER, true), closed, "{found:?}");
            assert_eq!(wrong_copies(&found, OWNER, false), cut, "{found:?}");
        }
        assert_eq!(wrong_copies(&[others, others], OWNER, true), [], "another volume's");
    }
}
