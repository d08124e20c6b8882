//! The table of page sums, and the root: the sums of the table's pages.
//!
//! A page of the table is read when a page it speaks of is first needed, and checked against the root. Sum 0
//! stands for a page without contents, so the table is the allocation map too. Sum 0 in the root stands for a
//! table page that was never written: all of its sums are 0.
//!
//! 1. A table page that differs from what is home, or that somebody holds ([`Held`]), stays in memory. Of the others
//!    `spare_max` are kept, those that were used since they were last looked at rather than those that were not.
//! 2. Whoever waits between loading a sum and using it holds it.
//! 3. A table page is not read while it is written: whoever writes it holds it until it is home.
//! 4. Who takes a table page home shares its bytes with memory until they change again.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::rc::Rc;

use super::root::Root;
use crate::counters::{Counters, add};
use crate::error::Error;
use crate::format::layout::SUMS_PER_TABLE_PAGE;
use crate::format::root::RootSums;
use crate::format::{PAGE, page_sum};
use crate::layout::{Expected, PageStore, read_right};
use crate::planted::{Bug, is_planted};

use super::LayoutNow;

/// The bytes of a page of the table: as they were, for whoever has them while it changes.
pub(crate) type TableBytes = Rc<[u8; PAGE]>;

/// The table of one volume.
pub(crate) struct Table<H> {
    device: Rc<H>,
    layout: LayoutNow,
    root: RefCell<Root>,
    pages: RefCell<TablePages>,
    before: RefCell<Before>,
    /// Whether `before` is kept: for a device that copies by itself what it holds.
    keeps_before: bool,
    counters: Rc<Counters>,
}

/// The sums, as the superblock stands for them, of what was changed since.
#[derive(Default)]
struct Before {
    pages: BTreeMap<u64, u64>,
    table_pages: BTreeMap<u64, u64>,
}

/// Table pages in memory.
struct TablePages {
    map: BTreeMap<u64, TablePage>,
    /// Those that differ from what is home.
    dirty: BTreeSet<u64>,
    /// All those that may go, in the order in which they are looked at, with some that may not any more.
    spare: VecDeque<u64>,
    spare_max: usize,
}

struct TablePage {
    bytes: TableBytes,
    /// Its sum, where the log holds it since the last change.
    logged_sum: Option<u64>,
    /// How many hold it.
    holds: u32,
    is_spare: bool,
    /// Whether it was used since it was last looked at.
    is_used: bool,
}

/// Table pages that stay in memory until this is dropped.
pub(crate) struct Held<'a, H> {
    table: &'a Table<H>,
    numbers: BTreeSet<u64>,
}

impl<H> Drop for Held<'_, H> {
    fn drop(&mut self) {
        let mut pages = self.table.pages.borrow_mut();
        for &number in &self.numbers {
            if let Some(page) = pages.map.get_mut(&number) {
                page.holds -= 1;
            }
            pages.evict_if_idle(number);
        }
    }
}

impl<H: PageStore> Held<'_, H> {
    /// Makes the sum of `page` known, and holds it.
    ///
    /// # Errors
    ///
    /// As [`Table::load_for`].
    pub(crate) async fn load_for(&mut self, page: u64) -> Result<(), Error> {
        let number = Table::<H>::page_for(page);
        if !self.numbers.contains(&number) {
            self.table.load_for(page).await?;
            self.hold(number);
        }
        Ok(())
    }

    /// Holds the sum of `page` if it is known; answers whether it is.
    pub(crate) fn hold_known(&mut self, page: u64) -> bool {
        let number = Table::<H>::page_for(page);
        let is_known = self.table.pages.borrow().map.contains_key(&number);
        if is_known {
            self.hold(number);
        }
        is_known
    }

    fn hold(&mut self, number: u64) {
        if self.numbers.insert(number)
            && let Some(page) = self.table.pages.borrow_mut().map.get_mut(&number)
        {
            page.holds += 1;
        }
    }

    /// What it holds stays in memory for good: what is home of it is not known.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }
}

impl TablePages {
    /// Notes that a page may go, if so, and lets others go for it.
    fn evict_if_idle(&mut self, number: u64) {
        let is_dirty = self.dirty.contains(&number);
        let Some(page) = self.map.get_mut(&number) else { return };
        if page.holds > 0 || page.is_spare || is_dirty {
            return;
        }
        page.is_spare = true;
        self.spare.push_back(number);
        while self.spare.len() > self.spare_max {
            let Some(oldest) = self.spare.pop_front() else { return };
            let is_dirty = self.dirty.contains(&oldest) && !is_planted(Bug::DirtyTablePageGoes);
            let Some(page) = self.map.get_mut(&oldest) else { continue };
            page.is_spare = page.is_used && page.holds == 0 && !is_dirty;
            if page.is_spare {
                page.is_used = false;
                self.spare.push_back(oldest);
            } else if page.holds == 0 && !is_dirty {
                self.map.remove(&oldest);
            }
        }
    }

    fn insert(&mut self, number: u64, page: TablePage, dirty: bool) {
        if let Some(before) = self.map.insert(number, page)
            && let Some(page) = self.map.get_mut(&number)
        {
            (page.holds, page.is_spare) = (before.holds, before.is_spare);
        }
        if dirty {
            self.dirty.insert(number);
        }
        self.evict_if_idle(number);
    }
}

impl<H: PageStore> Table<H> {
    /// The table that `root` sums. Of pages that are home `spare_max` are kept, of which there must be one.
    pub(crate) fn new(
        device: Rc<H>,
        layout: LayoutNow,
        root: Root,
        spare_max: usize,
        counters: Rc<Counters>,
    ) -> Self {
        let pages = TablePages {
            map: BTreeMap::new(),
            dirty: BTreeSet::new(),
            spare: VecDeque::new(),
            spare_max: spare_max.max(1),
        };
        Self {
            keeps_before: device.traits().is_replicated,
            device,
            layout,
            root: RefCell::new(root),
            pages: RefCell::new(pages),
            before: RefCell::default(),
            counters,
        }
    }

    /// The table page that speaks of `page`.
    pub(crate) fn page_for(page: u64) -> u64 {
        page / SUMS_PER_TABLE_PAGE
    }

    /// Holds nothing yet.
    pub(crate) fn hold_none(&self) -> Held<'_, H> {
        Held { table: self, numbers: BTreeSet::new() }
    }

    /// Makes the sum of `page` known, until the next time that the caller waits.
    ///
    /// # Errors
    ///
    /// Those of the device; [`Error::Damaged`] where the table is not what was written.
    pub(crate) async fn load_for(&self, page: u64) -> Result<(), Error> {
        if self.is_loaded(page) {
            return Ok(());
        }
        // Boxed: a request whose sums are known does not carry room for the bytes of table pages.
        Box::pin(self.load_from_home(page)).await
    }

    async fn load_from_home(&self, page: u64) -> Result<(), Error> {
        let number = Self::page_for(page);
        while !self.is_loaded(page) {
            let expected = self.root_sum(number);
            let mut bytes = [0; PAGE];
            if expected != 0 {
                let read = self.read(number, |bytes| page_sum(bytes) == expected).await;
                if self.pages.borrow().map.contains_key(&number) || self.root_sum(number) != expected {
                    continue; // loaded by another meanwhile, and perhaps changed, taken home and gone again
                }
                bytes = read?;
                if page_sum(&bytes) != expected {
                    return Err(Error::Damaged { page });
                }
            }
            self.pages.borrow_mut().insert(number, TablePage::of(&bytes, None), false);
            break;
        }
        Ok(())
    }

    /// Whether the sum of `page` is known, until the next time that the caller waits.
    pub(crate) fn is_loaded(&self, page: u64) -> bool {
        self.pages.borrow_mut().map.get_mut(&Self::page_for(page)).map(|page| page.is_used = true).is_some()
    }

    /// Number of table pages in memory.
    pub(crate) fn loaded_pages(&self) -> usize {
        self.pages.borrow().map.len()
    }

    /// The bytes of a table page as they are home: those that `is_right`, if any copy holds them, else any.
    pub(crate) async fn read(
        &self,
        table_page: u64,
        is_right: impl Fn(&[u8]) -> bool,
    ) -> Result<[u8; PAGE], Error> {
        let mut bytes = [0; PAGE];
        add(&self.counters.table_reads, 1);
        let at = self.layout.borrow().table_offset(table_page);
        read_right(&*self.device, at, &mut bytes, is_right).await?;
        Ok(bytes)
    }

    /// Whether a table page is home as the root says; one that was never written is.
    pub(crate) async fn is_whole_home(&self, table_page: u64) -> bool {
        let is_right = |sum: u64| move |bytes: &[u8]| page_sum(bytes) == sum;
        match self.root_sum(table_page) {
            0 => true,
            sum => self.read(table_page, is_right(sum)).await.is_ok_and(|bytes| is_right(sum)(&bytes)),
        }
    }

    /// How many pages from this one on belong to a table page that was never written, neither home nor in memory.
    pub(crate) fn never_written(&self, page: u64) -> u64 {
        let number = Self::page_for(page);
        if self.root_sum(number) != 0 || self.pages.borrow().map.contains_key(&number) {
            return 0;
        }
        (number + 1) * SUMS_PER_TABLE_PAGE - page
    }

    /// What the root says of a table page.
    pub(crate) fn root_sum(&self, table_page: u64) -> u64 {
        self.root.borrow().sum(table_page)
    }

    /// Puts a table page in place, as recovery found it; `is_logged` where the log says so of all of it.
    pub(crate) fn recover(&self, table_page: u64, bytes: &[u8; PAGE], is_logged: bool) {
        self.set_root_sum(table_page, page_sum(bytes));
        let page = TablePage::of(bytes, is_logged.then(|| page_sum(bytes)));
        self.pages.borrow_mut().insert(table_page, page, true);
    }

    /// The bytes of a table page that is in memory.
    pub(crate) fn bytes_in_memory(&self, table_page: u64) -> Option<[u8; PAGE]> {
        self.pages.borrow().map.get(&table_page).map(|page| *page.bytes)
    }

    /// The sum of a page whose sum is known.
    pub(crate) fn sum(&self, page: u64) -> u64 {
        let pages = self.pages.borrow();
        let table_page = pages.map.get(&Self::page_for(page)).expect("the caller loaded the sum");
        table_page.sum(page)
    }

    /// Changes the sum of a page whose sum is known.
    pub(crate) fn set_sum(&self, page: u64, sum: u64) {
        let mut pages = self.pages.borrow_mut();
        let number = Self::page_for(page);
        let table_page = pages.map.get_mut(&number).expect("the caller loaded the sum");
        let before = table_page.sum(page);
        if before != sum {
            if self.keeps_before {
                self.before.borrow_mut().pages.entry(page).or_insert(before);
            }
            table_page.set_sum(page, sum);
            table_page.logged_sum = None;
            pages.dirty.insert(number);
        }
    }

    /// The root says this of a table page from now on.
    pub(crate) fn set_root_sum(&self, table_page: u64, sum: u64) {
        let before = self.root.borrow_mut().set_sum(table_page, sum);
        if self.keeps_before {
            self.before.borrow_mut().table_pages.entry(table_page).or_insert(before);
        }
    }

    /// The superblock stands for what is known now.
    pub(crate) fn superblock_is_current(&self) {
        self.before.take();
    }

    /// The sum of a page whose sum is known, as the superblock stands for it and as it is now.
    pub(crate) fn sums(&self, page: u64) -> [u64; 2] {
        let now = self.sum(page);
        [self.before.borrow().pages.get(&page).copied().unwrap_or(now), now]
    }

    /// As [`Self::sums`], of a table page.
    pub(crate) fn root_sums(&self, table_page: u64) -> [u64; 2] {
        let now = self.root_sum(table_page);
        [self.before.borrow().table_pages.get(&table_page).copied().unwrap_or(now), now]
    }

    /// Table pages that differ from what is home, with their bytes; the root takes their sums. They stay in memory
    /// until `held`, which is of this table, is dropped: not before they are home.
    pub(crate) fn take_dirty(&self, held: &mut Held<'_, H>) -> Vec<(u64, TableBytes)> {
        let numbers = std::mem::take(&mut self.pages.borrow_mut().dirty);
        let mut dirty = Vec::with_capacity(numbers.len());
        for number in numbers {
            held.hold(number);
            let bytes = self.pages.borrow().map.get(&number).map(|page| Rc::clone(&page.bytes));
            let bytes = bytes.expect("a page that differs from what is home stays");
            self.set_root_sum(number, page_sum(&bytes[..]));
            dirty.push((number, bytes));
        }
        dirty
    }

    /// Whether the log holds this sum of a table page since its last change.
    pub(crate) fn is_logged(&self, table_page: u64, sum: u64) -> bool {
        self.pages.borrow().map.get(&table_page).is_some_and(|page| page.logged_sum == Some(sum))
    }

    /// Whether a table page is home as the root says: nobody changes or writes it.
    pub(crate) fn is_settled(&self, table_page: u64) -> bool {
        let pages = self.pages.borrow();
        let is_held = pages.map.get(&table_page).is_some_and(|page| page.holds > 0);
        !is_held && !pages.dirty.contains(&table_page)
    }

    /// Table pages that differ from what is home, of which the log does not hold all.
    pub(crate) fn unlogged(&self) -> Vec<u64> {
        let pages = self.pages.borrow();
        let is_logged = |number: &u64| pages.map.get(number).is_some_and(|page| page.logged_sum.is_some());
        pages.dirty.iter().copied().filter(|number| !is_logged(number)).collect()
    }

    /// Whether a table page differs from what is home whose sum a recovery found in the log.
    pub(crate) fn has_logged(&self) -> bool {
        let pages = self.pages.borrow();
        pages.dirty.iter().any(|number| pages.map.get(number).is_some_and(|page| page.logged_sum.is_some()))
    }

    /// Number of table pages that differ from what is home.
    pub(crate) fn dirty_pages(&self) -> usize {
        self.pages.borrow().dirty.len()
    }

    /// The sum that each of the table pages speaking of `pages` has now.
    pub(crate) fn table_sums(&self, pages: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
        let mut numbers: Vec<u64> = pages.map(Self::page_for).collect();
        numbers.dedup();
        let loaded = self.pages.borrow();
        let sum = |number: u64| loaded.map.get(&number).map(|page| (number, page_sum(&page.bytes[..])));
        numbers.into_iter().filter_map(sum).collect()
    }

    /// What the superblock has to say of the root.
    pub(crate) fn root_sums_now(&self) -> RootSums {
        self.root.borrow_mut().root_sums()
    }

    /// The root has so many pages from now on, in places of which nothing is known.
    pub(crate) fn move_root(&self, root_pages: usize) {
        self.root.borrow_mut().move_to_places_of(root_pages);
    }

    /// Pages of the root.
    pub(crate) fn root_pages(&self) -> usize {
        self.root.borrow().pages()
    }

    /// The pages of a place of the root that differ from memory, ascending: they are being written from now on, until
    /// [`Self::root_is_written`].
    pub(crate) fn begin_root(&self, slot: u8) -> Vec<usize> {
        self.root.borrow_mut().begin_writing(slot)
    }

    /// The bytes of a page of the root.
    pub(crate) fn root_page(&self, page: usize) -> [u8; PAGE] {
        self.root.borrow().page(page)
    }

    /// Whatever of the root was being written is where it belongs.
    pub(crate) fn root_is_written(&self) {
        self.root.borrow_mut().written();
    }

    /// The sum of a page of a place of the root, as it was written there last; 0 where that is not known.
    pub(crate) fn root_page_sum_at(&self, slot: u8, page: usize) -> u64 {
        self.root.borrow().page_sum_at(slot, page)
    }

    /// What a page of a place of the root holds is not what was written: it is written anew when that place is.
    pub(crate) fn rewrite_root_page(&self, slot: u8, page: usize) {
        self.root.borrow_mut().found_at(slot, page, 0);
    }

    /// What a page of a place of the root is known to hold.
    pub(crate) fn expected_of_root(&self, slot: u8, page: usize) -> Expected {
        self.root.borrow().expected_at(slot, page)
    }
}

impl TablePage {
    fn of(bytes: &[u8; PAGE], logged_sum: Option<u64>) -> Self {
        Self { bytes: Rc::new(*bytes), logged_sum, holds: 0, is_spare: false, is_used: true }
    }

    fn sum(&self, page: u64) -> u64 {
        u64::from_le_bytes(self.bytes[place_of(page)].try_into().expect("a place is a word"))
    }

    fn set_sum(&mut self, page: u64, sum: u64) {
        // Whoever takes it home has it as it was.
        Rc::make_mut(&mut self.bytes)[place_of(page)].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Where in its page of the table the sum of a page is.
fn place_of(page: u64) -> Range<usize> {
    let start = (page % SUMS_PER_TABLE_PAGE) as usize * 8;
    start..start + 8
}
