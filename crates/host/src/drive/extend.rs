//! Making the file of a drive longer, while the drive is used.
//!
//! 1. What the file holds stays as it is. Where there is no room for all that is added, nothing has changed.
//! 2. The file has its room before it has its length: one that is found to be long enough has all of it.

use std::io;

use evenkeel_engine::device::Geometry;
use rustix::fs::FallocateFlags;

use super::FileDrive;
use crate::stack::check_space;

impl FileDrive {
    /// How long the file or device is now; the drive offers all of it from now on, if that is more than it did.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn look_at_size(&self) -> io::Result<u64> {
        let state = &*self.0;
        // Where transfers go is said by each of them: nobody relies on this place.
        let end = rustix::fs::seek(&state.file, rustix::fs::SeekFrom::End(0))?;
        Ok(self.note_size(end))
    }

    /// The same, of a file that was found to end there.
    pub(super) fn note_size(&self, end: u64) -> u64 {
        let state = &*self.0;
        let geometry = state.geometry.get();
        let sector_bytes = u64::from(geometry.sector_bytes);
        let size_bytes = end / sector_bytes * sector_bytes;
        if size_bytes > geometry.size_bytes {
            state.geometry.set(Geometry { size_bytes, ..geometry });
        }
        size_bytes
    }

    /// That there is room for the file to be of `size_bytes`, as far as that can be known without taking it.
    ///
    /// # Errors
    ///
    /// `StorageFull`; those of the system.
    pub fn check_room_for(&self, size_bytes: u64) -> io::Result<()> {
        let found = rustix::fs::fstat(&self.0.file)?;
        let has_bytes = u64::try_from(found.st_blocks).unwrap_or(0).saturating_mul(512);
        match self.0.discards.get() {
            true => Ok(()),
            false => check_space(&self.0.path, size_bytes.saturating_sub(has_bytes)),
        }
    }

    /// Makes the file of `size_bytes`, durably, if it is shorter: with all its room, if it is to keep that. What comes
    /// behind its end reads as zeros.
    ///
    /// # Errors
    ///
    /// `StorageFull`; those of the system: then it is as long as it was.
    pub async fn extend(&self, size_bytes: u64) -> io::Result<()> {
        let state = &*self.0;
        let before = self.look_at_size()?;
        if before >= size_bytes {
            return Ok(());
        }
        let extended = self.extend_from(before, size_bytes).await;
        if extended.is_err() {
            let _it_may_be_longer_than_it_needs_to_be = self.cut_back(before);
        } else {
            // Beside the drive: what is written meanwhile does not wait for it.
            let file = state.file.try_clone()?;
            state.event_loop.blocking(move || rustix::fs::fsync(&file)).await??;
            self.look_at_size()?;
        }
        extended
    }

    async fn extend_from(&self, before: u64, size_bytes: u64) -> io::Result<()> {
        let state = &*self.0;
        if !state.discards.get() {
            self.check_room_for(size_bytes)?;
            let added = size_bytes - before;
            state.event_loop.fallocate(&state.file, FallocateFlags::KEEP_SIZE, before, added).await?;
        }
        Ok(rustix::fs::ftruncate(&state.file, size_bytes)?)
    }

    /// Cuts a file off that [`Self::extend`] made longer, of which nothing behind `size_bytes` is used.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn cut_back(&self, size_bytes: u64) -> io::Result<()> {
        let state = &*self.0;
        rustix::fs::ftruncate(&state.file, size_bytes)?;
        state.geometry.set(Geometry { size_bytes, ..state.geometry.get() });
        Ok(())
    }
}
