//! Which pages somebody reads from the device or writes to it.
//!
//! 1. A page is locked by one task at a time, or shared by any number that only read it. Whoever wants several pages
//!    gets all of them at once or waits, so nobody waits for another while holding something.
//! 2. Nobody comes to share a page for which somebody waits: readers without end keep no writer out.
//! 3. When pages are unlocked, those are woken who wait for one of them, and nobody else: thousands may wait for others.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// The locked pages.
#[derive(Debug, Default)]
pub(super) struct PageLocks {
    locked: RefCell<BTreeMap<u64, Locked>>,
}

/// A locked page.
#[derive(Debug)]
struct Locked {
    purpose: Purpose,
    /// How many have it: one, unless it is shared.
    holders: u32,
    /// Those who wait for it.
    waiting: Vec<Waker>,
}

/// What a page is locked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// To be read, by others too.
    Shared,
    /// To be read or written by one alone.
    Alone,
}

/// Pages that nobody else writes to the device, nor reads from it unless they are shared.
#[derive(Debug)]
#[must_use = "they are unlocked when this is dropped"]
pub(crate) struct PageLock<'a> {
    locks: &'a PageLocks,
    pages: Vec<u64>,
}

impl PageLocks {
    /// Whether somebody has locked the page.
    pub(super) fn contains(&self, page: u64) -> bool {
        self.locked.borrow().contains_key(&page)
    }

    /// Locks all of the pages, once nobody has locked any of them.
    pub(super) async fn lock(&self, pages: Vec<u64>) -> PageLock<'_> {
        self.lock_for(Purpose::Alone, pages).await
    }

    /// Locks all of the pages, once all who have locked one of them share it.
    pub(super) async fn share(&self, pages: Vec<u64>) -> PageLock<'_> {
        self.lock_for(Purpose::Shared, pages).await
    }

    async fn lock_for(&self, purpose: Purpose, pages: Vec<u64>) -> PageLock<'_> {
        poll_fn(|context| {
            let mut locked = self.locked.borrow_mut();
            for page in &pages {
                let Some(held) = locked.get_mut(page) else { continue };
                if (held.purpose, purpose) != (Purpose::Shared, Purpose::Shared) || !held.waiting.is_empty() {
                    held.waiting.push(context.waker().clone());
                    return Poll::Pending;
                }
            }
            for &page in &pages {
                let none = || Locked { purpose, holders: 0, waiting: Vec::new() };
                locked.entry(page).or_insert_with(none).holders += 1;
            }
            Poll::Ready(())
        })
        .await;
        PageLock { locks: self, pages }
    }
}

impl Drop for PageLock<'_> {
    fn drop(&mut self) {
        for page in &self.pages {
            let mut locked = self.locks.locked.borrow_mut();
            let Some(held) = locked.get_mut(page) else { continue };
            held.holders -= 1;
            if held.holders > 0 {
                continue;
            }
            let gone = locked.remove(page);
            drop(locked);
            gone.into_iter().flat_map(|gone| gone.waiting).for_each(Waker::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Context, Wake};

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn poll<'a>(
        future: &mut Pin<&mut impl Future<Output = PageLock<'a>>>,
        woken: &Arc<Woken>,
    ) -> Option<PageLock<'a>> {
        let waker = Waker::from(Arc::clone(woken));
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(lock) => Some(lock),
            Poll::Pending => None,
        }
    }

    #[test]
    fn whoever_waits_for_a_page_is_woken_when_it_is_unlocked_and_not_before() {
        let locks = PageLocks::default();
        let (others, mine) = (Arc::<Woken>::default(), Arc::<Woken>::default());
        let first = poll(&mut pin!(locks.lock(vec![1, 2])), &others).expect("nobody has them");
        let other = poll(&mut pin!(locks.lock(vec![5])), &others).expect("nobody has it");
        let mut waits = pin!(locks.lock(vec![0, 2, 5]));
        assert!(poll(&mut waits, &mine).is_none());
        assert!(!locks.contains(0), "all or none");
        drop(other);
        assert_eq!(mine.0.load(Ordering::Relaxed), 0, "it waits for another");
        drop(first);
        assert_eq!(mine.0.load(Ordering::Relaxed), 1);
        let lock = poll(&mut waits, &mine).expect("all are free");
        assert!(locks.contains(0) && locks.contains(5));
        drop(lock);
        assert!(!locks.contains(2));
    }

    #[test]
    fn readers_share_a_page_until_somebody_waits_for_it_alone() {
        let locks = PageLocks::default();
        let (readers, writer) = (Arc::<Woken>::default(), Arc::<Woken>::default());
        let first = poll(&mut pin!(locks.share(vec![1, 2])), &readers).expect("nobody has them");
        let second = poll(&mut pin!(locks.share(vec![2])), &readers).expect("it is shared");
        let mut writes = pin!(locks.lock(vec![2]));
        assert!(poll(&mut writes, &writer).is_none());
        let mut late = pin!(locks.share(vec![2]));
        assert!(poll(&mut late, &readers).is_none(), "somebody waits for it");
        drop(first);
        assert_eq!(writer.0.load(Ordering::Relaxed), 0, "it has a reader still");
        drop(second);
        assert_eq!(writer.0.load(Ordering::Relaxed), 1);
        let written = poll(&mut writes, &writer).expect("it is free");
        assert!(poll(&mut late, &readers).is_none());
        drop(written);
        assert!(poll(&mut late, &readers).is_some());
    }
}
