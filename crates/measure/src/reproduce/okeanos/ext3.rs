//! Ordered journaling as ext3 does it, on the modelled disk without a volume.
//!
//! 1. Data goes straight home in whole pages, that of several writers side by side. Its writer is in the transaction that
//!    gathers when it comes.
//! 2. A transaction is committed once that before it is, and the data of one of its writers is home. It waits for the
//!    data of all of them, as that is what *ordered* means.
//! 3. What it writes to the journal: a descriptor, a block of inodes for each 32 writers, and for each group of blocks in
//!    which pages were allocated its bitmap, with a block of descriptors of groups; then, in a write of its own, the commit
//!    block.
//!
//! Indirect blocks and directories are left out, and no metadata goes home: ext3 itself is slower, not faster.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::task::{Poll, Waker};

use evenkeel_engine::device::{Device, Durability};
use evenkeel_engine::format::PAGE_BYTES;
use evenkeel_engine::format::layout::Layout;

use super::drive::Drive;
use super::written::Traffic;

/// Inodes of a block.
const INODES_A_BLOCK: u64 = 32;

/// Bytes of a group of blocks: as many as the bits of a block.
const GROUP_BYTES: u64 = 8 * PAGE_BYTES * PAGE_BYTES;

/// A disk with files and a journal in the places where a volume has its pages and its log.
pub(super) struct Ext3 {
    drive: Drive,
    layout: Layout,
    journal: RefCell<Journal>,
    traffic: Cell<Traffic>,
}

#[derive(Default)]
struct Journal {
    /// The transaction that gathers.
    gathers: u64,
    /// Those that are durable: all below this.
    committed: u64,
    /// Those that are not.
    transactions: BTreeMap<u64, Transaction>,
    /// Where the next one goes, from the start of the journal.
    next: u64,
    waiting: Vec<Waker>,
}

/// Writes whose metadata is committed together.
#[derive(Default)]
struct Transaction {
    writers: u64,
    /// Those of them whose data is not home yet.
    writing: u64,
    /// Groups of blocks in which pages were allocated.
    groups: BTreeSet<u64>,
}

impl Transaction {
    /// Bytes of it before its commit block.
    fn described_bytes(&self) -> u64 {
        let groups = self.groups.len() as u64;
        let blocks = 1 + self.writers.div_ceil(INODES_A_BLOCK) + groups + u64::from(groups > 0);
        blocks * PAGE_BYTES
    }
}

impl Ext3 {
    pub(super) fn new(drive: Drive, layout: Layout) -> Self {
        Self { drive, layout, journal: RefCell::default(), traffic: Cell::default() }
    }

    /// Writes `len` bytes behind the end of a file, and makes them durable.
    pub(super) async fn write(&self, offset: u64, len: u64) {
        let (first, end) = self.pages(offset, len);
        let mine = self.join(offset, len);
        self.put(self.layout.segments[0].data.offset + first, end - first).await;
        self.note_home(mine);
        self.until_durable(mine).await;
        self.count(|traffic| {
            traffic.writes += 1;
            traffic.user_bytes += len;
            traffic.home_bytes += end - first;
        });
    }

    /// Reads `len` bytes.
    pub(super) async fn read(&self, offset: u64, len: u64) {
        let (first, end) = self.pages(offset, len);
        let mut pages = vec![0; (end - first) as usize];
        let read = self.drive.read(self.layout.segments[0].data.offset + first, &mut pages);
        read.await.expect("a healthy disk gives what was written");
    }

    /// What was written so far.
    pub(super) fn traffic(&self) -> Traffic {
        self.traffic.get()
    }

    fn pages(&self, offset: u64, len: u64) -> (u64, u64) {
        (offset / PAGE_BYTES * PAGE_BYTES, (offset + len).next_multiple_of(PAGE_BYTES))
    }

    /// Joins the transaction that gathers; answers its number.
    fn join(&self, offset: u64, len: u64) -> u64 {
        let mut journal = self.journal.borrow_mut();
        let mine = journal.gathers;
        let transaction = journal.transactions.entry(mine).or_default();
        transaction.writers += 1;
        transaction.writing += 1;
        // A page that begins with this write is allocated by it.
        if offset.next_multiple_of(PAGE_BYTES) < offset + len {
            transaction.groups.insert(offset / GROUP_BYTES);
        }
        mine
    }

    /// Ends once the transaction is durable, which this writer sees to if nobody else does.
    async fn until_durable(&self, mine: u64) {
        let is_free = |journal: &mut Journal| match () {
            () if journal.committed > mine => Some(false),
            () if journal.gathers == mine && journal.committed == mine => Some(true),
            () => None,
        };
        if !self.when(is_free).await {
            return;
        }
        self.journal.borrow_mut().gathers += 1;
        let is_home = |journal: &mut Journal| {
            let transaction = &journal.transactions[&mine];
            (transaction.writing == 0).then(|| transaction.described_bytes())
        };
        let described_bytes = self.when(is_home).await;
        let at = self.layout.log.offset + self.reserve(described_bytes + PAGE_BYTES);
        self.put(at, described_bytes).await;
        self.put(at + described_bytes, PAGE_BYTES).await;
        self.count(|traffic| traffic.journal_bytes += described_bytes + PAGE_BYTES);
        let mut journal = self.journal.borrow_mut();
        journal.transactions.remove(&mine);
        journal.committed += 1;
        journal.waiting.drain(..).for_each(Waker::wake);
    }

    /// Takes room in the journal; answers where.
    fn reserve(&self, bytes: u64) -> u64 {
        let mut journal = self.journal.borrow_mut();
        if journal.next + bytes > self.layout.log.len {
            journal.next = 0;
        }
        journal.next += bytes;
        journal.next - bytes
    }

    /// The data of one writer of the transaction is home.
    fn note_home(&self, mine: u64) {
        let mut journal = self.journal.borrow_mut();
        let transaction = journal.transactions.get_mut(&mine).expect("it is not durable");
        transaction.writing -= 1;
        if transaction.writing == 0 {
            journal.waiting.drain(..).for_each(Waker::wake);
        }
    }

    /// What `ready` answers once it does.
    async fn when<T>(&self, mut ready: impl FnMut(&mut Journal) -> Option<T>) -> T {
        poll_fn(|context| {
            let mut journal = self.journal.borrow_mut();
            match ready(&mut journal) {
                Some(answer) => Poll::Ready(answer),
                None => {
                    journal.waiting.push(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    async fn put(&self, offset: u64, len: u64) {
        let bytes = vec![0; len as usize];
        let write = self.drive.write(offset, &bytes, Durability::Durable);
        write.await.expect("a healthy disk takes a write");
    }

    fn count(&self, add: impl FnOnce(&mut Traffic)) {
        let mut traffic = self.traffic.get();
        add(&mut traffic);
        self.traffic.set(traffic);
    }
}
