//! A bound on the memory of a program, its page cache included: a control group.
//!
//! Version 2 where it has the memory controller (`memory.max`), else version 1 (`memory.limit_in_bytes`). A group of
//! version 2 stands below the root, where the kernel lets groups have processes and children side by side.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::mounts;

/// How often a group's removal is tried: its last process may still be going.
const REMOVALS_MAX: u32 = 50;

/// A group, removed when this is dropped.
#[derive(Debug)]
pub struct MemoryBound {
    folder: PathBuf,
    peak: &'static str,
}

/// A file of a group, and what is written to it.
type Setting = (&'static str, String);

impl MemoryBound {
    /// A new group of this name whose processes together have so many bytes.
    ///
    /// # Errors
    ///
    /// Where this machine, or the container that this runs in, has no such groups to give.
    pub fn new(name: &str, bytes: u64) -> io::Result<Self> {
        let second = Self::of_version_2(name, bytes);
        second.or_else(|second| Self::of_version_1(name, bytes).map_err(|first| more_telling(second, first)))
    }

    fn of_version_2(name: &str, bytes: u64) -> io::Result<Self> {
        let root = mounts::first_of("cgroup2", None)?;
        if !fs::read_to_string(root.join("cgroup.controllers"))?.split_whitespace().any(|one| one == "memory")
        {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "cgroup2 has no memory controller here"));
        }
        fs::write(root.join("cgroup.subtree_control"), "+memory")?;
        let settings = [("memory.max", bytes.to_string()), ("memory.swap.max", "0".to_owned())];
        Self::made(root.join(name), "memory.peak", &settings)
    }

    fn of_version_1(name: &str, bytes: u64) -> io::Result<Self> {
        let root = mounts::first_of("cgroup", Some("memory"))?;
        let settings = [("memory.limit_in_bytes", bytes.to_string())];
        let table = fs::read_to_string("/proc/self/cgroup")?;
        let own = own_group(&table).unwrap_or(Path::new(""));
        let nested = Self::made(root.join(own).join(name), "memory.max_usage_in_bytes", &settings);
        nested.or_else(|_| Self::made(root.join(name), "memory.max_usage_in_bytes", &settings))
    }

    fn made(folder: PathBuf, peak: &'static str, settings: &[Setting]) -> io::Result<Self> {
        fs::create_dir(&folder)?;
        let group = Self { folder, peak };
        for (at, (file, value)) in settings.iter().enumerate() {
            match fs::write(group.folder.join(file), value) {
                // The first is the bound; a kernel without swap lacks the second.
                Err(error) if at == 0 => return Err(error),
                _ => {}
            }
        }
        Ok(group)
    }

    /// Puts a process into it; what it starts from then on is in it too.
    ///
    /// # Errors
    ///
    /// Those of the kernel.
    pub fn add(&self, process: u32) -> io::Result<()> {
        fs::write(self.folder.join("cgroup.procs"), process.to_string())
    }

    /// The most memory that it had, in bytes, if the kernel keeps that.
    pub fn peak_bytes(&self) -> Option<u64> {
        fs::read_to_string(self.folder.join(self.peak)).ok()?.trim().parse().ok()
    }
}

impl Drop for MemoryBound {
    fn drop(&mut self) {
        for _ in 0..REMOVALS_MAX {
            match fs::remove_dir(&self.folder) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    thread::sleep(Duration::from_millis(20));
                }
                _ => return,
            }
        }
    }
}

/// Where this process stands in the hierarchy of the memory controller of version 1.
fn own_group(table: &str) -> Option<&Path> {
    let line = table.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        fields.next()?.split(',').any(|controller| controller == "memory").then(|| fields.next())?
    })?;
    Some(Path::new(line.trim_start_matches('/')))
}

fn more_telling(second: io::Error, first: io::Error) -> io::Error {
    let absent =
        |error: &io::Error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::Unsupported);
    if absent(&first) { second } else { first }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_the_memory_controller_is_found() {
        let table = "9:name=systemd:/\n4:cpuset,memory:/a/b\n0::/x\n";
        assert_eq!(own_group(table), Some(Path::new("a/b")));
        assert_eq!(own_group("0::/x\n"), None);
        assert_eq!(own_group(""), None);
    }
}
