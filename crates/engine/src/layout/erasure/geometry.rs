//! Which member holds which bytes of a ring with stripes.
//!
//! ```text
//!                member 0   1    2    3    4    5         4+2: data shard n lies on member n mod 6, and stripe s
//!   stripe 0         d0   d1   d2   d3   P0   P1         has the parity shards behind its data shards
//!   stripe 1         d6   d7   P0   P1   d4   d5
//!   stripe 2         P0   P1   d8   d9   d10  d11
//! ```
//!
//! What the ring offers is cut into shards, one after another, K of them a stripe. Stripe s has one shard on each member, at
//! s times the bytes of a shard.
//!
//! 1. Every byte that the ring offers lies on one member, and no two at the same place. All shards of a stripe lie on
//!    different members.
//! 2. Bytes that follow one another lie on all members in turn, parity included: over K + M stripes each member holds as
//!    many data shards as any other, and as many of each parity shard where K and M have no common divisor with K + M;
//!    otherwise as many parity shards.
//! 3. All sums are checked: an extent that does not fit 64 bits has no place.

use crate::device::Extent;
use crate::format::ring_head::MEMBERS_MAX;
use crate::format::stripes::{DATA_MAX, PARITY_MAX, Stripes};

const _: () = assert!(DATA_MAX + PARITY_MAX <= MEMBERS_MAX);

/// Where a shard lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shard {
    /// The stripe, from 0.
    pub stripe: u64,
    /// Which of its shards: data shards from 0, parity shards from K.
    pub number: usize,
}

/// A part of an extent that lies in one data shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// What it is of what the ring offers.
    pub extent: Extent,
    /// The shard.
    pub shard: Shard,
    /// The member with that shard.
    pub place: usize,
    /// Where it is on that member, from the begin of its shards.
    pub on_member: Extent,
}

impl Stripes {
    /// Bytes that a stripe offers.
    pub fn stripe_bytes(&self) -> u64 {
        self.data() as u64 * self.shard_bytes()
    }

    /// Bytes that the ring offers where each member has `member_bytes` for shards: that of whole stripes. `None` where that
    /// does not fit 64 bits.
    pub fn offered_bytes(&self, member_bytes: u64) -> Option<u64> {
        (member_bytes / self.shard_bytes()).checked_mul(self.stripe_bytes())
    }

    /// Bytes that each member needs for shards, so that the ring offers `size_bytes`.
    pub fn member_bytes(&self, size_bytes: u64) -> Option<u64> {
        size_bytes.div_ceil(self.stripe_bytes()).checked_mul(self.shard_bytes())
    }

    /// The member that holds a shard.
    pub fn place_of(&self, shard: Shard) -> usize {
        let members = self.members() as u64;
        // By remainders, so that no stripe is too far: s * K + number, modulo K + M.
        let first = shard.stripe % members * self.data() as u64;
        ((first + shard.number as u64) % members) as usize
    }

    /// Which shard of a stripe a member holds.
    pub fn shard_on(&self, stripe: u64, place: usize) -> Shard {
        let first = self.place_of(Shard { stripe, number: 0 });
        Shard { stripe, number: (place + self.members() - first) % self.members() }
    }

    /// Where in what the ring offers a byte of a data shard is, from where it is on the member.
    pub fn home_of(&self, shard: Shard, on_member: u64) -> u64 {
        let within = on_member - shard.stripe * self.shard_bytes();
        shard.stripe * self.stripe_bytes() + shard.number as u64 * self.shard_bytes() + within
    }

    /// The stripe in which this byte of a member lies, from the begin of its shards.
    pub fn stripe_on_member(&self, offset: u64) -> u64 {
        offset / self.shard_bytes()
    }

    /// Where on a member its shard of a stripe lies, from the begin of its shards.
    pub fn shard_extent(&self, stripe: u64) -> Option<Extent> {
        let offset = stripe.checked_mul(self.shard_bytes())?;
        offset.checked_add(self.shard_bytes())?;
        Some(Extent::new(offset, self.shard_bytes()))
    }

    /// Rows of a member, from the begin of its shards: those of each stripe together, but no more than `most_bytes`, in order.
    pub fn rows_by_stripe(&self, on_member: Extent, most_bytes: u64) -> impl Iterator<Item = Extent> + use<> {
        let shard_bytes = self.shard_bytes();
        let (mut offset, end) = (on_member.offset, on_member.end());
        std::iter::from_fn(move || {
            let left = end.checked_sub(offset).filter(|&left| left > 0)?;
            let rows = Extent::new(offset, left.min(shard_bytes - offset % shard_bytes).min(most_bytes));
            offset += rows.len;
            Some(rows)
        })
    }

    /// An extent, piece by piece, each in one data shard, in order. None where the extent does not fit 64 bits.
    pub fn pieces(&self, extent: Extent) -> impl Iterator<Item = Piece> + use<> {
        let stripes = *self;
        let end = extent.offset.checked_add(extent.len).unwrap_or(extent.offset);
        let mut offset = extent.offset;
        std::iter::from_fn(move || {
            let left = end.checked_sub(offset).filter(|&left| left > 0)?;
            let (row, number) = (offset / stripes.stripe_bytes(), offset % stripes.stripe_bytes());
            let shard = Shard { stripe: row, number: (number / stripes.shard_bytes()) as usize };
            let within = offset % stripes.shard_bytes();
            let len = left.min(stripes.shard_bytes() - within);
            let piece = Piece {
                extent: Extent::new(offset, len),
                shard,
                place: stripes.place_of(shard),
                on_member: Extent::new(row * stripes.shard_bytes() + within, len),
            };
            offset += len;
            Some(piece)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    fn stripes() -> impl Strategy<Value = Stripes> {
        let shapes = (2..=DATA_MAX, 1..=PARITY_MAX, 12..=20u32);
        shapes.prop_map(|(data, parity, bits)| Stripes::new(data, parity, 1 << bits).expect("sound"))
    }

    #[test]
    fn stripes_of_four_and_two_lie_as_drawn() {
        let stripes = Stripes::new(4, 2, 4096).expect("sound");
        let row = |stripe| (0..6).map(|place| stripes.shard_on(stripe, place).number).collect::<Vec<_>>();
        assert_eq!(row(0), [0, 1, 2, 3, 4, 5]);
        assert_eq!(row(1), [2, 3, 4, 5, 0, 1]);
        assert_eq!(row(2), [4, 5, 0, 1, 2, 3]);
        assert_eq!(row(3), row(0));
    }

    #[test]
    fn every_byte_has_one_place_and_no_two_have_the_same() {
        for (data, parity) in [(2, 1), (4, 2), (3, 2), (5, 1), (16, 4)] {
            let stripes = Stripes::new(data, parity, 4096).expect("sound");
            let rows = stripes.members() as u64 * 2;
            let mut taken = BTreeSet::new();
            for page in 0..rows * data as u64 {
                let pieces: Vec<Piece> = stripes.pieces(Extent::new(page * 4096, 4096)).collect();
                assert_eq!(pieces.len(), 1);
                assert!(taken.insert((pieces[0].place, pieces[0].on_member.offset)), "page {page}");
            }
            for stripe in 0..rows {
                for number in data..data + parity {
                    let place = stripes.place_of(Shard { stripe, number });
                    let offset = stripes.shard_extent(stripe).expect("it fits").offset;
                    assert!(taken.insert((place, offset)), "parity of {stripe}");
                }
            }
            // With parity, every shard of every member is taken: no room is left over.
            assert_eq!(taken.len() as u64, rows * stripes.members() as u64);
        }
    }

    proptest! {
        #[test]
        fn the_shards_of_a_stripe_lie_on_all_members(stripes in stripes(), stripe: u64) {
            let places: Vec<usize> =
                (0..stripes.members()).map(|number| stripes.place_of(Shard { stripe, number })).collect();
            prop_assert_eq!(places.iter().collect::<BTreeSet<_>>().len(), stripes.members());
            for (number, &place) in places.iter().enumerate() {
                prop_assert!(place < stripes.members());
                prop_assert_eq!(stripes.shard_on(stripe, place), Shard { stripe, number });
            }
        }

        #[test]
        fn each_member_has_as_much_data_and_parity_as_any_other(stripes in stripes(), first in 0..u64::MAX / 2) {
            let mut parity_of = BTreeMap::<usize, usize>::new();
            for stripe in first..first + stripes.members() as u64 {
                for number in stripes.data()..stripes.members() {
                    *parity_of.entry(stripes.place_of(Shard { stripe, number })).or_default() += 1;
                }
            }
            prop_assert!((0..stripes.members()).all(|place| parity_of.get(&place) == Some(&stripes.parity())));
        }

        #[test]
        fn pieces_follow_one_another_and_lie_where_their_bytes_do(
            stripes in stripes(), offset in 0..1u64 << 50, len in 0..8u64 << 20,
        ) {
            let extent = Extent::new(offset, len);
            let mut next = offset;
            for piece in stripes.pieces(extent) {
                prop_assert_eq!(piece.extent.offset, next);
                prop_assert!(piece.extent.len > 0);
                next += piece.extent.len;
                prop_assert_eq!(piece.on_member.len, piece.extent.len);
                // By the definition: data shard n of all lies on member n mod N, in row n / K.
                let shard = piece.extent.offset / stripes.shard_bytes();
                prop_assert_eq!(piece.place as u64, shard % stripes.members() as u64);
                prop_assert_eq!(piece.shard.stripe, shard / stripes.data() as u64);
                let row = stripes.shard_extent(piece.shard.stripe).expect("it fits");
                prop_assert_eq!(
                    piece.on_member.offset - row.offset, piece.extent.offset % stripes.shard_bytes()
                );
                prop_assert!(piece.on_member.end() <= row.end());
                prop_assert_eq!(stripes.stripe_on_member(piece.on_member.offset), piece.shard.stripe);
                prop_assert_eq!(stripes.home_of(piece.shard, piece.on_member.offset), piece.extent.offset);
            }
            prop_assert_eq!(next, extent.end());
        }

        #[test]
        fn what_is_offered_fits_the_members_and_a_shard_less_would_not_do(
            stripes in stripes(), size_bytes in 1..1u64 << 55,
        ) {
            let member_bytes = stripes.member_bytes(size_bytes).expect("it fits");
            prop_assert!(stripes.offered_bytes(member_bytes).expect("it fits") >= size_bytes);
            prop_assert!(stripes.offered_bytes(member_bytes - 1).expect("it fits") < size_bytes);
            let last = stripes.pieces(Extent::new(size_bytes - 1, 1)).next().expect("a byte");
            prop_assert!(last.on_member.end() <= member_bytes);
        }

        #[test]
        fn no_numbers_make_it_panic(stripes in stripes(), offset: u64, len: u64, stripe: u64, place in 0..32usize) {
            let _any = (stripes.offered_bytes(offset), stripes.member_bytes(len));
            let _any = stripes.shard_extent(stripe);
            let _any = stripes.shard_on(stripe, place % stripes.members());
            let extent = Extent { offset, len };
            for piece in stripes.pieces(extent).take(3) {
                prop_assert!(piece.extent.offset >= offset);
            }
            if offset.checked_add(len).is_none() {
                prop_assert_eq!(stripes.pieces(extent).count(), 0);
            }
        }
    }
}
