//! Which member serves a read: the least busy of those that only read; one that writes, only where there is no other.

use super::Inner;
use crate::device::Drive;
use crate::env::Env;
use crate::error::DeviceError;
use crate::ring::EIO;

impl<E: Env, M: Drive> Inner<E, M> {
    /// Fills `into` from one of the members.
    pub(super) async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        if let Some(striping) = &self.striping {
            // In a place of its own: a request is no larger for what its layout does not do.
            return Box::pin(self.read_stripes(striping, offset, into)).await;
        }
        let ring = &self.ring;
        let mut asked = 0u64;
        let mut failure = None;
        while let Some(place) = self.reader(asked) {
            asked |= 1 << place;
            match ring.read_from(place, offset, into).await {
                Ok(()) => return Ok(()),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Err(failure
            .unwrap_or_else(|| ring.check_alive().err().unwrap_or(DeviceError { doing: "read", errno: EIO })))
    }

    /// Who reads next, of those that were not asked yet.
    fn reader(&self, asked: u64) -> Option<usize> {
        let ring = &self.ring;
        let turn = ring.reads.replace(ring.reads.get() + 1) as usize;
        let places = ring.members.len();
        let in_turn = (0..places).map(|step| (turn + step) % places);
        let may = |place: &usize| ring.members[*place].is_in_sync() && asked >> place & 1 == 0;
        in_turn.filter(may).min_by_key(|&place| ring.busyness(&ring.members[place]))
    }
}
