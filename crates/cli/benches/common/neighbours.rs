//! What a neighbour in the same file system does: it writes a large file, or has many small ones to remove.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use crate::Outcome;

/// Writes a file of `mib` MiB.
pub(crate) fn write_file(at: &Path, mib: usize, syncs: bool) -> Outcome {
    let bytes = vec![0xa5; 1 << 20];
    let written = File::create(at).and_then(|mut file| {
        (0..mib).try_for_each(|_| file.write_all(&bytes))?;
        if syncs { file.sync_all() } else { Ok(()) }
    });
    written.map_err(|error| format!("{}: {error}", at.display()))
}

/// Makes small files, a thousand in each folder.
pub(crate) fn make_many(at: &Path, count: usize) -> Outcome {
    let made = (0..count).try_for_each(|number| {
        let folder = at.join((number / 1000).to_string());
        if number % 1000 == 0 {
            fs::create_dir_all(&folder)?;
        }
        fs::write(folder.join(number.to_string()), [0x33; 100])
    });
    made.map_err(|error| format!("{}: {error}", at.display()))
}
