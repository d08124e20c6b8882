//! The pages of the table: which of them the root or the log vouches for, and what is made of the others.
//!
//! | page of the table                       | root      | pages of the volume that it speaks of               |
//! |-----------------------------------------|-----------|-----------------------------------------------------|
//! | as the root or the log says             | whole     | those with their sum; others are lost               |
//! | as it is found                          | damaged   | those with their sum, uncertain; others are lost    |
//! | not as the root or the log says, or gone | any      | as the drive holds them, uncertain; what cannot be read is lost |

use std::collections::BTreeSet;

use super::copies::Copies;
use super::discover::FoundRoot;
use super::named::{Cause, Condition, List};
use crate::device::{Device, Extent};
use crate::format::layout::{Layout, SUMS_PER_TABLE_PAGE};
use crate::format::{PAGE, PAGE_BYTES, page_sum};
use crate::home::Home;

/// Pages of the table that are made anew, at most: each takes its size of memory.
const MADE_ANEW_MAX: usize = 16_384;

/// Pages that are read at once.
const READ_PAGES_MAX: u64 = 64;

/// Says in `root` what each page of the table sums to of which the root does not: as it is found.
pub(super) async fn fill_root<D: Device>(home: &Copies<D>, layout: &Layout, root: &mut FoundRoot) {
    for number in 0..layout.table_pages() {
        if root.vouches_for(number) {
            continue;
        }
        let said = root.words[number as usize];
        let (mut found, mut page) = (None, [0; PAGE]);
        for copy in 0..home.copies() {
            if home.read_copy(copy, layout.table_offset(number), &mut page).await.is_err() {
                continue;
            }
            let sum = page_sum(&page);
            if sum == said {
                found = Some(sum);
                break;
            }
            found.get_or_insert(sum);
        }
        // What was never written may hold anything: then the root says 0, and no page has the sum that stands there.
        root.words[number as usize] = match found {
            Some(_) if said == 0 && !proves_itself(home, layout, number).await => 0,
            Some(found) => found,
            None => said,
        };
    }
}

/// Whether a page of the volume has the sum that the page of the table, as the first copy has it, says.
async fn proves_itself<D: Device>(home: &Copies<D>, layout: &Layout, number: u64) -> bool {
    let mut table = [0; PAGE];
    if home.read(layout.table_offset(number), &mut table).await.is_err() {
        return false;
    }
    for (page, sum) in pages_of(layout, number).zip(words(&table)) {
        let mut bytes = [0; PAGE];
        if sum != 0
            && home.read(layout.page_offset(page), &mut bytes).await.is_ok()
            && page_sum(&bytes) == sum
        {
            return true;
        }
    }
    false
}

/// Looks at every page of the table, makes anew what nothing vouches for, and names it.
pub(super) async fn vouch<D: Device>(
    home: &Home<Copies<D>>,
    is_vouched: &FoundRoot,
    disagreeing: &BTreeSet<u64>,
    list: &mut List,
    progress: &impl Fn(u64, u64),
) {
    let (layout, mut made_anew) = (home.layout(), 0);
    let mut window = Window::default();
    for number in 0..layout.table_pages() {
        progress(number, layout.table_pages());
        let expected = home.table.root_sum(number);
        let in_memory = home.table.bytes_in_memory(number);
        let found = match in_memory {
            Some(bytes) if disagreeing.contains(&number) => Some(bytes),
            // The log vouches for it.
            Some(_) => continue,
            None if expected == 0 => None,
            None => window.page(home, number, expected).await,
        };
        let is_damaged = disagreeing.contains(&number)
            || (expected != 0 && found.is_none_or(|found| page_sum(&found) != expected));
        let extent = bytes_for(&layout, number);
        if is_damaged {
            list.add(extent, Condition::Uncertain, Cause::TableDamaged);
            made_anew += 1;
            if made_anew <= MADE_ANEW_MAX {
                make_anew(home, number, found).await;
            }
        } else if !is_vouched.vouches_for(number) {
            list.add(extent, Condition::Uncertain, Cause::RootDamaged);
        }
    }
}

/// Has a page of the table say what each of its pages sums to as the drive holds it.
async fn make_anew<D: Device>(home: &Home<Copies<D>>, number: u64, found: Option<[u8; PAGE]>) {
    let layout = home.layout();
    let mut made = found.unwrap_or([0; PAGE]);
    let pages: Vec<u64> = pages_of(&layout, number).collect();
    for (place, &page) in pages.iter().enumerate() {
        let word = &mut made[place * 8..][..8];
        let said = u64::from_le_bytes((&*word).try_into().expect("eight bytes"));
        let (mut sum, mut bytes) = (None, [0; PAGE]);
        for copy in 0..home.device.copies() {
            if home.device.read_copy(copy, layout.page_offset(page), &mut bytes).await.is_err() {
                continue;
            }
            let is_empty = bytes.iter().all(|&byte| byte == 0);
            let this = if is_empty && said == 0 { 0 } else { page_sum(&bytes) };
            if this == said {
                sum = Some(this);
                break;
            }
            sum.get_or_insert(this);
        }
        // What cannot be read has a sum all the same, so that it is no page of zeros.
        let sum = sum.unwrap_or(said.max(1));
        word.copy_from_slice(&sum.to_le_bytes());
    }
    home.table.recover(number, &made, false);
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
        for copy in 0..home.device.copies() {
            if page.is_some_and(|page| page_sum(&page) == sum) {
                break;
            }
            let mut bytes = [0; PAGE];
            if home.device.read_copy(copy, layout.table_offset(number), &mut bytes).await.is_ok()
                && (page_sum(&bytes) == sum || page.is_none())
            {
                page = Some(bytes);
            }
        }
        page
    }
}

fn words(table: &[u8; PAGE]) -> impl Iterator<Item = u64> {
    table.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
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
