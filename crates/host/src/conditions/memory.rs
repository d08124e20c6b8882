//! Memory that this process may still take, and whether others wait for some.

use std::cell::Cell;
use std::fs;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use super::field;

/// Where control groups are.
const GROUPS: &str = "/sys/fs/cgroup";

/// Memory of the machine and of each control group that this process is in: what is tightest of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Memory {
    /// Bytes that there are at all.
    pub all_bytes: u64,
    /// Bytes that are free, or would be if they were asked for.
    pub free_bytes: u64,
    /// Share of the last 10 s in which some task waited for memory where little of it was free: of the machine, or within the
    /// bound of a group. 0 where the kernel does not tell.
    pub waited_share: f64,
}

/// Of all memory, what stays free for others,
const SPARED_SHARE: u64 = 16;

/// between these.
const SPARED_BYTES: RangeInclusive<u64> = 64 << 20..=1 << 30;

/// What others are left of so much memory, at least.
pub fn spared_bytes(all_bytes: u64) -> u64 {
    (all_bytes / SPARED_SHARE).clamp(*SPARED_BYTES.start(), *SPARED_BYTES.end())
}

/// Memory of the machine, or within the bound of a group.
struct Level {
    all_bytes: u64,
    free_bytes: u64,
    waited_percent: f64,
}

impl Level {
    /// Tasks may wait for memory of another bound than this one: only where little is free it is this one's.
    fn waited_share(&self) -> f64 {
        let is_tight = self.free_bytes < 2 * spared_bytes(self.all_bytes);
        if is_tight { self.waited_percent / 100.0 } else { 0.0 }
    }
}

/// Names of what a control group tells of its memory.
struct Names {
    /// Bounds, of which the least counts. Where one is no number there is none.
    bounds: &'static [&'static str],
    used: &'static str,
    /// Fields of `memory.stat`: page cache, which can be had back.
    of_files: [&'static str; 2],
}

const VERSION_2: Names = Names {
    bounds: &["memory.max", "memory.high"],
    used: "memory.current",
    of_files: ["active_file", "inactive_file"],
};

const VERSION_1: Names = Names {
    bounds: &["memory.limit_in_bytes"],
    used: "memory.usage_in_bytes",
    of_files: ["total_active_file", "total_inactive_file"],
};

impl Memory {
    /// As it is now; `None` where nobody tells, or something cannot be read for now: a group's bound that is not seen is not one that
    /// is not there.
    pub fn now() -> Option<Self> {
        let is_for_now = Cell::new(false);
        let read = |path: &Path| {
            let text = fs::read_to_string(path);
            let errno = text.as_ref().err().and_then(io::Error::raw_os_error);
            if matches!(errno, Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM)) {
                is_for_now.set(true);
            }
            text.ok()
        };
        let text = |path: &str| read(Path::new(path)).unwrap_or_default();
        let in_group = |file: &Path| read(&Path::new(GROUPS).join(file));
        let own = text("/proc/self/cgroup");
        let memory = Self::of(&text("/proc/meminfo"), &text("/proc/pressure/memory"), &own, in_group);
        memory.filter(|_| !is_for_now.get())
    }

    fn of(machine: &str, pressure: &str, own: &str, read: impl Fn(&Path) -> Option<String>) -> Option<Self> {
        let bytes = |name| field(machine, name).map(|kib| kib as u64 * 1024);
        let machine = bytes("MemTotal:").zip(bytes("MemAvailable:"));
        let machine = machine.map(|(all_bytes, free_bytes)| Level {
            all_bytes,
            free_bytes,
            waited_percent: waited_percent(pressure),
        });
        let of_group = |(group, names): (PathBuf, &Names)| {
            let (all_bytes, used_bytes) = bound_of(&group, names, &read)?;
            let pressure = read(&group.join("memory.pressure")).unwrap_or_default();
            let free_bytes = all_bytes.saturating_sub(used_bytes);
            Some(Level { all_bytes, free_bytes, waited_percent: waited_percent(&pressure) })
        };
        let levels: Vec<Level> = groups(own).into_iter().filter_map(of_group).chain(machine).collect();
        Some(Self {
            all_bytes: levels.iter().map(|level| level.all_bytes).min()?,
            free_bytes: levels.iter().map(|level| level.free_bytes).min()?,
            waited_share: levels.iter().map(Level::waited_share).fold(0.0, f64::max),
        })
    }
}

/// The control groups of `own`, which is as `/proc/self/cgroup`, with those above them. In a container they are those that it
/// sees of them.
fn groups(own: &str) -> Vec<(PathBuf, &'static Names)> {
    let with_above = |below: &'static str, path: &str, names: &'static Names| {
        let path = path.trim_start_matches('/').to_owned();
        let above: Vec<PathBuf> =
            Path::new(&path).ancestors().map(|group| Path::new(below).join(group)).collect();
        above.into_iter().map(move |group| (group, names))
    };
    let mut found = Vec::new();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        if controllers.is_empty() {
            found.extend(with_above("", path, &VERSION_2));
        } else if controllers.split(',').any(|controller| controller == "memory") {
            found.extend(with_above("memory", path, &VERSION_1));
        }
    }
    found
}

/// What a group may take at most, and what it takes that it could not give back; `None` where it has no bound.
fn bound_of(group: &Path, names: &Names, read: impl Fn(&Path) -> Option<String>) -> Option<(u64, u64)> {
    let number = |file: &str| read(&group.join(file))?.trim().parse::<u64>().ok();
    let bound = names.bounds.iter().filter_map(|file| number(file)).min()?;
    let stat = read(&group.join("memory.stat")).unwrap_or_default();
    let of_files = names
        .of_files
        .into_iter()
        .filter_map(|name| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok()));
    Some((bound, number(names.used).unwrap_or(0).saturating_sub(of_files.sum())))
}

/// `avg10` of the line `some`, as in Documentation/accounting/psi.rst of the kernel.
fn waited_percent(pressure: &str) -> f64 {
    let some = pressure.lines().find_map(|line| line.strip_prefix("some "));
    let avg10 = some.and_then(|some| some.split(' ').find_map(|word| word.strip_prefix("avg10=")));
    avg10.and_then(|number| number.parse().ok()).unwrap_or(0.0)
}

/// Bytes that are free or would be if they were asked for: of the machine, and of each control group that this process is in.
/// `None` where nobody tells.
pub fn available_bytes() -> Option<u64> {
    Memory::now().map(|memory| memory.free_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: &str = "MemTotal: 10 kB\nMemFree: 1 kB\nMemAvailable: 5 kB\n";

    fn files(file: &Path) -> Option<String> {
        match file.to_str()? {
            "a.slice/b.service/memory.max" => Some("max\n".to_owned()),
            "a.slice/memory.max" => Some("4000\n".to_owned()),
            "a.slice/memory.high" => Some("3000\n".to_owned()),
            "a.slice/memory.current" => Some("2900\n".to_owned()),
            "a.slice/memory.stat" => Some("anon 1500\nactive_file 400\ninactive_file 1000\n".to_owned()),
            "memory/docker/a/memory.limit_in_bytes" => Some("5000\n".to_owned()),
            "memory/docker/a/memory.usage_in_bytes" => Some("4900\n".to_owned()),
            "memory/docker/a/memory.stat" => Some("active_file 1\ntotal_inactive_file 900\n".to_owned()),
            "memory/docker/memory.limit_in_bytes" => Some(format!("{}\n", i64::MAX / 4096 * 4096)),
            "a.slice/memory.pressure" => {
                Some("some avg10=12.50 avg60=1.00 avg300=0.00 total=7\nfull avg10=99.00\n".to_owned())
            }
            _ => None,
        }
    }

    #[test]
    fn the_tightest_of_the_machine_and_of_all_control_groups_counts() {
        let of = |own| Memory::of(MACHINE, "some avg10=1.00 avg60=0.00\n", own, files);
        let in_group = Memory { all_bytes: 3000, free_bytes: 1500, waited_share: 0.125 };
        assert_eq!(of("1:x:/\n0::/a.slice/b.service\n"), Some(in_group), "page cache can be had back");
        let of_machine = Memory { all_bytes: 10 << 10, free_bytes: 5 << 10, waited_share: 0.01 };
        assert_eq!(of("0::/\n"), Some(of_machine));
        assert_eq!(of(""), Some(of_machine));
        let of_version_1 = Memory { all_bytes: 5000, free_bytes: 1000, waited_share: 0.01 };
        assert_eq!(of("12:cpu,cpuacct:/a\n9:memory:/docker/a\n0::/\n"), Some(of_version_1));
    }

    #[test]
    fn who_waits_where_much_is_free_waits_for_something_else() {
        let waited = |available_kib: u64| {
            let machine = format!("MemTotal: 16777216 kB\nMemAvailable: {available_kib} kB\n");
            Memory::of(&machine, "some avg10=40.00\n", "", |_| None).unwrap().waited_share
        };
        assert_eq!(waited(8 << 20), 0.0, "another group is held at its own bound");
        assert_eq!(waited(1 << 20), 0.4);
    }

    #[test]
    fn who_tells_nothing_is_not_believed() {
        assert_eq!(Memory::of("", "", "", |_| None), None);
        let calm = Memory::of(MACHINE, "", "", |_| Some("nonsense".to_owned())).map(|it| it.waited_share);
        assert_eq!(calm, Some(0.0));
    }

    #[test]
    fn this_machine_tells() {
        let memory = Memory::now().unwrap();
        assert!(memory.all_bytes > memory.free_bytes && memory.free_bytes > 1 << 20, "{memory:?}");
    }
}
