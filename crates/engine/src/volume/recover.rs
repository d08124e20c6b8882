//! What the log says of each page after a cut.
//!
//! | last word on a page     | what is home                       | what recovery makes of it                  |
//! |-------------------------|------------------------------------|--------------------------------------------|
//! | commits only            | the page as the table sums it      | the deltas, over it                        |
//! | sums of a checkpoint    | old and new sectors, mixed         | the deltas make it whole; the sum proves it |
//! | image of a checkpoint   | anything                           | the image, and later deltas over it        |
//! | intent                  | old or new, or sectors of each     | as found, summed anew                      |
//! | completion              | the page as the completion sums it | as commits only                            |
//!
//! A page whose place was never written may hold anything: it counts as zeros unless a sum proves otherwise.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::device::Device;
use crate::error::Error;
use crate::format::layout::SUMS_PER_TABLE_PAGE;
use crate::format::record::{RecordKind, Tag};
use crate::format::{PAGE, page_sum};
use crate::home::Home;
use crate::log::scan::Scanned;

/// What the log says of one page.
#[derive(Default)]
struct History {
    /// Changes since the last direct write.
    changes: Vec<Change>,
    /// The last checkpoint that was to take it home.
    checkpoint: Option<Announced>,
    /// The sum that a direct write without completion would have given it.
    intent: Option<u64>,
}

type PageHistories = BTreeMap<u64, History>;
type TableHistories = BTreeMap<u64, TableHistory>;

/// A tag of a record, and where its payload begins.
#[derive(Clone, Copy)]
struct Change {
    record: usize,
    tag: Tag,
    payload_at: usize,
}

#[derive(Clone, Copy)]
struct Announced {
    through: u64,
    sum: u64,
    /// Record and place of the image, where there is one.
    image: Option<(usize, usize)>,
}

/// What the log says of one page of the table.
#[derive(Default)]
struct TableHistory {
    /// Sums in the order of their coming.
    sums: Vec<(u64, u64)>,
    /// The sum of the whole table page after all of them.
    expected: Option<u64>,
    image: Option<(usize, usize)>,
}

/// Puts everything that the log says into `home`.
///
/// # Errors
///
/// [`Error::Damaged`] for a page that cannot be made whole, [`Error::Unusable`] for a table page; those of the
/// device.
pub(super) async fn replay<H: Device>(home: &Home<H>, records: &[Scanned]) -> Result<(), Error> {
    let (pages, table) = histories(records, home.layout.pages)?;
    for (&number, history) in &table {
        replay_table_page(home, records, number, history).await?;
    }
    for (&page, history) in &pages {
        replay_page(home, records, page, history).await?;
    }
    Ok(())
}

fn histories(records: &[Scanned], pages: u64) -> Result<(PageHistories, TableHistories), Error> {
    let mut histories: PageHistories = BTreeMap::new();
    let mut table: TableHistories = BTreeMap::new();
    for (record, scanned) in records.iter().enumerate() {
        let mut payload_at = 0;
        for &tag in &scanned.tags {
            let at = payload_at;
            payload_at += match scanned.header.kind {
                RecordKind::Images => PAGE,
                _ => tag.payload_bytes(),
            };
            let image = (scanned.header.kind == RecordKind::Images).then_some((record, at));
            check_page(&tag, pages)?;
            match tag {
                Tag::Delta { page, .. } | Tag::Zero { page, .. } => {
                    let history = histories.entry(page).or_default();
                    history.changes.push(Change { record, tag, payload_at: at });
                }
                Tag::Discard { page, count } => {
                    for page in page..page + u64::from(count) {
                        let history = histories.entry(page).or_default();
                        let tag = Tag::Discard { page, count: 1 };
                        history.changes.push(Change { record, tag, payload_at: at });
                    }
                }
                Tag::Page { page, sum } => {
                    let history = histories.entry(page).or_default();
                    match scanned.header.kind {
                        RecordKind::Intent => *history = History { intent: Some(sum), ..History::default() },
                        RecordKind::Complete => {
                            history.intent = None;
                            table_history(&mut table, page).sums.push((page, sum));
                        }
                        _ => {
                            let through = scanned.header.through;
                            history.intent = None;
                            history.checkpoint = Some(Announced { through, sum, image });
                            table_history(&mut table, page).sums.push((page, sum));
                        }
                    }
                }
                Tag::Units { .. } => {}
                Tag::TablePage { page, sum } => {
                    let history = table.entry(page).or_default();
                    history.expected = Some(sum);
                    history.image = image.or(history.image);
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

async fn replay_table_page<H: Device>(
    home: &Home<H>,
    records: &[Scanned],
    number: u64,
    history: &TableHistory,
) -> Result<(), Error> {
    let mut bytes = match history.image {
        Some(image) => image_of(records, image),
        None if home.table.root_sum(number) == 0 => [0; PAGE],
        None => home.table.read(number).await?,
    };
    for &(page, sum) in &history.sums {
        let place = (page % SUMS_PER_TABLE_PAGE) as usize * 8;
        bytes[place..place + 8].copy_from_slice(&sum.to_le_bytes());
    }
    if history.expected.is_some_and(|expected| expected != page_sum(&bytes)) {
        return Err(Error::Unusable(format!("page {number} of the table of sums is damaged")));
    }
    home.table.recover(number, &bytes);
    Ok(())
}

async fn replay_page<H: Device>(
    home: &Home<H>,
    records: &[Scanned],
    page: u64,
    history: &History,
) -> Result<(), Error> {
    if let Some(new_sum) = history.intent {
        return replay_intent(home, page, new_sum).await;
    }
    let Some(announced) = history.checkpoint else {
        for change in &history.changes {
            apply(home, records, change);
        }
        return Ok(());
    };
    let (before, after): (Vec<&Change>, Vec<&Change>) = history
        .changes
        .iter()
        .partition(|change| records[change.record].header.sequence <= announced.through);
    if before.is_empty() && announced.image.is_none() && announced.sum != 0 {
        // Its changes are older than the tail, so it is home, whole. If it has rotted there, that is found when
        // it is read: one bad page does not keep the volume shut.
        for change in after {
            apply(home, records, change);
        }
        return Ok(());
    }
    let bytes = match announced.image {
        _ if announced.sum == 0 => [0; PAGE],
        Some(image) => Some(image_of(records, image))
            .filter(|bytes| page_sum(bytes) == announced.sum)
            .ok_or(Error::Damaged { page })?,
        None => made_whole(home, records, page, &before, announced.sum).await?,
    };
    home.recover(page, bytes, announced.sum == 0, Some(announced.sum));
    for change in after {
        apply(home, records, change);
    }
    Ok(())
}

/// The page of an interrupted checkpoint: its changes over what is home, or over zeros where its place was
/// never written before. The announced sum tells which.
async fn made_whole<H: Device>(
    home: &Home<H>,
    records: &[Scanned],
    page: u64,
    changes: &[&Change],
    sum: u64,
) -> Result<[u8; PAGE], Error> {
    let mut stored = [0; PAGE];
    home.device.read(home.layout.page_offset(page), &mut stored).await?;
    for mut bytes in [stored, [0; PAGE]] {
        for change in changes {
            match change.tag {
                Tag::Delta { offset, len, .. } => {
                    let (start, len) = (usize::from(offset), usize::from(len));
                    bytes[start..start + len].copy_from_slice(payload_of(records, change));
                }
                Tag::Zero { offset, len, .. } => bytes[usize::from(offset)..][..usize::from(len)].fill(0),
                _ => bytes = [0; PAGE],
            }
        }
        if page_sum(&bytes) == sum {
            return Ok(bytes);
        }
    }
    Err(Error::Damaged { page })
}

async fn replay_intent<H: Device>(home: &Home<H>, page: u64, new_sum: u64) -> Result<(), Error> {
    home.table.load_for(page).await?;
    let mut bytes = [0; PAGE];
    home.device.read(home.layout.page_offset(page), &mut bytes).await?;
    let was_empty = home.table.sum(page) == 0;
    if was_empty && page_sum(&bytes) != new_sum {
        // Nothing was there, and what stands there now is not all of the new page.
        home.recover(page, [0; PAGE], true, None);
    } else {
        home.recover(page, bytes, false, None);
    }
    Ok(())
}

fn apply<H: Device>(home: &Home<H>, records: &[Scanned], change: &Change) {
    home.apply(std::slice::from_ref(&change.tag), payload_of(records, change));
}

fn payload_of<'a>(records: &'a [Scanned], change: &Change) -> &'a [u8] {
    &records[change.record].payload[change.payload_at..][..change.tag.payload_bytes()]
}

fn image_of(records: &[Scanned], (record, at): (usize, usize)) -> [u8; PAGE] {
    let mut bytes = [0; PAGE];
    bytes.copy_from_slice(&records[record].payload[at..at + PAGE]);
    bytes
}

/// Units of the arena that the log made durable, as ranges in ascending order.
pub(super) fn durable_units(records: &[Scanned]) -> Vec<std::ops::Range<u64>> {
    let mut ranges = Vec::new();
    for tag in records.iter().flat_map(|record| &record.tags) {
        if let Tag::Units { sequence, count } = *tag {
            ranges.push(sequence..sequence.saturating_add(u64::from(count)));
        }
    }
    ranges.sort_unstable_by_key(|range: &std::ops::Range<u64>| range.start);
    ranges
}

/// Reads and checks the root that counts.
pub(super) async fn read_root<H: Device>(
    device: &Rc<H>,
    zone: crate::device::Extent,
    sum: u64,
    table_pages: u64,
) -> Result<Vec<u64>, Error> {
    let mut bytes = vec![0; zone.len as usize];
    device.read(zone.offset, &mut bytes).await?;
    if page_sum(&bytes) != sum {
        return Err(Error::Unusable("the root of the table of sums is damaged".to_owned()));
    }
    let words =
        bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("chunks are words")));
    Ok(words.take(table_pages as usize).collect())
}
