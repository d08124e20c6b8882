//! A setting of the kernel, in a file below `/sys` or `/proc/sys`, that is as it was once this is dropped.

use std::fs;
use std::io;
use std::path::Path;

use crate::undo::Undo;

/// The setting.
#[derive(Debug)]
pub struct KernelSetting(#[expect(dead_code, reason = "held for its drop")] Undo);

impl KernelSetting {
    /// Writes `value` to the file.
    ///
    /// # Errors
    ///
    /// Those of reading what is there and of writing.
    pub fn set(path: &Path, value: &str) -> io::Result<Self> {
        let set = || {
            let before = chosen(&fs::read_to_string(path)?);
            fs::write(path, value)?;
            Ok::<_, io::Error>(before)
        };
        let (undo, _) = Undo::make(set, |before| {
            let (path, before) = (path.to_owned(), before.clone());
            Box::new(move || {
                // A device that is gone has no settings.
                let _gone_already_is_fine = fs::write(path, before);
            })
        })?;
        Ok(Self(undo))
    }
}

/// Drops what the page cache and the caches of names hold and nobody has changed.
///
/// # Errors
///
/// Where that may not be asked for.
pub fn drop_caches() -> io::Result<()> {
    fs::write("/proc/sys/vm/drop_caches", "3")
}

/// What a file of several choices has in brackets; all of it, where it has none.
fn chosen(text: &str) -> String {
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(text.trim(), |(inside, _)| inside).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_as_it_was_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scheduler");
        fs::write(&path, "none [bfq] kyber\n").unwrap();
        let setting = KernelSetting::set(&path, "none").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "none");
        drop(setting);
        assert_eq!(fs::read_to_string(&path).unwrap(), "bfq");
        fs::write(&path, "128\n").unwrap();
        drop(KernelSetting::set(&path, "64").unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "128");
        assert!(KernelSetting::set(&folder.path().join("missing"), "1").is_err());
    }
}
