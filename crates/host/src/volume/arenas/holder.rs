//! Which process has locked a file.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt;

use rustix::fs::{FlockOperation, flock, major, minor};

/// Who has locked a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::volume) enum Holder {
    /// Nobody.
    Nobody,
    /// A process, by its number.
    Process(u32),
    /// One that is not seen from here, as of another PID namespace.
    Unknown,
}

/// Who has locked `file`. The kernel's list is asked first; the lock itself is only tried where that says nothing.
pub(in crate::volume) fn holder(file: &File) -> Holder {
    let named =
        file.metadata().ok().and_then(|found| named(&fs::read_to_string("/proc/locks").ok()?, &found));
    if let Some(process) = named {
        return Holder::Process(process);
    }
    match flock(file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            let _it_is_closed_soon = flock(file, FlockOperation::Unlock);
            Holder::Nobody
        }
        Err(_) => Holder::Unknown,
    }
}

/// The process that `locks`, as `/proc/locks` has them, name for a file (proc_locks(5)).
fn named(locks: &str, file: &Metadata) -> Option<u32> {
    let place = format!("{:02x}:{:02x}:{}", major(file.dev()), minor(file.dev()), file.ino());
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        match fields[..] {
            [_, "FLOCK", _, _, process, found, ..] if found == place => {
                process.parse().ok().filter(|&id| id > 0)
            }
            // Others (`->`) wait for one.
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_a_lock_is_found_and_who_waits_for_it_or_holds_another_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = File::create(&path).unwrap();
        let found = file.metadata().unwrap();
        let place = format!("{:02x}:{:02x}:{}", major(found.dev()), minor(found.dev()), found.ino());
        for (line, process) in [
            (format!("1: FLOCK  ADVISORY  WRITE 4711 {place} 0 EOF"), Some(4711)),
            (format!("1: -> FLOCK  ADVISORY  WRITE 4711 {place} 0 EOF"), None),
            (format!("1: POSIX  ADVISORY  WRITE 4711 {place} 0 EOF"), None),
            (format!("1: FLOCK  ADVISORY  WRITE 4711 {place}1 0 EOF"), None),
            (format!("1: FLOCK  ADVISORY  WRITE 0 {place} 0 EOF"), None),
            (String::from("1: FLOCK"), None),
        ] {
            assert_eq!(named(&line, &found), process, "{line}");
        }
        assert_eq!(holder(&file), Holder::Nobody);
        let other = File::open(&path).unwrap();
        flock(&other, FlockOperation::LockExclusive).unwrap();
        assert!(
            matches!(holder(&file), Holder::Process(id) if id == std::process::id())
                || holder(&file) == Holder::Unknown
        );
        drop(other);
        assert_eq!(holder(&file), Holder::Nobody);
    }
}
