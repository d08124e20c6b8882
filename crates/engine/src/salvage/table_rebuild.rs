//! Pages of the table for which nothing vouches, made from what the drives hold.
//!
//! 1. A sum that its page has is kept. So is the sum of a page without contents, where another page has the sum that
//!    stands in the same sector: that sector is whole.
//! 2. Every other page gets the sum of what the drive holds, and reads as it is there. One that cannot be read gets a sum
//!    that nothing has: it reads as an error, never as zeros.
//! 3. Such a page of the table takes no memory: it is made once more whenever it is read.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::copies::Copies;
use super::table::pages_of;
use crate::device::Device;
use crate::format::layout::Layout;
use crate::format::{PAGE, page_sum};
use crate::layout::Replicated;
use crate::planted::{Bug, is_planted};

/// Bytes of the table that are damaged together or not at all.
const SECTOR: usize = 512;

/// Sums in a sector of the table.
const SUMS: usize = SECTOR / 8;

/// Which pages of the table are made instead of read.
#[derive(Debug, Default)]
pub(super) struct RebuiltTable {
    layout: Option<Rc<Layout>>,
    numbers: BTreeSet<u64>,
}

impl RebuiltTable {
    /// This one is, from now on.
    pub(super) fn add(&mut self, layout: Rc<Layout>, number: u64) {
        self.layout = Some(layout);
        self.numbers.insert(number);
    }

    /// The page of the table that these bytes of the home device are, where it is made.
    pub(super) fn at(&self, offset: u64, len: usize) -> Option<(Rc<Layout>, u64)> {
        let layout = self.layout.as_ref().filter(|_| len == PAGE)?;
        let number = layout.table_page_at(offset).filter(|number| self.numbers.contains(number))?;
        Some((Rc::clone(layout), number))
    }
}

/// The page of the table as each copy holds it that can be read.
pub(super) async fn stored_replicas<D: Device>(
    home: &Copies<D>,
    layout: &Layout,
    number: u64,
) -> Vec<[u8; PAGE]> {
    let mut found = Vec::new();
    for part in home.parts() {
        let mut bytes = [0; PAGE];
        if part.read(layout.table_offset(number), &mut bytes).await.is_ok() {
            found.push(bytes);
        }
    }
    found
}

/// The page of the table that `said` are copies of, made from what the drives hold; `logged` with what the log says over it.
pub(super) async fn rebuild<D: Device>(
    home: &Copies<D>,
    layout: &Layout,
    number: u64,
    said: &[[u8; PAGE]],
    logged: Option<&[u8; PAGE]>,
) -> [u8; PAGE] {
    let mut made = [0; PAGE];
    let mut bytes = Vec::new();
    let pages = pages_of(layout, number);
    for (sector, first) in pages.clone().step_by(SUMS).enumerate() {
        let end = pages.end.min(first + SUMS as u64);
        bytes.resize((end - first) as usize * PAGE, 0);
        let is_read = layout.run_end(first, end) == end
            && home.read_raw(0, layout.page_offset(first), &mut bytes).await.is_ok();
        let (mut all, mut is_whole) = (Vec::with_capacity(SUMS), vec![false; said.len()]);
        for (place, page) in (first..end).enumerate() {
            let first_copy = is_read.then(|| bytes[place * PAGE..][..PAGE].as_ref());
            let at = sector * SUMS + place;
            let words = logged.into_iter().chain(said).map(|said| word(said, at));
            let examined = examine(home, layout.page_offset(page), first_copy, words).await;
            // What the log or another copy says does not prove what stands beside it here.
            for (is_whole, said) in is_whole.iter_mut().zip(said) {
                *is_whole |= examined.is_said && Some(word(said, at)) == examined.sum;
            }
            all.push(examined);
        }
        for (place, examined) in all.into_iter().enumerate() {
            let at = sector * SUMS + place;
            let says_empty = said
                .iter()
                .zip(&is_whole)
                .any(|(said, &is)| (is || is_planted(Bug::SalvageEmptyUnproven)) && word(said, at) == 0);
            let sum = match examined.sum {
                _ if says_empty && !examined.is_said => 0,
                Some(sum) => sum,
                None => said.first().map_or(1, |said| word(said, at).max(1)),
            };
            made[at * 8..][..8].copy_from_slice(&sum.to_le_bytes());
        }
    }
    made
}

/// What the drives hold of a page.
struct Look {
    /// Its sum, 0 for zeros; that which it should have where any copy has it.
    sum: Option<u64>,
    /// Whether that is so.
    is_said: bool,
}

async fn examine<D: Device>(
    home: &Copies<D>,
    offset: u64,
    first_copy: Option<&[u8]>,
    words: impl Iterator<Item = u64> + Clone,
) -> Look {
    let mut found = None;
    let mut bytes = [0; PAGE];
    for copy in 0..home.replicas() {
        match first_copy.filter(|_| copy == 0) {
            Some(first_copy) => bytes.copy_from_slice(first_copy),
            None if home.read_raw(copy, offset, &mut bytes).await.is_err() => continue,
            None => {}
        }
        let sum = page_sum(&bytes);
        if words.clone().any(|word| word == sum) {
            return Look { sum: Some(sum), is_said: true };
        }
        let is_empty = bytes.iter().all(|&byte| byte == 0);
        found.get_or_insert(if is_empty { 0 } else { sum });
    }
    Look { sum: found, is_said: false }
}

fn word(table: &[u8; PAGE], place: usize) -> u64 {
    u64::from_le_bytes(*table[place * 8..].first_chunk().expect("a page has so many words"))
}
