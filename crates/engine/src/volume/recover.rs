//! What the log says of each page after a cut.
//!
//! | last word on a page     | what is home                       | what recovery makes of it                  |
//! |-------------------------|------------------------------------|--------------------------------------------|
//! | commits only            | the page as the table sums it      | the deltas, over it                        |
//! | sums of a checkpoint    | old and new sectors, mixed         | the deltas make it whole; the sum proves it |
//! | image of a checkpoint   | anything                           | the image, and later deltas over it        |
//! | intent                  | old or new, or sectors of each     | as found, summed anew                      |
//! | intent, and it needs images | anything: it had no contents   | nothing: it has no contents                |
//! | completion              | the page as the completion sums it | as commits only                            |
//!
//! A page whose place was never written may hold anything: it counts as zeros unless a sum proves otherwise.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use crate::error::Error;
use crate::format::layout::SUMS_PER_TABLE_PAGE;
use crate::format::record::{RecordKind, Tag};
use crate::format::{PAGE, page_sum};
use crate::home::Home;
use crate::layout::PageStore;
use crate::log::scan::Scanned;
use crate::page_map::PageMap;
use crate::planted::{Bug, is_planted};
use crate::ranges::PageRanges;

/// Pages read from the device at once.
const READ_PAGES_MAX: u64 = 64;

/// Pages between two wanted ones that are read with them.
const READ_GAP_PAGES_MAX: u64 = 8;

/// What the log says of one page.
#[derive(Default)]
struct History {
    /// Changes since the last direct write.
    changes: Vec<Change>,
    /// The last checkpoint that was to take it home.
    checkpoint: Option<Announced>,
    /// The last image of it, and up to which record its changes are in it. A later checkpoint says no more than a sum where
    /// it was made for drives that keep sectors whole, and home may be torn still from the one before.
    image: Option<(u64, Image)>,
    /// The sum that a direct write without completion would have given it.
    intent: Option<u64>,
    /// Whether the log says that it was empty before that write.
    was_emptied: bool,
}

/// Of every page of which more than commits speaks.
type PageHistories = PageMap<History>;
type TableHistories = BTreeMap<u64, TableHistory>;

/// A tag of a record, and where its payload begins.
#[derive(Clone, Copy)]
struct Change {
    record: usize,
    tag: Tag,
    payload_at: usize,
}

/// Record and place of an image.
type Image = (usize, usize);

#[derive(Clone, Copy)]
struct Announced {
    through: u64,
    sum: u64,
    image: Option<Image>,
}

/// What the log says of one page of the table.
#[derive(Default)]
struct TableHistory {
    /// Sums in the order of their coming, since the image.
    sums: Vec<(u64, u64)>,
    /// After how many of them the whole table page has which sum.
    expected: Option<(usize, u64)>,
    image: Option<Image>,
}

/// Pages of the table that the log speaks of and does not vouch for, where they are named and not refused.
#[derive(Debug, Default)]
pub(crate) struct UnverifiedTable {
    /// Those for which no root vouches, whether the log speaks of them or not: whoever opens the volume says so.
    pub(crate) unvouched: BTreeSet<u64>,
    /// Those that are not what the log or the root says.
    pub(crate) disagreeing: BTreeSet<u64>,
    /// Those of which the log says no sum: they are what the root says.
    pub(crate) as_root_says: BTreeSet<u64>,
}

/// Puts everything that the log says into `home`. A volume with such a log never had more dirty pages than
/// `dirty_pages_max`, and as many again that a checkpoint wrote. Where home `needs_images` of what is written there, the
/// sum that another drive was content with is not enough. With `doubts`, what cannot be made whole is taken as it is: a page
/// of the table is named there, and any other does not have its sum.
///
/// # Errors
///
/// [`Error::Damaged`] for a page that cannot be made whole, [`Error::Unusable`] for a table page, and for a log that
/// changes far more pages than that; those of the device.
pub(super) async fn replay<H: PageStore>(
    home: &Home<H>,
    records: &[Scanned],
    dirty_pages_max: usize,
    needs_images: bool,
    doubts: Option<&RefCell<UnverifiedTable>>,
) -> Result<(), Error> {
    let needs_images = needs_images && !is_planted(Bug::SumForImage);
    let (pages, table) = histories(home, records, dirty_pages_max)?;
    for (&number, history) in &table {
        replay_table_page(home, records, number, history, needs_images, doubts).await?;
    }
    let mut wanted: Vec<u64> = pages.pages().collect();
    wanted.sort_unstable();
    let mut stored = Stored { home, needs_images, wanted: &wanted, start: 0, bytes: Vec::new() };
    for &page in &wanted {
        let history = pages.get(page).expect("it is one of them");
        replay_page(&mut stored, records, page, history, doubts).await?;
    }
    Ok(())
}

/// What the log says of every page of which more than commits speaks, and of the table. The changes of all other pages
/// go into `home` at once: their order is that of the records.
fn histories<H: PageStore>(
    home: &Home<H>,
    records: &[Scanned],
    dirty_pages_max: usize,
) -> Result<(PageHistories, TableHistories), Error> {
    // Nobody makes a log with more by writing: it is not worth the memory to find out what else is wrong with it.
    let check_reason = || match home.dirty_pages() > dirty_pages_max.saturating_mul(4) {
        true => Err(Error::Unusable("the log changes more pages than a checkpoint could name".to_owned())),
        false => Ok(()),
    };
    let mut histories = PageHistories::default();
    for tag in records.iter().flat_map(|record| &record.tags) {
        if let Tag::Page { page, .. } = *tag {
            histories.entry(page).or_default();
        }
    }
    let mut table: TableHistories = BTreeMap::new();
    let volume_pages = home.layout().pages;
    for (record, scanned) in records.iter().enumerate() {
        let mut payload_at = 0;
        for &tag in &scanned.tags {
            let at = payload_at;
            payload_at += match scanned.header.kind {
                RecordKind::Images => PAGE,
                _ => tag.payload_bytes(),
            };
            let image = (scanned.header.kind == RecordKind::Images).then_some((record, at));
            check_page(&tag, volume_pages)?;
            let mut note = |page: u64, tag: Tag| {
                let change = Change { record, tag, payload_at: at };
                match histories.get_mut(page) {
                    Some(history) => history.changes.push(change),
                    None => apply(home, records, &change),
                }
                check_reason()
            };
            match tag {
                Tag::Delta { page, .. } | Tag::Zero { page, .. } => note(page, tag)?,
                Tag::Discard { page, count } => {
                    for page in page..page + u64::from(count) {
                        note(page, Tag::Discard { page, count: 1 })?;
                    }
                }
                Tag::Page { page, sum } => {
                    let history = histories.entry(page).or_default();
                    match scanned.header.kind {
                        RecordKind::Intent => {
                            let last = history.changes.last();
                            let was_emptied = last.is_some_and(|it| matches!(it.tag, Tag::Discard { .. }));
                            *history = History { intent: Some(sum), was_emptied, ..History::default() };
                        }
                        RecordKind::Complete => {
                            history.intent = None;
                            table_history(&mut table, page).sums.push((page, sum));
                        }
                        _ => {
                            let through = scanned.header.through;
                            history.intent = None;
                            history.checkpoint = Some(Announced { through, sum, image });
                            history.image = image.map(|image| (through, image)).or(history.image);
                            table_history(&mut table, page).sums.push((page, sum));
                        }
                    }
                }
                Tag::Units { .. } => {}
                Tag::TablePage { page, sum } => {
                    let history = table.entry(page).or_default();
                    if image.is_some() {
                        *history = TableHistory { image, ..TableHistory::default() };
                    }
                    history.expected = Some((history.sums.len(), sum));
                }
            }
        }
    }
    Ok((histories, table))
}

fn table_history(table: &mut TableHistories, page: u64) -> &mut TableHistory {
    table.entry(page / SUMS_PER_TABLE_PAGE).or_default()
}

fn check_page(tag: &Tag, pages: u64) -> Result<(), Error> {
    let (last, limit) = match *tag {
        Tag::Delta { page, .. } | Tag::Zero { page, .. } | Tag::Page { page, .. } => (page, pages),
        Tag::Discard { page, count } => (page.saturating_add(u64::from(count) - 1), pages),
        Tag::TablePage { page, .. } => (page, pages.div_ceil(SUMS_PER_TABLE_PAGE)),
        Tag::Units { .. } => return Ok(()),
    };
    if last < limit {
        return Ok(());
    }
    Err(Error::Unusable(format!("the log speaks of page {last}, and there are {limit}")))
}

async fn replay_table_page<H: PageStore>(
    home: &Home<H>,
    records: &[Scanned],
    number: u64,
    history: &TableHistory,
    needs_images: bool,
    doubts: Option<&RefCell<UnverifiedTable>>,
) -> Result<(), Error> {
    // Where a cut came before the record that speaks of the table's page, nothing of it was written: it is as the root
    // sums it.
    let (checked_after, expected) = history.expected.unwrap_or((0, home.table.root_sum(number)));
    let replayed = |bytes: &mut [u8; PAGE]| {
        for (applied, &(page, sum)) in history.sums.iter().enumerate() {
            check_table_page(number, bytes, (applied == checked_after).then_some(expected))?;
            let place = (page % SUMS_PER_TABLE_PAGE) as usize * 8;
            bytes[place..place + 8].copy_from_slice(&sum.to_le_bytes());
        }
        // Without a sum of its own it has those of pages: whoever speaks of it gave it one or the other.
        let is_last_word = checked_after == history.sums.len();
        check_table_page(number, bytes, is_last_word.then_some(expected))?;
        Ok::<bool, Error>(is_last_word)
    };
    let is_base = |base: &[u8]| {
        let mut bytes: [u8; PAGE] = base.try_into().expect("a page is as long as a page");
        replayed(&mut bytes).is_ok()
    };
    let mut bytes = match history.image {
        Some(image) => image_of(records, image),
        None if home.table.root_sum(number) == 0 => [0; PAGE],
        None => match home.table.read(number, is_base).await {
            Err(_) if doubts.is_some() => [0; PAGE],
            read => read?,
        },
    };
    let found = bytes;
    if let Some(doubts) = doubts.filter(|_| history.expected.is_none()) {
        doubts.borrow_mut().as_root_says.insert(number);
    }
    let mut made = replayed(&mut bytes);
    if made.is_err() && doubts.is_some() {
        // Where the root is gone, it does not say that nothing was written there yet.
        bytes = [0; PAGE];
        made = replayed(&mut bytes);
    }
    let is_logged = match (made, doubts) {
        (Err(_), Some(doubts)) => {
            doubts.borrow_mut().disagreeing.insert(number);
            bytes = found;
            for &(page, sum) in &history.sums {
                let place = (page % SUMS_PER_TABLE_PAGE) as usize * 8;
                bytes[place..place + 8].copy_from_slice(&sum.to_le_bytes());
            }
            false
        }
        (is_logged, _) => is_logged?,
    };
    home.table.recover(number, &bytes, is_logged && (history.image.is_some() || !needs_images));
    Ok(())
}

fn check_table_page(number: u64, bytes: &[u8; PAGE], expected: Option<u64>) -> Result<(), Error> {
    // The root says 0 of a page of the table that was never written.
    let is_right =
        |expected| expected == page_sum(bytes) || (expected == 0 && bytes.iter().all(|&byte| byte == 0));
    if expected.is_none_or(is_right) {
        return Ok(());
    }
    Err(Error::Unusable(format!("page {number} of the table of sums is damaged")))
}

/// Pages as they stand home, unchecked, asked for in ascending order; neighbours are read together.
struct Stored<'a, H> {
    home: &'a Home<H>,
    needs_images: bool,
    /// What may be asked for, ascending.
    wanted: &'a [u64],
    /// First page in `bytes`.
    start: u64,
    bytes: Vec<u8>,
}

impl<H: PageStore> Stored<'_, H> {
    async fn page(&mut self, page: u64) -> Result<&[u8; PAGE], Error> {
        let held = self.start..self.start + (self.bytes.len() / PAGE) as u64;
        if !held.contains(&page) {
            self.start = page;
            let layout = self.home.layout();
            let end = layout.run_end(page, end_of_read(page, self.wanted));
            self.bytes.resize((end - page) as usize * PAGE, 0);
            let offset = layout.page_offset(page);
            if self.home.device.read(offset, &mut self.bytes).await.is_err() {
                // A bad sector in a neighbour is not this page's.
                self.bytes.truncate(PAGE);
                self.home.device.read(offset, &mut self.bytes).await?;
            }
        }
        let at = (page - self.start) as usize * PAGE;
        Ok(self.bytes[at..at + PAGE].try_into().expect("a page is as long as a page"))
    }
}

/// The page behind the last one of `wanted`, which ascend, that is worth reading together with `page`.
fn end_of_read(page: u64, wanted: &[u64]) -> u64 {
    let next = wanted.partition_point(|&wanted| wanted <= page);
    let mut end = page + 1;
    for &wanted in &wanted[next..] {
        if wanted - end > READ_GAP_PAGES_MAX || wanted - page >= READ_PAGES_MAX {
            break;
        }
        end = wanted + 1;
    }
    end
}

async fn replay_page<H: PageStore>(
    stored: &mut Stored<'_, H>,
    records: &[Scanned],
    page: u64,
    history: &History,
    doubts: Option<&RefCell<UnverifiedTable>>,
) -> Result<(), Error> {
    let home = stored.home;
    if let Some(new_sum) = history.intent {
        return replay_intent(stored, page, (new_sum, history.was_emptied), doubts).await;
    }
    let Some(announced) = history.checkpoint else {
        for change in &history.changes {
            apply(home, records, change);
        }
        return Ok(());
    };
    let is_included = |change: &Change| records[change.record].header.sequence <= announced.through;
    let (before, after) = history.changes.split_at(history.changes.partition_point(is_included));
    if !before.is_empty() || announced.image.is_some() || announced.sum == 0 {
        let logged_sum = Some(announced.sum);
        let is_sum_enough = !stored.needs_images || covers_page(before);
        match announced.image {
            _ if announced.sum == 0 => home.recover(page, &[0; PAGE], true, logged_sum),
            Some((record, at)) => {
                let image = &records[record].payload()[at..at + PAGE];
                let image: &[u8; PAGE] = image.try_into().expect("an image is a page");
                match page_sum(image) == announced.sum {
                    true => home.recover(page, image, false, logged_sum),
                    false if doubts.is_some() => {
                        before.iter().for_each(|change| apply(home, records, change));
                    }
                    false => return Err(Error::Damaged { page }),
                }
            }
            None => match whole_page(stored, records, page, before, announced.sum, history.image).await {
                Some(bytes) => home.recover(page, &bytes, false, logged_sum.filter(|_| is_sum_enough)),
                // What is home has rotted, or cannot be read. It does not pass its sum, so it is not served; what
                // the log holds of it is kept.
                None => before.iter().for_each(|change| apply(home, records, change)),
            },
        }
    }
    // Else its changes are older than the tail, so it is home, whole. If it has rotted there, that is found when
    // it is read: one bad page does not keep the volume shut.
    for change in after {
        apply(home, records, change);
    }
    Ok(())
}

/// The page of an interrupted checkpoint; `None` where it cannot be had.
async fn whole_page<H: PageStore>(
    stored: &mut Stored<'_, H>,
    records: &[Scanned],
    page: u64,
    changes: &[Change],
    sum: u64,
    image: Option<(u64, Image)>,
) -> Option<[u8; PAGE]> {
    let mut bytes = stored.page(page).await.map_or([0; PAGE], |bytes| *bytes);
    if makes_whole(records, changes, sum, &mut bytes) {
        return Some(bytes);
    }
    let device = &*stored.home.device;
    for copy in (0..device.replicas()).filter(|_| device.traits().is_replicated) {
        let read = device.read_replica(copy, stored.home.layout().page_offset(page), &mut bytes).await;
        if read.is_ok() && makes_whole(records, changes, sum, &mut bytes) {
            return Some(bytes);
        }
    }
    if let Some((through, (record, at))) = image {
        bytes.copy_from_slice(&records[record].payload()[at..at + PAGE]);
        let later = changes.partition_point(|change| records[change.record].header.sequence <= through);
        if makes_whole(records, &changes[later..], sum, &mut bytes) {
            return Some(bytes);
        }
    }
    // Perhaps its place was never written before: what is under the changes is zeros.
    bytes.fill(0);
    makes_whole(records, changes, sum, &mut bytes).then_some(bytes)
}

/// Whether changes hold every byte of their page.
fn covers_page(changes: &[Change]) -> bool {
    let mut held = PageRanges::default();
    for change in changes {
        match change.tag {
            Tag::Delta { offset, len, .. } | Tag::Zero { offset, len, .. } => {
                held.insert(offset, offset + len);
            }
            _ => return true,
        }
    }
    held.is_full()
}

/// Makes the changes of an interrupted checkpoint; answers whether the page then is what was announced.
fn makes_whole(records: &[Scanned], changes: &[Change], sum: u64, bytes: &mut [u8; PAGE]) -> bool {
    for change in changes {
        match change.tag {
            Tag::Delta { offset, len, .. } => {
                let (start, len) = (usize::from(offset), usize::from(len));
                bytes[start..start + len].copy_from_slice(payload_of(records, change));
            }
            Tag::Zero { offset, len, .. } => bytes[usize::from(offset)..][..usize::from(len)].fill(0),
            _ => bytes.fill(0),
        }
    }
    page_sum(bytes) == sum
}

async fn replay_intent<H: PageStore>(
    stored: &mut Stored<'_, H>,
    page: u64,
    (new_sum, was_emptied): (u64, bool),
    doubts: Option<&RefCell<UnverifiedTable>>,
) -> Result<(), Error> {
    let home = stored.home;
    let was_empty = match home.table.load_for(page).await {
        _ if was_emptied => true,
        _ if doubts.is_some_and(|it| it.borrow().unvouched.contains(&(page / SUMS_PER_TABLE_PAGE))) => false,
        Err(_) if doubts.is_some() => false,
        loaded => loaded.map(|()| home.table.sum(page) == 0)?,
    };
    if was_empty && stored.needs_images {
        // Its write was not acknowledged, and what a cut left of it would need an image.
        home.recover(page, &[0; PAGE], true, None);
        return Ok(());
    }
    // What cannot be read now is found again when it is read.
    let Ok(bytes) = stored.page(page).await else { return Ok(()) };
    if was_empty && page_sum(bytes) != new_sum {
        // Nothing was there, and what stands there now is not all of the new page.
        home.recover(page, &[0; PAGE], true, None);
    } else {
        home.recover(page, bytes, false, None);
    }
    Ok(())
}

fn apply<H: PageStore>(home: &Home<H>, records: &[Scanned], change: &Change) {
    home.apply(std::slice::from_ref(&change.tag), payload_of(records, change), 0);
}

fn payload_of<'a>(records: &'a [Scanned], change: &Change) -> &'a [u8] {
    &records[change.record].payload()[change.payload_at..][..change.tag.payload_bytes()]
}

fn image_of(records: &[Scanned], (record, at): (usize, usize)) -> [u8; PAGE] {
    let mut bytes = [0; PAGE];
    bytes.copy_from_slice(&records[record].payload()[at..at + PAGE]);
    bytes
}

/// Tells which units of the arena the log made durable.
pub(super) fn durable_units(records: &[Scanned]) -> impl Fn(u64) -> bool + use<> {
    let mut ranges = Vec::new();
    for tag in records.iter().flat_map(|record| &record.tags) {
        if let Tag::Units { sequence, count } = *tag {
            ranges.push(sequence..sequence.saturating_add(u64::from(count)));
        }
    }
    ranges.sort_unstable_by_key(|range: &std::ops::Range<u64>| range.start);
    move |unit| {
        let next = ranges.partition_point(|range| range.start <= unit);
        next > 0 && ranges[next - 1].contains(&unit)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_read_together_is_near_and_not_much_and_no_neighbour_is_left_for_another_read(
            gaps in proptest::collection::vec(prop_oneof![8 => 1..12_u64, 1 => 100..1_000_000_u64], 1..200),
        ) {
            let wanted: Vec<u64> =
                gaps.iter().scan(0, |page, gap| { *page += gap; Some(*page) }).collect();
            let end = end_of_read(wanted[0], &wanted);
            let (together, later) = wanted.split_at(wanted.partition_point(|&page| page < end));
            prop_assert_eq!(together.last(), Some(&(end - 1)));
            prop_assert!(end - wanted[0] <= READ_PAGES_MAX);
            let is_near = |page: u64, next: u64| next - page - 1 <= READ_GAP_PAGES_MAX;
            prop_assert!(together.windows(2).all(|pair| is_near(pair[0], pair[1])));
            prop_assert!(later.first().is_none_or(|&page| !is_near(end - 1, page) || page - wanted[0] >= READ_PAGES_MAX));
        }
    }
}
