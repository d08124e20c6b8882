//! A drive that is only read, with what is written to it kept in memory: whoever opens a volume over such drives sees what
//! it would be, and changes nothing.
//!
//! 1. Nothing of the drive changes. What was written is read back, until this is dropped.
//! 2. It takes no more memory than it was given: then writes fail, as on a drive that is full.

use std::cell::RefCell;
use std::collections::BTreeMap;

use evenkeel_engine::device::{Device, Durability, Extent, FlushScope, Geometry};
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
            let mut kept = Box::new([0; PAGE]);
            if shared != at {
                self.read(at.offset, &mut kept[..at.len as usize]).await?;
            }
            kept[(shared.offset - at.offset) as usize..][..shared.len as usize]
                .copy_from_slice(&bytes[(shared.offset - offset) as usize..][..shared.len as usize]);
            let mut pages = self.pages.borrow_mut();
            if pages.len() * PAGE >= KEPT_MAX_BYTES && !pages.contains_key(&page) {
                return Err(DeviceError {
                    doing: "keep in memory what a recovery writes",
                    errno: libc::ENOMEM,
                });
            }
            pages.insert(page, kept);
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
