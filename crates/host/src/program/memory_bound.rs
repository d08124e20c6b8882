//! A bound on the memory of a program, its page cache included: a control group.
//!
//! Version 2 where it has the memory controller (`memory.max`), else version 1 (`memory.limit_in_bytes`). A group of
//! version 2 stands below the root, where the kernel lets groups have processes and children side by side.
//!
//! A group is removed when its bound is dropped and when a second signal ends this process. What a process that was killed
//! left is found by its name: [`remove_leftovers`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::stack::mounts;
use crate::undo::Undo;

/// How often a group's removal is tried: its last process may still be going.
const REMOVALS_MAX: u32 = 50;
/// How deep leftovers are looked for below the root of a hierarchy.
const DEPTH_MAX: u32 = 8;

/// A group, removed when this is dropped.
#[derive(Debug)]
pub struct MemoryBound {
    folder: PathBuf,
    files: Files,
    _undo: Undo,
}

/// The files of a group that say what came of it.
#[derive(Debug, Clone, Copy)]
struct Files {
    peak: &'static str,
    kills: &'static str,
}

const OF_VERSION_2: Files = Files { peak: "memory.peak", kills: "memory.events" };
const OF_VERSION_1: Files = Files { peak: "memory.max_usage_in_bytes", kills: "memory.oom_control" };

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
        Self::made(root.join(name), OF_VERSION_2, &settings)
    }

    fn of_version_1(name: &str, bytes: u64) -> io::Result<Self> {
        let root = mounts::first_of("cgroup", Some("memory"))?;
        let settings = [("memory.limit_in_bytes", bytes.to_string())];
        let table = fs::read_to_string("/proc/self/cgroup")?;
        let own = own_group(&table).unwrap_or(Path::new(""));
        let nested = Self::made(root.join(own).join(name), OF_VERSION_1, &settings);
        nested.or_else(|_| Self::made(root.join(name), OF_VERSION_1, &settings))
    }

    fn made(folder: PathBuf, files: Files, settings: &[Setting]) -> io::Result<Self> {
        let make = || fs::create_dir(&folder);
        let (undo, ()) = Undo::make(make, |()| {
            let folder = folder.clone();
            Box::new(move || remove(&folder))
        })?;
        let group = Self { folder, files, _undo: undo };
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
        fs::read_to_string(self.folder.join(self.files.peak)).ok()?.trim().parse().ok()
    }

    /// How many processes were killed since they needed more memory than there is, as far as the kernel tells.
    pub fn kills(&self) -> u64 {
        let text = fs::read_to_string(self.folder.join(self.files.kills)).unwrap_or_default();
        kills_of(&text).unwrap_or(0)
    }
}

/// `oom_kill`, of the keys and values of a file.
fn kills_of(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// Removes a group once its processes have gone.
fn remove(folder: &Path) {
    for _ in 0..REMOVALS_MAX {
        match fs::remove_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                thread::sleep(Duration::from_millis(20));
            }
            _ => return,
        }
    }
}

/// Removes the groups whose names begin so, which a process that was killed left, and kills what still runs in them.
pub fn remove_leftovers(prefix: &str) {
    let roots = [mounts::first_of("cgroup2", None), mounts::first_of("cgroup", Some("memory"))];
    for root in roots.into_iter().flatten() {
        let mut found = Vec::new();
        find(&root, prefix, DEPTH_MAX, &mut found);
        for group in found {
            kill_all(&group);
            remove(&group);
        }
    }
}

fn find(folder: &Path, prefix: &str, depth: u32, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            found.push(entry.path());
        } else if depth > 0 {
            find(&entry.path(), prefix, depth - 1, found);
        }
    }
}

fn kill_all(group: &Path) {
    let processes = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    for process in processes.lines().filter_map(|line| line.trim().parse().ok()) {
        if let Some(process) = Pid::from_raw(process) {
            let _gone_already_is_fine = kill_process(process, Signal::KILL);
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
    use crate::skipped::skip;

    #[test]
    fn the_group_of_the_memory_controller_is_found() {
        let table = "9:name=systemd:/\n4:cpuset,memory:/a/b\n0::/x\n";
        assert_eq!(own_group(table), Some(Path::new("a/b")));
        assert_eq!(own_group("0::/x\n"), None);
        assert_eq!(own_group(""), None);
    }

    #[test]
    fn what_the_bound_killed_is_counted() {
        assert_eq!(kills_of("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), Some(3));
        assert_eq!(kills_of("low 0\nhigh 0\nmax 17\noom 2\noom_kill 1\noom_group_kill 0\n"), Some(1));
        assert_eq!(kills_of("oom_kill_disable 0\n"), None);
    }

    #[test]
    fn a_group_that_a_killed_process_left_is_removed_with_what_runs_in_it() {
        const NAME: &str = "a_group_that_a_killed_process_left_is_removed_with_what_runs_in_it";
        let prefix = format!("evenkeel-test-{}-", std::process::id());
        let bound = match MemoryBound::new(&format!("{prefix}1"), 64 << 20) {
            Ok(bound) => bound,
            Err(error) => return skip(NAME, &format!("no control group: {error}")),
        };
        let mut left = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        bound.add(left.id()).unwrap();
        assert_eq!(bound.kills(), 0);
        let folder = bound.folder.clone();
        // As if this process had been killed.
        std::mem::forget(bound);
        remove_leftovers(&format!("{prefix}2"));
        assert!(folder.exists(), "it is another's");
        remove_leftovers(&prefix);
        assert!(!folder.exists());
        assert!(!left.wait().unwrap().success());
    }
}
