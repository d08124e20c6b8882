//! The table of page sums, and the root: the sums of the table's pages.
//!
//! A page of the table is read when a page it speaks of is first needed, and checked against the root. Sum 0
//! stands for a page without contents, so the table is the allocation map too. Sum 0 in the root stands for a
//! table page that was never written: all of its sums are 0.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::device::Device;
use crate::error::Error;
use crate::format::layout::{Layout, SUMS_PER_TABLE_PAGE};
use crate::format::{PAGE, page_sum};

const SUMS: usize = SUMS_PER_TABLE_PAGE as usize;

/// The table of one volume.
pub(crate) struct Table<H> {
    device: Rc<H>,
    layout: Layout,
    root: RefCell<Vec<u64>>,
    pages: RefCell<BTreeMap<u64, TablePage>>,
}

struct TablePage {
    sums: Box<[u64; SUMS]>,
    /// Whether it differs from what is home.
    dirty: bool,
    /// Its sum, where the log holds it since the last change.
    logged_sum: Option<u64>,
}

impl<H: Device> Table<H> {
    pub(crate) fn new(device: Rc<H>, layout: Layout, root: Vec<u64>) -> Self {
        Self { device, layout, root: RefCell::new(root), pages: RefCell::default() }
    }

    /// The table page that speaks of `page`.
    pub(crate) fn page_for(page: u64) -> u64 {
        page / SUMS_PER_TABLE_PAGE
    }

    /// Makes the sum of `page` known.
    ///
    /// # Errors
    ///
    /// Those of the device; [`Error::Damaged`] where the table is not what was written.
    pub(crate) async fn load_for(&self, page: u64) -> Result<(), Error> {
        let table_page = Self::page_for(page);
        if self.pages.borrow().contains_key(&table_page) {
            return Ok(());
        }
        let expected = self.root.borrow()[table_page as usize];
        let bytes = if expected == 0 {
            [0; PAGE]
        } else {
            let bytes = self.read(table_page).await?;
            if page_sum(&bytes) != expected {
                return Err(Error::Damaged { page });
            }
            bytes
        };
        self.pages.borrow_mut().entry(table_page).or_insert_with(|| TablePage::of(&bytes, false, None));
        Ok(())
    }

    /// Whether the sum of `page` is known.
    pub(crate) fn is_loaded(&self, page: u64) -> bool {
        self.pages.borrow().contains_key(&Self::page_for(page))
    }

    /// The bytes of a table page as they are home, unchecked.
    pub(crate) async fn read(&self, table_page: u64) -> Result<[u8; PAGE], Error> {
        let mut bytes = [0; PAGE];
        self.device.read(self.layout.table_offset(table_page), &mut bytes).await?;
        Ok(bytes)
    }

    /// What the root says of a table page.
    pub(crate) fn root_sum(&self, table_page: u64) -> u64 {
        self.root.borrow()[table_page as usize]
    }

    /// Puts a table page in place, as recovery found it; `is_logged` where the log says so of all of it.
    pub(crate) fn recover(&self, table_page: u64, bytes: &[u8; PAGE], is_logged: bool) {
        self.root.borrow_mut()[table_page as usize] = page_sum(bytes);
        let page = TablePage::of(bytes, true, is_logged.then(|| page_sum(bytes)));
        self.pages.borrow_mut().insert(table_page, page);
    }

    /// The sum of a page whose sum is known.
    pub(crate) fn sum(&self, page: u64) -> u64 {
        let pages = self.pages.borrow();
        let table_page = pages.get(&Self::page_for(page)).expect("the caller loaded the sum");
        table_page.sums[(page % SUMS_PER_TABLE_PAGE) as usize]
    }

    /// Changes the sum of a page whose sum is known.
    pub(crate) fn set_sum(&self, page: u64, sum: u64) {
        let mut pages = self.pages.borrow_mut();
        let table_page = pages.get_mut(&Self::page_for(page)).expect("the caller loaded the sum");
        let place = &mut table_page.sums[(page % SUMS_PER_TABLE_PAGE) as usize];
        if *place != sum {
            *place = sum;
            table_page.dirty = true;
            table_page.logged_sum = None;
        }
    }

    /// Table pages that differ from what is home, with their bytes; the root takes their sums.
    pub(crate) fn take_dirty(&self) -> Vec<(u64, [u8; PAGE])> {
        let mut pages = self.pages.borrow_mut();
        let mut dirty = Vec::new();
        for (&number, page) in pages.iter_mut().filter(|(_, page)| page.dirty) {
            page.dirty = false;
            dirty.push((number, page.bytes()));
        }
        drop(pages);
        for (number, bytes) in &dirty {
            self.root.borrow_mut()[*number as usize] = page_sum(bytes);
        }
        dirty
    }

    /// Whether the log holds this sum of a table page since its last change.
    pub(crate) fn is_logged(&self, table_page: u64, sum: u64) -> bool {
        self.pages.borrow().get(&table_page).is_some_and(|page| page.logged_sum == Some(sum))
    }

    /// Number of table pages that differ from what is home.
    pub(crate) fn dirty_pages(&self) -> usize {
        self.pages.borrow().values().filter(|page| page.dirty).count()
    }

    /// The sum that each of the table pages speaking of `pages` has now.
    pub(crate) fn table_sums(&self, pages: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
        let mut numbers: Vec<u64> = pages.map(Self::page_for).collect();
        numbers.dedup();
        let loaded = self.pages.borrow();
        let sum = |number: u64| loaded.get(&number).map(|page| (number, page_sum(&page.bytes())));
        numbers.into_iter().filter_map(sum).collect()
    }

    /// The bytes of the root.
    pub(crate) fn root_bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.root.borrow().iter().flat_map(|sum| sum.to_le_bytes()).collect();
        bytes.resize(self.layout.roots[0].len as usize, 0);
        bytes
    }
}

impl TablePage {
    fn of(bytes: &[u8; PAGE], dirty: bool, logged_sum: Option<u64>) -> Self {
        let mut sums = Box::new([0; SUMS]);
        for (sum, word) in sums.iter_mut().zip(bytes.chunks_exact(8)) {
            *sum = u64::from_le_bytes(word.try_into().expect("chunks are words"));
        }
        Self { sums, dirty, logged_sum }
    }

    fn bytes(&self) -> [u8; PAGE] {
        let mut bytes = [0; PAGE];
        for (word, sum) in bytes.chunks_exact_mut(8).zip(self.sums.iter()) {
            word.copy_from_slice(&sum.to_le_bytes());
        }
        bytes
    }
}
