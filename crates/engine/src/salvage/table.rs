//! The pages of the table: which of them the root or the log vouches for, and what is made of the others.
//!
//! | page of the table                   | pages of the volume that it speaks of                             |
//! |-------------------------------------|-------------------------------------------------------------------|
//! | as a whole root or the log says     | those with their sum; others are lost                             |
//! | as a damaged root says              | those with their sum, uncertain; others are lost                  |
//! | not as root or log say, or unread   | as the drive holds them, uncertain; what cannot be read is lost   |
//!
//! What the last kind of page says is taken where the drive bears it out ([`super::table_rebuild`]).

use super::copies::Copies;
use super::damage::{Cause, Condition, DamageList};
use super::discover::FoundRoot;
use super::table_rebuild;
use crate::device::{Device, Extent};
use crate::format::layout::{Layout, SUMS_PER_TABLE_PAGE};
use crate::format::{PAGE, PAGE_BYTES, page_sum};
use crate::home::Home;
use crate::layout::Replicated;
use crate::planted::{Bug, is_planted};
use crate::volume::UnverifiedTable;

/// Pages that are read at once.
const READ_PAGES_MAX: u64 = 64;

/// Says in `root`, of each page of the table for which it does not vouch, what that sums to as it is found. One of which
/// the damaged root says something else is named in `doubts`.
pub(super) async fn fill_root<D: Device>(
    home: &Copies<D>,
    layout: &Layout,
    root: &mut FoundRoot,
    doubts: &mut UnverifiedTable,
) {
    for number in 0..layout.table_pages() {
        if root.vouches_for(number) {
            continue;
        }
        let said = root.words[number as usize];
        let found: Vec<u64> = table_rebuild::stored_replicas(home, layout, number)
            .await
            .iter()
            .map(|it| page_sum(it))
            .collect();
        if !found.contains(&said) {
            doubts.unvouched.insert(number);
            // What cannot be read has a sum all the same, so that its pages are no zeros.
            root.words[number as usize] = found.first().map_or(said.max(1), |&sum| sum);
        }
    }
}

/// Looks at every page of the table, has those that nothing vouches for made anew, and names them. A root
/// that nothing vouches for is no cause of its own where it `is_all_named`: there is no superblock, or only an older root.
pub(super) async fn vouch<D: Device>(
    home: &Home<Copies<D>>,
    root: &FoundRoot,
    is_all_named: bool,
    doubts: &UnverifiedTable,
    list: &mut DamageList,
    progress: &impl Fn(u64, u64),
) {
    let layout = home.layout();
    let mut window = Window::default();
    for number in 0..layout.table_pages() {
        progress(number, layout.table_pages());
        let is_doubtful = doubts.unvouched.contains(&number) && !is_planted(Bug::SalvageTrustsUnvouched);
        let is_disagreeing = doubts.disagreeing.contains(&number);
        let in_memory = home.table.bytes_in_memory(number);
        let is_of_log = in_memory.is_some() && !home.table.is_settled(number);
        if is_of_log && !is_disagreeing && !(is_doubtful && doubts.as_root_says.contains(&number)) {
            continue; // the log vouches for it
        }
        let expected = home.table.root_sum(number);
        let is_damaged = is_disagreeing
            || (in_memory.is_none()
                && expected != 0
                && window.page(home, number, expected).await.is_none_or(|page| page_sum(&page) != expected));
        let is_made = (is_damaged || is_doubtful) && make_anew(home, number, in_memory).await;
        let cause = match () {
            () if is_planted(Bug::SalvageUnnamed) => continue,
            () if is_damaged || is_made || is_planted(Bug::SalvageNamesAll) => Cause::TableDamaged,
            () if !root.vouches_for(number) && !is_all_named => Cause::RootDamaged,
            () => continue,
        };
        list.add(bytes_for(&layout, number), Condition::Uncertain, cause);
    }
}

/// Has a page of the table say what its pages sum to as the drives hold them; answers whether it said something else.
async fn make_anew<D: Device>(home: &Home<Copies<D>>, number: u64, in_memory: Option<[u8; PAGE]>) -> bool {
    let layout = home.layout();
    let said = table_rebuild::stored_replicas(&home.device, &layout, number).await;
    let made = table_rebuild::rebuild(&home.device, &layout, number, &said, in_memory.as_ref()).await;
    let is_changed = !said.iter().chain(&in_memory).any(|said| *said == made);
    if in_memory.is_some() {
        home.table.recover(number, &made, false);
    } else {
        if is_changed {
            home.device.make_anew(layout, number);
        }
        home.table.set_root_sum(number, page_sum(&made));
    }
    is_changed
}

/// Neighbouring pages of the table that were read together.
#[derive(Default)]
struct Window {
    first: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// The page of the table with this sum, of any copy; else as one of them holds it.
    async fn page<D: Device>(&mut self, home: &Home<Copies<D>>, number: u64, sum: u64) -> Option<[u8; PAGE]> {
        let layout = home.layout();
        let held = self.first..self.first + (self.bytes.len() / PAGE) as u64;
        if !held.contains(&number) {
            let count = READ_PAGES_MAX.min(layout.table_pages() - number);
            let is_run = layout.table_offset(number + count - 1) - layout.table_offset(number)
                == (count - 1) * PAGE_BYTES;
            self.first = number;
            self.bytes = vec![0; if is_run { count as usize * PAGE } else { PAGE }];
            if home.device.read(layout.table_offset(number), &mut self.bytes).await.is_err() {
                self.bytes.clear();
            }
        }
        let mut page: Option<[u8; PAGE]> = None;
        if let Some(bytes) =
            self.bytes.get((number - self.first) as usize * PAGE..).and_then(<[u8]>::first_chunk)
        {
            page = Some(*bytes);
        }
        for copy in 0..home.device.replicas() {
            if page.is_some_and(|page| page_sum(&page) == sum) {
                break;
            }
            let mut bytes = [0; PAGE];
            if home.device.read_replica(copy, layout.table_offset(number), &mut bytes).await.is_ok()
                && (page_sum(&bytes) == sum || page.is_none())
            {
                page = Some(bytes);
            }
        }
        page
    }
}

/// The pages of the volume that a page of the table speaks of.
pub(super) fn pages_of(layout: &Layout, number: u64) -> std::ops::Range<u64> {
    let first = number * SUMS_PER_TABLE_PAGE;
    first..(first + SUMS_PER_TABLE_PAGE).min(layout.pages)
}

fn bytes_for(layout: &Layout, number: u64) -> Extent {
    let pages = pages_of(layout, number);
    Extent::new(pages.start * PAGE_BYTES, (pages.end - pages.start) * PAGE_BYTES)
}
