//! Byte layout: what lies where on the devices and in the arena, stated once.
//!
//! Encoders and decoders are pure functions. A decoder takes any bytes: lengths and counts are checked
//! before anything is sliced or reserved by them.

pub mod dirty_regions;
pub mod layout;
pub mod log_head;
pub mod record;
pub mod ring_head;
pub mod root;
pub mod stripe_record;
pub mod stripes;
pub mod superblock;
pub mod unit;

use twox_hash::XxHash3_64;

/// Bytes in a page: the unit of home writes, page sums and the allocation map.
pub const PAGE: usize = 4096;

/// [`PAGE`] as a length on a device.
pub const PAGE_BYTES: u64 = PAGE as u64;

/// The sum of a page's bytes. Never 0, which in the table means a page without contents.
pub fn page_sum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes).max(1)
}

/// A checksum that only these bytes in this volume, epoch and place of the sequence have.
fn seeded_sum(volume: u64, epoch: u64, sequence: u64, bytes: &[u8]) -> u64 {
    let mut place = [0; 24];
    place[..8].copy_from_slice(&volume.to_le_bytes());
    place[8..16].copy_from_slice(&epoch.to_le_bytes());
    place[16..].copy_from_slice(&sequence.to_le_bytes());
    XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(&place), bytes)
}

/// A page that begins with `magic`, its sum and `version`, with `words` behind them.
fn encode_head(magic: u64, version: u64, words: impl IntoIterator<Item = u64>) -> [u8; PAGE] {
    let mut page = [0; PAGE];
    for (place, word) in page.chunks_exact_mut(8).zip([magic, 0, version].into_iter().chain(words)) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    seal_head(&mut page);
    page
}

/// Gives a page that begins as [`encode_head`] has it the sum of what it holds.
fn seal_head(page: &mut [u8; PAGE]) {
    let sum = XxHash3_64::oneshot(&page[16..]);
    page[8..16].copy_from_slice(&sum.to_le_bytes());
}

/// The words of a page that [`encode_head`] made.
fn head_fields(magic: u64, version: u64, page: &[u8]) -> Option<Fields<'_>> {
    let (found, fields) = head_of_any_version(magic, page)?;
    (found == version).then_some(fields)
}

/// The same of whatever version, which comes first.
fn head_of_any_version(magic: u64, page: &[u8]) -> Option<(u64, Fields<'_>)> {
    if page.len() != PAGE {
        return None;
    }
    let mut fields = Fields::of(page);
    let is_right = fields.u64()? == magic && fields.u64()? == XxHash3_64::oneshot(&page[16..]);
    let version = fields.u64()?;
    is_right.then_some((version, fields))
}

/// Reads little-endian fields one after another; `None` past the end.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
}
