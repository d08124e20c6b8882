//! Growing: more pages behind those that are there, while the volume is used.
//!
//! The order, and the crash that each step survives:
//!
//! 1. A larger table may leave a commit less room in the log. Units and batches are from now on no larger than the log
//!    allows with it, and what is larger is made durable.
//! 2. Every dirty page is looked for, and one that cannot go home refuses the growth. Then the home device offers more, or
//!    refuses. Nothing refuses behind that: nobody takes back what the device offers, so that whoever rebuilds a member or
//!    puts one there relies on it. What goes wrong from there on is a failure of the volume. A page that is found damaged
//!    only then is carried, as by any checkpoint. Cut from here on, the volume is as it was, on a larger device.
//! 3. A checkpoint writes the root to where the next layout has it, and flushes. Nothing else has to be written: the root
//!    says of the new pages of the table that they were never written, so that nobody reads what is there.
//! 4. One superblock names the new size and the root. Until it is durable the volume has its old size, from then on the
//!    new one.
//! 5. Another one follows: now each of its copies stands at the end of the larger device.
//! 6. Only then the new pages are served, so that no record and no unit of the arena speaks of them before.

use std::cell::RefCell;
use std::rc::Rc;

use super::fresh::may_take_fresh;
use super::limits::Limits;
use super::superblocks::Superblocks;
use super::{Inner, Volume};
use crate::device::{Extent, Geometry};
use crate::env::{Arena, Env};
use crate::error::Error;
use crate::format::PAGE_BYTES;
use crate::format::layout::{GROWTHS_MAX, Layout, SUMS_PER_TABLE_PAGE, Size};
use crate::format::superblock::Superblock;
use crate::layout::{JournalStore, PageStore};
use crate::notify::Notify;
use crate::options::Tuning;
use crate::planted::{Bug, is_planted};
use crate::size_text::exact_size;

/// What it takes for a volume to grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Growth {
    /// Bytes that it offers now.
    pub from_bytes: u64,
    /// Bytes that it is to offer: as many where nothing is to be done.
    pub to_bytes: u64,
    /// Bytes that the home device must have for it, at least.
    pub home_bytes: u64,
}

/// What it takes for the volume on `home` and `log`, as they are told to [`Volume::open`], to offer `size_bytes`. Nothing
/// is written.
///
/// # Errors
///
/// [`Error::Unusable`] where it cannot be made so large, by which nothing has changed; where they hold no volume.
pub async fn plan_growth<H: PageStore, L: JournalStore>(
    home: &H,
    log: &L,
    separate_log: bool,
    size_bytes: u64,
) -> Result<Growth, Error> {
    let superblock = Superblocks::read(home, log, separate_log).await?.superblock;
    plan(&superblock, home.geometry(), size_bytes, Tuning::default().announced_max_bytes)
        .map(|(growth, _)| growth)
}

/// The same, and what the log allows then.
fn plan(
    superblock: &Superblock,
    home: Geometry,
    size_bytes: u64,
    announced_max_bytes: usize,
) -> Result<(Growth, Limits), Error> {
    let unusable = |why: String| Err(Error::Unusable(why));
    let from_bytes = superblock.pages.saturating_mul(PAGE_BYTES);
    let Some(layout) = superblock.layout() else {
        return unusable("its size is that of no volume".to_owned());
    };
    let limits = |pages: u64| {
        let table_pages = pages.div_ceil(SUMS_PER_TABLE_PAGE);
        let sector_bytes = superblock.log_sector_bytes as usize;
        let limits =
            Limits::of(layout.log.len, sector_bytes, table_pages, !home.atomic_sectors, announced_max_bytes);
        limits.check_suffice(superblock.atomic_max_bytes, layout.log.len).map(|()| limits)
    };
    if !size_bytes.is_multiple_of(PAGE_BYTES) {
        return unusable(format!("a volume's size is a multiple of {PAGE_BYTES} bytes"));
    }
    if size_bytes < from_bytes {
        return unusable(format!("it has {} already, and no volume shrinks", exact_size(from_bytes)));
    }
    let pages = size_bytes / PAGE_BYTES;
    if pages == layout.pages {
        let growth = Growth { from_bytes, to_bytes: from_bytes, home_bytes: layout.home_bytes };
        return limits(pages).map(|limits| (growth, limits));
    }
    if superblock.sizes_before.as_slice().len() == GROWTHS_MAX {
        return unusable(format!(
            "it has grown {GROWTHS_MAX} times, as often as a volume can: make a larger one and copy it there"
        ));
    }
    let Some(home_bytes) = layout.home_bytes_to_grow(pages) else {
        return unusable(format!("no volume has {}", exact_size(size_bytes)));
    };
    let Ok(limits) = limits(pages) else {
        let (mut fits, mut beyond) = (layout.pages, pages);
        while beyond - fits > 1 {
            let middle = fits.midpoint(beyond);
            if limits(middle).is_ok() { fits = middle } else { beyond = middle }
        }
        return unusable(format!(
            "its log is too small for a disk of {}: with this log it can have {} at most",
            exact_size(size_bytes),
            exact_size(fits * PAGE_BYTES)
        ));
    };
    Ok((Growth { from_bytes, to_bytes: size_bytes, home_bytes }, limits))
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Volume<E, A, H, L> {
    /// What it takes to make it offer `size_bytes`.
    ///
    /// # Errors
    ///
    /// As [`plan_growth`].
    pub fn plan_growth(&self, size_bytes: u64) -> Result<Growth, Error> {
        self.0.plan_growth(size_bytes).map(|(growth, _)| growth)
    }

    /// The same, and that every page can go home. What was acknowledged is made durable, as by a flush; nothing else
    /// changes.
    ///
    /// # Errors
    ///
    /// Those by which [`Self::grow`] leaves everything as it was, but for what the home device refuses.
    pub async fn check_growth(&self, size_bytes: u64) -> Result<Growth, Error> {
        let inner = &self.0;
        inner.check_alive()?;
        let (growth, _limits) = inner.plan_growth(size_bytes)?;
        if growth.from_bytes != growth.to_bytes {
            inner.make_durable(&[Extent::new(0, inner.size_bytes.get())]).await?;
            let _turn = inner.write_back.writer.take().await;
            inner.check_all_can_go_home().await?;
        }
        Ok(growth)
    }

    /// Makes it offer `size_bytes`: what is new reads as zeros. The home device must have the room that
    /// [`Self::plan_growth`] tells, or be able to offer it ([`PageStore::enlarge`]). After a cut it has its old size or the
    /// new one, and the new one once this has come to its end.
    ///
    /// # Errors
    ///
    /// As [`plan_growth`]; that of the home device where it does not offer so much; [`Error::Damaged`] where a page cannot
    /// go home: by all these nothing has changed. The failure, after one below.
    pub async fn grow(&self, size_bytes: u64) -> Result<(), Error> {
        self.0.check_alive()?;
        // In a task of its own: whoever gives up waiting does not leave it half done.
        let done = Rc::new((RefCell::new(None), Notify::default()));
        let (inner, told) = (Rc::clone(&self.0), Rc::clone(&done));
        self.0.env.spawn(async move {
            let result = inner.grow(size_bytes).await;
            told.0.replace(Some(result));
            told.1.all();
        });
        done.1.until(|| done.0.borrow_mut().take()).await
    }
}

/// Somebody who has looked how large a unit may be, and has not buffered it yet.
pub(super) struct Sizing<'a, E: Env, A: Arena, H: PageStore, L: JournalStore>(&'a Inner<E, A, H, L>);

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Drop for Sizing<'_, E, A, H, L> {
    fn drop(&mut self) {
        self.0.admission.sizing.set(self.0.admission.sizing.get() - 1);
        self.0.changed.all();
    }
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Inner<E, A, H, L> {
    /// From before somebody looks how large a unit may be until it is buffered.
    pub(super) fn begin_sizing(&self) -> Sizing<'_, E, A, H, L> {
        self.admission.sizing.set(self.admission.sizing.get() + 1);
        Sizing(self)
    }

    fn plan_growth(&self, size_bytes: u64) -> Result<(Growth, Limits), Error> {
        let (superblock, announced_max_bytes) =
            (self.superblocks.current(), self.options.tuning.announced_max_bytes);
        plan(&superblock, self.home.device.geometry(), size_bytes, announced_max_bytes)
    }

    async fn grow(self: &Rc<Self>, size_bytes: u64) -> Result<(), Error> {
        // One at a time; checkpoints come in between until this needs the turn of writing home.
        let _growing = self.admission.growing.take().await;
        let (growth, limits) = self.plan_growth(size_bytes)?;
        if growth.from_bytes == growth.to_bytes {
            return Ok(());
        }
        let atomic_max_bytes = self.superblocks.current().atomic_max_bytes;
        let limits = match may_take_fresh(&*self.home.device, self.options.journaling) {
            true => limits.with_direct_tables(atomic_max_bytes, self.home.layout().log.len),
            false => limits,
        };
        let limits = limits.within(self.options.dirty_pages_max, atomic_max_bytes);
        let admission = self.admission.allowed.replace(limits);
        let grown = self.grow_within(growth, limits).await;
        if grown.is_err() {
            self.admission.allowed.set(admission);
        }
        grown
    }

    async fn grow_within(self: &Rc<Self>, growth: Growth, limits: Limits) -> Result<(), Error> {
        self.changed
            .until(|| match self.log.failure() {
                Some(_) => Some(self.check_alive()),
                None => (self.admission.sizing.get() == 0).then_some(Ok(())),
            })
            .await?;
        self.make_durable(&[Extent::new(0, self.size_bytes.get())]).await?;
        let turn = self.write_back.writer.take().await;
        if !is_planted(Bug::RingGrowthRefusedLate) {
            self.check_all_can_go_home().await?;
        }
        self.home.device.enlarge(growth.home_bytes).await?;
        let size =
            Size { pages: growth.to_bytes / PAGE_BYTES, home_bytes: self.home.device.geometry().size_bytes };
        let layout = self.home.layout().grown(size).map(Rc::new).expect("a device offers what it said");
        if is_planted(Bug::RingGrowthRefusedLate) {
            self.check_all_can_go_home().await?;
        }
        if is_planted(Bug::GrowthServedEarly) || is_planted(Bug::RingGrowthServedEarly) {
            self.serve_grown(&layout, limits);
        }
        let grown = self.grow_in_turn(&layout).await;
        drop(turn);
        match grown {
            Ok(()) => {
                self.serve_grown(&layout, limits);
                Ok(())
            }
            Err(error) => {
                self.latch(error.clone());
                Err(error)
            }
        }
    }

    /// For whoever has the turn of writing home.
    async fn grow_in_turn(self: &Rc<Self>, layout: &Rc<Layout>) -> Result<(), Error> {
        self.checkpoint_into(Some(layout)).await?;
        let guard = self.to_the_end();
        let told = self.superblocks.advance(|_| ()).await;
        guard.done();
        told
    }

    fn serve_grown(&self, layout: &Layout, limits: Limits) {
        self.admission.limits.set(limits);
        self.size_bytes.set(layout.pages * PAGE_BYTES);
        self.changed.all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::layout::SizesBefore;
    use crate::format::root::RootSums;
    use crate::layout::StoreState;

    fn superblock(pages: u64, log_bytes: u64) -> Superblock {
        Superblock {
            volume: 1,
            generation: 2,
            epoch: 1,
            pages,
            home_bytes: Layout::home_bytes_for(pages, log_bytes, true),
            log_bytes,
            separate_log: true,
            root_slot: 0,
            whole_root_sum: None,
            root_sums: RootSums::NONE,
            tail_offset: 0,
            tail_sequence: 1,
            tail_epoch: 0,
            epoch_sequence: 0,
            atomic_max_bytes: 16 << 10,
            log_sector_bytes: 512,
            acknowledged: 0,
            home_state: StoreState::default(),
            sizes_before: SizesBefore::default(),
            is_closed: false,
        }
    }

    fn plan_of(superblock: &Superblock, size_bytes: u64, atomic_sectors: bool) -> Result<Growth, Error> {
        let home = Geometry { size_bytes: superblock.home_bytes, sector_bytes: 512, atomic_sectors };
        plan(superblock, home, size_bytes, 64 << 10).map(|(growth, _)| growth)
    }

    #[test]
    fn what_no_volume_can_become_is_refused_with_a_reason() {
        let superblock = superblock(1000, 64 << 20);
        let refused = |size_bytes| plan_of(&superblock, size_bytes, true).unwrap_err().to_string();
        assert!(refused(1001 * PAGE_BYTES + 512).contains("multiple of 4096"));
        assert!(
            refused(999 * PAGE_BYTES).contains("4096000 bytes (3.91 MiB) already, and no volume shrinks")
        );
        assert!(refused(u64::MAX / PAGE_BYTES * PAGE_BYTES).contains("no volume has"));
        let same = plan_of(&superblock, 1000 * PAGE_BYTES, true).unwrap();
        assert_eq!((same.to_bytes, same.home_bytes), (same.from_bytes, superblock.home_bytes));
        let sizes: Vec<Size> = (1..=GROWTHS_MAX as u64)
            .map(|number| Size { pages: number * 10, home_bytes: (number * 10 + 100) * PAGE_BYTES })
            .collect();
        let often = Superblock { sizes_before: SizesBefore::of(&sizes).unwrap(), ..superblock };
        assert!(often.layout().is_some());
        let error = plan_of(&often, 1001 * PAGE_BYTES, true).unwrap_err().to_string();
        assert!(error.contains("16 times"), "{error}");
    }

    #[test]
    fn a_log_that_is_too_small_for_the_table_is_said_to_be_so_with_the_largest_size_that_it_takes() {
        // As small as one can be for a table of one page, on drives that ask for images of it.
        let log_bytes = super::super::log_bytes_min(PAGE_BYTES, 16 << 10, 512, false).unwrap();
        let small = superblock(1, log_bytes);
        let error = plan_of(&small, 1 << 40, false).unwrap_err().to_string();
        let (_, most) = error.split_once("it can have ").unwrap();
        let most: u64 = most.split(' ').next().unwrap().parse().unwrap();
        assert!((PAGE_BYTES..1 << 40).contains(&most), "{error}");
        if most > PAGE_BYTES {
            plan_of(&small, most, false).unwrap();
        }
        plan_of(&small, most + PAGE_BYTES, false).unwrap_err();
        plan_of(&small, 1 << 40, true).unwrap();
    }
}
