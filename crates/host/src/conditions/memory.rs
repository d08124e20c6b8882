//! Memory that this process may still take.

use std::fs;
use std::path::{Path, PathBuf};

use super::field;

/// Where control groups are.
const GROUPS: &str = "/sys/fs/cgroup";

/// Bytes that are free or would be if they were asked for: of the machine, and of each control group that this process is in.
/// `None` where nobody tells.
pub fn available_bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let machine = field(&machine, "MemAvailable:").map(|kib| kib as u64 * 1024);
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    least(machine, &own, |file| fs::read_to_string(Path::new(GROUPS).join(file)).ok())
}

fn least(machine: Option<u64>, own: &str, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let group = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let number = |group: &Path, file: &str| read(&group.join(file))?.trim().parse::<u64>().ok();
    let free = Path::new(group).ancestors().map(PathBuf::from).filter_map(|group| {
        // "max" is no number: there is no bound.
        let bound = number(&group, "memory.max")?;
        Some(bound.saturating_sub(number(&group, "memory.current").unwrap_or(0)))
    });
    free.chain(machine).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_the_machine_and_of_all_control_groups_counts() {
        let files = |file: &Path| match file.to_str()? {
            "a.slice/b.service/memory.max" => Some("max\n".to_owned()),
            "a.slice/memory.max" => Some("1000\n".to_owned()),
            "a.slice/memory.current" => Some("400\n".to_owned()),
            _ => None,
        };
        assert_eq!(least(Some(5000), "1:x:/\n0::/a.slice/b.service\n", files), Some(600));
        assert_eq!(least(Some(500), "0::/a.slice/b.service\n", files), Some(500));
        assert_eq!(least(Some(5000), "0::/\n", files), Some(5000));
        assert_eq!(least(None, "", |_| None), None);
    }

    #[test]
    fn this_machine_tells() {
        assert!(available_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
