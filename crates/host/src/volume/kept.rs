//! A drive that is only read, with what is written to it kept in memory: whoever opens a volume over such drives sees what
//! it would be, and changes nothing.
//!
//! 1. Nothing of the drive changes. What was written is read back, until this is dropped.
//! 2. Of writes to a page at the same time none undoes another, though each may have to read the page first.
//! 3. It takes no more memory than it was given: then writes fail, as on a drive that is full.

use std::cell::RefCell;
use std::collections::BTreeMap;

use evenkeel_engine::device::{Device, Drive, Durability, Extent, FlushScope, Geometry};
use evenkeel_engine::error::DeviceError;
use evenkeel_engine::format::{PAGE, PAGE_BYTES};

/// Memory for what is written to one drive: what a recovery takes home, and what it says of that.
const KEPT_MAX_BYTES: usize = 1 << 30;

/// The drive below, and the pages that are other than there.
#[derive(Debug)]
pub struct Kept<D> {
    below: D,
    pages: RefCell<BTreeMap<u64, Box<[u8; PAGE]>>>,
}

impl<D: Device> Kept<D> {
    pub(super) fn over(below: D) -> Self {
        Self { below, pages: RefCell::default() }
    }

    /// The drive itself, as it is.
    pub(super) fn below(&self) -> &D {
        &self.below
    }

    /// Lays what was written over bytes of the drive.
    fn lay_over(&self, offset: u64, into: &mut [u8]) {
        let wanted = Extent::new(offset, into.len() as u64);
        let pages = self.pages.borrow();
        for (&page, bytes) in pages.range(offset / PAGE_BYTES..wanted.end().div_ceil(PAGE_BYTES)) {
            let at = Extent::new(page * PAGE_BYTES, PAGE_BYTES);
            let Some(shared) = at.intersection(&wanted) else { continue };
            into[(shared.offset - offset) as usize..][..shared.len as usize]
                .copy_from_slice(&bytes[(shared.offset - at.offset) as usize..][..shared.len as usize]);
        }
    }
}

impl<D: Device> Device for Kept<D> {
    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        let pages = offset / PAGE_BYTES..(offset + into.len() as u64).div_ceil(PAGE_BYTES);
        let held = self.pages.borrow().range(pages.clone()).count() as u64;
        if held < pages.end - pages.start {
            self.below.read(offset, into).await?;
        }
        self.lay_over(offset, into);
        Ok(())
    }

    async fn write(&self, offset: u64, bytes: &[u8], _durability: Durability) -> Result<(), DeviceError> {
        let end = offset + bytes.len() as u64;
        let size_bytes = self.geometry().size_bytes;
        for page in offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES) {
            let at = Extent::new(page * PAGE_BYTES, PAGE_BYTES.min(size_bytes - page * PAGE_BYTES));
            let shared = at.intersection(&Extent::new(offset, bytes.len() as u64)).unwrap_or(at);
            let base = match shared == at || self.pages.borrow().contains_key(&page) {
                true => None,
                false => {
                    let mut base = Box::new([0; PAGE]);
                    self.below.read(at.offset, &mut base[..at.len as usize]).await?;
                    Some(base)
                }
            };
            let mut pages = self.pages.borrow_mut();
            if pages.len() * PAGE >= KEPT_MAX_BYTES && !pages.contains_key(&page) {
                return Err(DeviceError {
                    doing: "keep in memory what a recovery writes",
                    errno: libc::ENOMEM,
                });
            }
            // Nothing is waited for from here on. What another write kept meanwhile is newer than what was read.
            let kept = pages.entry(page).or_insert_with(|| base.unwrap_or_else(|| Box::new([0; PAGE])));
            kept[(shared.offset - at.offset) as usize..][..shared.len as usize]
                .copy_from_slice(&bytes[(shared.offset - offset) as usize..][..shared.len as usize]);
        }
        Ok(())
    }

    async fn flush(&self, _scope: FlushScope<'_>) -> Result<(), DeviceError> {
        Ok(())
    }

    async fn discard(&self, _extent: Extent) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl<D: Device> Drive for Kept<D> {}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use evenkeel_engine::join;

    use super::*;

    /// A drive of sevens whose reads are waited for.
    struct Slow;

    impl Device for Slow {
        fn geometry(&self) -> Geometry {
            Geometry { size_bytes: 2 * PAGE_BYTES, sector_bytes: 512, atomic_sectors: true }
        }

        async fn read(&self, _offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
            let mut was_asked = false;
            poll_fn(|_| match std::mem::replace(&mut was_asked, true) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
            into.fill(7);
            Ok(())
        }

        async fn write(&self, _: u64, _: &[u8], _: Durability) -> Result<(), DeviceError> {
            unreachable!("nothing is written")
        }

        async fn flush(&self, _: FlushScope<'_>) -> Result<(), DeviceError> {
            unreachable!("nothing is flushed")
        }

        async fn discard(&self, _: Extent) -> Result<(), DeviceError> {
            unreachable!("nothing is discarded")
        }
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        for _ in 0..100 {
            if let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return done;
            }
        }
        panic!("it waits for nothing that comes")
    }

    #[test]
    fn of_writes_to_one_page_at_the_same_time_each_is_kept() {
        let kept = Kept::over(Slow);
        let write = async |(offset, byte): (u64, u8)| {
            kept.write(offset, &[byte; 512], Durability::Durable).await.unwrap();
        };
        run(join::all([(0, 1), (512, 2), (4096 - 512, 3)].into_iter().map(write)));
        let mut found = [0; PAGE];
        run(kept.read(0, &mut found)).unwrap();
        let mut expected = [7; PAGE];
        expected[..512].fill(1);
        expected[512..1024].fill(2);
        expected[4096 - 512..].fill(3);
        assert_eq!(found, expected);
    }
}
