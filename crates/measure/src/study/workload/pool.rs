//! Which files are there, and who holds them.
//!
//! 1. A file that a thread has open or is about to open is never deleted by another. (Filebench deletes it, and the
//!    other thread's next open fails and ends the run.)
//! 2. A file is created by one thread at a time, and opened by others only once it is there.
//! 3. All picks take the same short time, however many files there are, except that a deletion passes over held files.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::tree::Tree;

const NOWHERE: u32 = u32::MAX;

/// The files of a data set during a run.
#[derive(Debug)]
pub struct Pool {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    present: Vec<u32>,
    absent: Vec<u32>,
    /// Where a file stands in `present`.
    places: Vec<u32>,
    holders: Vec<u16>,
}

impl Pool {
    /// As the data set is when it was just made.
    pub fn new(tree: &Tree) -> Self {
        let mut inner = Inner {
            present: Vec::with_capacity(tree.len() as usize),
            absent: Vec::new(),
            places: vec![NOWHERE; tree.len() as usize],
            holders: vec![0; tree.len() as usize],
        };
        for file in 0..tree.len() {
            if tree.is_preallocated(file) {
                inner.add(file);
            } else {
                inner.absent.push(file);
            }
        }
        Self { inner: Mutex::new(inner) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file that is not there, for the caller to create; `draw` says which. Then call [`created`](Self::created).
    pub fn take_absent(&self, draw: u64) -> Option<u32> {
        let mut inner = self.inner();
        let at = pick(draw, inner.absent.len())?;
        Some(inner.absent.swap_remove(at))
    }

    /// The file is there now, and its creator holds it.
    pub fn created(&self, file: u32) {
        let mut inner = self.inner();
        inner.add(file);
        inner.holders[file as usize] += 1;
    }

    /// A file that is there, held until [`release`](Self::release).
    pub fn hold(&self, draw: u64) -> Option<u32> {
        let mut inner = self.inner();
        let file = inner.present[pick(draw, inner.present.len())?];
        inner.holders[file as usize] += 1;
        Some(file)
    }

    /// The caller is done with the file.
    pub fn release(&self, file: u32) {
        self.inner().holders[file as usize] -= 1;
    }

    /// A file that nobody holds, for the caller to delete. Then call [`deleted`](Self::deleted).
    pub fn take_for_deletion(&self, draw: u64) -> Option<u32> {
        let mut inner = self.inner();
        let files = inner.present.len();
        let first = pick(draw, files)?;
        let at = (first..files).chain(0..first).find(|&at| inner.holders[inner.present[at] as usize] == 0)?;
        let file = inner.present.swap_remove(at);
        if let Some(&moved) = inner.present.get(at) {
            inner.places[moved as usize] = at as u32;
        }
        inner.places[file as usize] = NOWHERE;
        Some(file)
    }

    /// The file is gone, and can be created again.
    pub fn deleted(&self, file: u32) {
        self.inner().absent.push(file);
    }

    /// How many files are there.
    pub fn present(&self) -> usize {
        self.inner().present.len()
    }
}

impl Inner {
    fn add(&mut self, file: u32) {
        self.places[file as usize] = self.present.len() as u32;
        self.present.push(file);
    }
}

/// An index below `len`, from a number of 64 random bits.
fn pick(draw: u64, len: usize) -> Option<usize> {
    (len > 0).then(|| ((u128::from(draw) * len as u128) >> 64) as usize)
}
