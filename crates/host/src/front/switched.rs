//! A volume that can be switched, as front ends serve it: a device, or a store of a file system. Each request is for the volume of
//! its moment, and is under way until it has ended.

use evenkeel_engine::device::{Durability, Extent, FlushScope};
use evenkeel_ext2::StoreError;
use evenkeel_ext2::store::{Change, CommitLimits, Store};

use super::device::{RequestError, ServedDevice, ZEROED_AT_ONCE_BYTES};
use crate::volume::changed_pages::ChangedPages;
use crate::volume::switched::SwitchedVolume;

impl ServedDevice for SwitchedVolume {
    fn size_bytes(&self) -> u64 {
        self.now().size_bytes()
    }

    fn unit_bytes(&self) -> u32 {
        self.now().unit_bytes()
    }

    fn description(&self) -> &str {
        "evenkeel volume"
    }

    fn atomic_max_bytes(&self) -> u64 {
        self.now().atomic_max_bytes()
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), RequestError> {
        let pass = self.enter().await;
        ServedDevice::read(&pass.volume, offset, into).await
    }

    fn try_read(&self, offset: u64, into: &mut [u8]) -> bool {
        self.begin().is_some_and(|pass| pass.volume.try_read(offset, into))
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), RequestError> {
        let writing = self.enter_to_write_to(Extent::new(offset, bytes.len() as u64)).await;
        ServedDevice::write(&writing.pass.volume, offset, bytes, durability).await
    }

    async fn flush(&self, scope: FlushScope<'_>) -> Result<(), RequestError> {
        let pass = self.enter().await;
        ServedDevice::flush(&pass.volume, scope).await
    }

    async fn write_zeroes(&self, extent: Extent) -> Result<(), RequestError> {
        let writing = self.enter_to_write_to(extent).await;
        ServedDevice::write_zeroes(&writing.pass.volume, extent).await
    }

    async fn discard(&self, extent: Extent) -> Result<(), RequestError> {
        let writing = self.enter_to_write_to(extent).await;
        ServedDevice::discard(&writing.pass.volume, extent).await
    }

    async fn allocation(&self, extent: Extent) -> Result<Vec<(u64, bool)>, RequestError> {
        let pass = self.enter().await;
        ServedDevice::allocation(&pass.volume, extent).await
    }
}

impl Store for SwitchedVolume {
    fn size_bytes(&self) -> u64 {
        self.now().size_bytes()
    }

    fn limits(&self) -> CommitLimits {
        self.tells_limits();
        Store::limits(&self.now())
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), StoreError> {
        let pass = self.enter().await;
        Store::read(&pass.volume, offset, into).await
    }

    async fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let writing = self.enter_to_write_to(Extent::new(offset, bytes.len() as u64)).await;
        Store::write(&writing.pass.volume, offset, bytes).await
    }

    async fn write_fresh(&self, offset: u64, blocks: &[&[u8]]) -> Result<(), StoreError> {
        let len = blocks.iter().map(|block| block.len() as u64).sum();
        let writing = self.enter_to_write_to(Extent::new(offset, len)).await;
        Store::write_fresh(&writing.pass.volume, offset, blocks).await
    }

    /// One piece after the other: nobody who holds it waits for all of a large file.
    async fn zero(&self, extent: Extent) -> Result<(), StoreError> {
        let mut offset = extent.offset;
        while offset < extent.end() {
            let piece = Extent::new(offset, ZEROED_AT_ONCE_BYTES.min(extent.end() - offset));
            let writing = self.enter_to_write_to(piece).await;
            Store::zero(&writing.pass.volume, piece).await?;
            offset = piece.end();
        }
        Ok(())
    }

    async fn flush(&self, ranges: &[Extent]) -> Result<(), StoreError> {
        let pass = self.enter().await;
        Store::flush(&pass.volume, ranges).await
    }

    async fn commit(&self, changes: &[Change<'_>]) -> Result<(), StoreError> {
        let writing = self.enter_to_write(|pages| mark_all(pages, changes)).await;
        Store::commit(&writing.pass.volume, changes).await
    }

    async fn commit_in_background(&self, changes: &[Change<'_>]) -> Result<(), StoreError> {
        let writing = self.enter_to_write(|pages| mark_all(pages, changes)).await;
        Store::commit_in_background(&writing.pass.volume, changes).await
    }

    async fn wait_beside_small_commits(&self) -> bool {
        Store::wait_beside_small_commits(&self.now()).await
    }
}

fn mark_all(pages: &mut ChangedPages, changes: &[Change<'_>]) {
    changes.iter().for_each(|change| pages.mark(change.extent()));
}
