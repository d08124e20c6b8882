//! Ordered journaling as ext3 does it, on the modelled disk without a volume.
//!
//! 1. Data goes straight home in whole pages, that of several writers side by side.
//! 2. Once it is there, a transaction of the journal makes its metadata durable: a descriptor and a block of inodes, and
//!    then, in a write of its own, the commit block. Who comes while one is under way shares the next.
//!
//! No transaction has less than that, and inodes never go home: ext3 itself is slower, not faster.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

use evenkeel_engine::device::{Device, Durability};
use evenkeel_engine::format::PAGE_BYTES;
use evenkeel_engine::format::layout::Layout;

use super::bed::Traffic;
use super::drive::Drive;

/// Bytes of a transaction before its commit block.
const DESCRIBED_BYTES: u64 = 2 * PAGE_BYTES;

/// A disk with files and a journal in the places where a volume has its pages and its log.
pub(super) struct Ext3 {
    drive: Drive,
    layout: Layout,
    journal: RefCell<Journal>,
    traffic: Cell<Traffic>,
}

#[derive(Default)]
struct Journal {
    /// Transactions that were begun.
    begun: u64,
    /// Those that are durable. One at most is neither.
    committed: u64,
    /// Where the next one goes, from the start of the journal.
    next: u64,
    waiting: Vec<Waker>,
}

/// What a writer does whose data is home.
enum Turn {
    /// Nothing: a transaction that began after its data was home is durable.
    Durable,
    /// Commit, at this place of the journal.
    Commit(u64),
}

impl Ext3 {
    pub(super) fn new(drive: Drive, layout: Layout) -> Self {
        Self { drive, layout, journal: RefCell::default(), traffic: Cell::default() }
    }

    /// Writes `len` bytes and makes them durable.
    pub(super) async fn write(&self, offset: u64, len: u64) {
        let (first, end) = self.pages(offset, len);
        self.put(self.layout.segments[0].data.offset + first, end - first).await;
        self.commit().await;
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

    async fn commit(&self) {
        let mine = self.journal.borrow().begun;
        while let Turn::Commit(at) = self.turn(mine).await {
            let at = self.layout.log.offset + at;
            self.put(at, DESCRIBED_BYTES).await;
            self.put(at + DESCRIBED_BYTES, PAGE_BYTES).await;
            self.count(|traffic| traffic.journal_bytes += DESCRIBED_BYTES + PAGE_BYTES);
            let mut journal = self.journal.borrow_mut();
            journal.committed += 1;
            journal.waiting.drain(..).for_each(Waker::wake);
        }
    }

    /// What becomes of a writer who waits for transaction `mine`, or a later one.
    async fn turn(&self, mine: u64) -> Turn {
        poll_fn(|context| {
            let mut journal = self.journal.borrow_mut();
            if journal.committed > mine {
                return Poll::Ready(Turn::Durable);
            }
            if journal.begun > journal.committed {
                journal.waiting.push(context.waker().clone());
                return Poll::Pending;
            }
            journal.begun += 1;
            let at = journal.next;
            let end = at + DESCRIBED_BYTES + PAGE_BYTES;
            let fits_another = end + DESCRIBED_BYTES + PAGE_BYTES <= self.layout.log.len;
            journal.next = if fits_another { end } else { 0 };
            Poll::Ready(Turn::Commit(at))
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
