//! Each copy of the head of each member and log device: an opening is content with one that is whole, a check is not.
//!
//! 1. Nothing is judged by what it should say of pages or records: a head whose other copy is gone is not made up.
//! 2. A copy that is wrong is written anew in its turn only, by the next head of its device, while the other copy is whole.
//!    A device without one that is whole is none of the mirror's: it is never given a head from what others know.
//! 3. What a cut may leave is no damage: of a volume that was not stopped in order, a copy may be torn.

use super::MirrorPages;
use super::log_devices::{LogDeviceState, Logs, Witness};
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

/// A head of either kind.
trait Head: Copy {
    fn decode(page: &[u8]) -> Option<Self>;
    fn generation(&self) -> u64;
    /// The volume, the place, and how many places there are.
    fn owner(&self) -> (u64, usize, usize);
}

impl Head for RingHead {
    fn decode(page: &[u8]) -> Option<Self> {
        Self::decode(page)
    }

    fn generation(&self) -> u64 {
        self.generation
    }

    fn owner(&self) -> (u64, usize, usize) {
        (self.volume, self.place.into(), self.places.into())
    }
}

impl Head for LogHead {
    fn decode(page: &[u8]) -> Option<Self> {
        Self::decode(page)
    }

    fn generation(&self) -> u64 {
        self.generation
    }

    fn owner(&self) -> (u64, usize, usize) {
        (self.volume, self.place.into(), self.places.into())
    }
}

type Found<H> = [Result<Option<H>, DeviceError>; COPIES];

async fn read_copies<H: Head, D: Device>(device: &D) -> Found<H> {
    let mut found = [Ok(None), Ok(None)];
    for (offset, found) in (0..).step_by(PAGE).zip(&mut found) {
        let mut page = [0; PAGE];
        *found = device.read(offset, &mut page).await.map(|()| H::decode(&page));
    }
    found
}

/// What is wrong with the copies of the head of one device, whose owner would be `owner`.
fn wrong_copies<H: Head>(
    found: &Found<H>,
    owner: (u64, usize, usize),
    is_closed: bool,
) -> Vec<(usize, HeadFault)> {
    let is_at_place =
        |copy: usize, head: &H| head.owner() == owner && head.generation() % COPIES as u64 == copy as u64;
    let ours: Vec<Option<u64>> = (0..COPIES)
        .map(|copy| {
            let head = found[copy].as_ref().ok()?.filter(|head| is_at_place(copy, head))?;
            Some(head.generation())
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
            let is_next_to = |newest: &u64| head.generation().abs_diff(*newest) <= 1;
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
            let answer = async { Ok(read_copies::<RingHead, _>(&*device).await) };
            Some((place, self.0.ring.limited(answer).await.ok()?))
        });
        named(collected(found).await, of, self.0.ring.members.len())
    }
}

impl<E: Env, L: Device, W: Witness> Logs<E, L, W> {
    /// The copies of the heads of log devices that are wrong, of those devices that answer.
    pub async fn wrong_heads(&self, of: HeadsOf) -> Vec<WrongHead> {
        let members = self.0.members.iter().enumerate();
        let found = members.map(|(place, member)| async move {
            let device = member.device.as_ref().filter(|_| member.failure.get().is_none())?;
            let answer = async { Ok(read_copies::<LogHead, _>(device).await) };
            Some((place, self.0.limited(answer).await.ok()?))
        });
        named(collected(found).await, of, self.0.members.len())
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

async fn collected<H>(
    found: impl Iterator<Item = impl Future<Output = Option<(usize, H)>>>,
) -> Vec<(usize, H)> {
    let all = std::cell::RefCell::new(Vec::new());
    join::all(found.map(|found| async {
        let found = found.await;
        all.borrow_mut().extend(found);
    }))
    .await;
    let mut all = all.into_inner();
    all.sort_by_key(|(place, _)| *place);
    all
}

fn named<H: Head>(found: Vec<(usize, Found<H>)>, of: HeadsOf, places: usize) -> Vec<WrongHead> {
    let each = found.iter().flat_map(|(place, copies)| {
        let wrong = wrong_copies(copies, (of.volume, *place, places), of.is_closed);
        wrong.into_iter().map(|(copy, fault)| WrongHead { place: *place, copy, fault })
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: (u64, usize, usize) = (7, 1, 2);

    fn head(generation: u64) -> Result<Option<LogHead>, DeviceError> {
        Ok(Some(LogHead { volume: 7, generation, place: 1, places: 2, losses: 3 }))
    }

    #[test]
    fn a_copy_is_wrong_unless_a_cut_may_have_left_it() {
        let torn = || Ok(None);
        let unreadable = DeviceError { doing: "read", errno: 5 };
        let others = Ok(Some(LogHead { volume: 8, generation: 4, place: 1, places: 2, losses: 3 }));
        type Faults<'a> = &'a [(usize, HeadFault)];
        let cases: [(Found<LogHead>, Faults<'_>, Faults<'_>); 8] = [
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
