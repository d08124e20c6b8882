//! What is expected of a run in which more goes wrong than the layout bears, and the look at every page that tells whether it was so.

use evenkeel_engine::device::Extent;
use evenkeel_engine::env::Arena;
use evenkeel_engine::error::Error;
use evenkeel_engine::format::layout::Layout;
use evenkeel_engine::format::{PAGE, PAGE_BYTES};
use evenkeel_engine::layout::{JournalStore, PageStore};
use evenkeel_engine::volume::Volume;

use crate::executor::SimEnv;
use crate::oracle::{Floor, Oracle, Violation};
use crate::places::Places;

/// What is expected of a run in which more goes wrong than the layout bears.
pub(super) struct Rules {
    /// Whether the volume may refuse to open.
    pub(super) may_refuse: bool,
    /// Whether operations of the volume may fail because those of a drive do.
    pub(super) may_fail: bool,
    /// Pages that may be reported as damaged.
    pub(super) harmed: Vec<bool>,
    /// Pages that may hold anything.
    pub(super) unjudged: Vec<bool>,
    /// What the others must hold.
    pub(super) floor: Floor,
    /// Whether clients work.
    pub(super) works: bool,
    /// Whether all that the volume holds was made durable before.
    pub(super) at_rest: bool,
    /// Where on the volume the pages are.
    pub(super) places: Places,
}

/// Every page, read one by one.
pub(super) struct Look {
    pub(super) found: Vec<u8>,
    /// Why it could not be read.
    pub(super) failed: Vec<Option<Error>>,
}

impl Look {
    /// How many pages could not be read.
    pub(super) fn reported(&self) -> u64 {
        self.failed.iter().flatten().count() as u64
    }
}

impl Rules {
    /// Nothing goes wrong, and nothing is excused; the volume is only looked at.
    pub(super) fn none(places: Places, floor: Floor) -> Self {
        let none = vec![false; places.pages()];
        let (may_refuse, may_fail, works, at_rest) = (false, false, false, false);
        Self { may_refuse, may_fail, harmed: none.clone(), unjudged: none, floor, works, at_rest, places }
    }

    /// Whether an error of the volume follows from what is wrong; `strays` are pages that lost or misplaced writes
    /// left wrong so far.
    pub(super) fn is_excused(&self, error: &Error, strays: &[bool]) -> bool {
        let is_any_harmed = self.harmed.contains(&true);
        match *error {
            Error::Damaged { page } => match self.places.known_page(page) {
                Some(page) => self.harmed[page] || strays[page],
                // Nothing was written there, so it is the table that is damaged.
                None => !self.harmed.contains(&false) || !strays.contains(&false),
            },
            Error::Device(_) => self.may_fail || is_any_harmed,
            Error::Latched(_) => self.may_fail || is_any_harmed || strays.contains(&true),
            _ => false,
        }
    }

    pub(super) fn judge_refusal(&self, error: &Error, strays: &[bool]) -> Result<(), Violation> {
        let is_report = self.is_excused(error, strays)
            || matches!(
                error,
                Error::Unusable(_)
                    | Error::Unsuited(_)
                    | Error::ForeignWrites { .. }
                    | Error::OlderDevices { .. }
            );
        match self.may_refuse && is_report {
            true => Ok(()),
            false => Err(Violation::of(format!("it refuses to open: {error}"))),
        }
    }

    pub(super) fn judge_look(
        &self,
        look: &Look,
        oracle: &Oracle,
        floor: Floor,
        strays: &[bool],
    ) -> Result<(), Violation> {
        for (page, error) in look.failed.iter().enumerate() {
            let is_excused = match error {
                None => true,
                Some(Error::Damaged { page: named }) => {
                    *named == self.places.page_on_volume(page) && (self.harmed[page] || strays[page])
                }
                Some(Error::Device(_)) => self.may_fail || self.harmed[page],
                Some(_) => false,
            };
            if let Some(error) = error.as_ref().filter(|_| !is_excused) {
                return Err(Violation::of(format!("page {page} cannot be read: {error}")));
            }
        }
        let is_judged = |page: usize| look.failed[page].is_none() && !self.unjudged[page];
        oracle.judge_pages(&look.found, floor, is_judged)
    }
}

/// Reads every page, each alone. Of those that the volume does not have yet nothing was ever written.
pub(super) async fn look<A: Arena, H: PageStore, L: JournalStore>(
    volume: &Volume<SimEnv, A, H, L>,
    places: Places,
) -> Look {
    let mut found = vec![0; places.known_bytes as usize];
    let mut failed = Vec::new();
    let there = places.within(volume.size_bytes()).pages();
    for (page, into) in found.chunks_exact_mut(PAGE).enumerate() {
        if page >= there {
            failed.push(None);
            continue;
        }
        failed.push(volume.read(places.page_on_volume(page) * PAGE_BYTES, into).await.err());
    }
    Look { found, failed }
}

/// Pages that these ranges of the home drive speak of: all, where one is not of pages.
pub(super) fn pages_of(extents: &[Extent], layout: &Layout, places: Places) -> Vec<bool> {
    let mut pages = vec![false; places.pages()];
    for extent in extents {
        let of_pages = layout.segments.iter().filter_map(|segment| {
            let shared = extent.intersection(&segment.data)?;
            let first = segment.first_page + (shared.offset - segment.data.offset) / PAGE_BYTES;
            Some(first..segment.first_page + (shared.end() - segment.data.offset).div_ceil(PAGE_BYTES))
        });
        let of_pages: Vec<u64> = of_pages.flatten().collect();
        if of_pages.is_empty() {
            pages.fill(true);
        }
        of_pages.iter().filter_map(|&page| places.known_page(page)).for_each(|page| pages[page] = true);
    }
    pages
}
