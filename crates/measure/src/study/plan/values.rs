//! Which values the factors have that evenkeel knows by itself.
//!
//! What mkfs, mount or the kernel would refuse in every case is refused here, in a line that names what there is. What
//! depends on versions or the machine is left to them.

use crate::quantity;

/// The factors whose options evenkeel knows by itself.
pub(super) const KNOWN: [&str; 10] = [
    "file_system",
    "block_size",
    "inode_size",
    "journal_mode",
    "allocation_groups",
    "nodatacow",
    "nodatasum",
    "atime",
    "io_scheduler",
    "device",
];
/// The file systems that can be studied: those of Linux that are made on one device and hold files of any name.
pub(super) const FILE_SYSTEMS: [&str; 9] =
    ["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "bcachefs", "nilfs2", "jfs"];
const JOURNAL_MODES: [&str; 4] = ["ordered", "writeback", "journal", "none"];
const SWITCH: [&str; 2] = ["on", "off"];
/// Options of mount(8) that say when the time of the last access is written.
const ACCESS_TIMES: [&str; 5] = ["relatime", "noatime", "strictatime", "nodiratime", "lazytime"];
const SCHEDULERS: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq"];
/// Those of the block layer with a single queue, which Linux 5.0 removed.
const GONE_SCHEDULERS: [&str; 4] = ["noop", "deadline", "cfq", "anticipatory"];
/// An allocation group of XFS has 16 MiB at least.
const ALLOCATION_GROUP_BYTES_MIN: u64 = 16 << 20;
const MIB: u64 = 1 << 20;

/// Whether a file system has a factor of these.
pub(super) fn is_of(factor: &str, file_system: &str) -> bool {
    match owners(factor) {
        Some(owners) => owners.is_empty() || owners.contains(&file_system),
        None => false,
    }
}

/// The file systems that have a factor, none for all of them; `None` where the factor is not known.
pub(super) fn owners(factor: &str) -> Option<&'static [&'static str]> {
    Some(match factor {
        "block_size" => &["ext4", "xfs", "btrfs"],
        "inode_size" => &["ext4", "xfs"],
        "journal_mode" => &["ext4"],
        "allocation_groups" => &["xfs"],
        "nodatacow" | "nodatasum" => &["btrfs"],
        "file_system" | "atime" | "io_scheduler" | "device" => &[],
        _ => return None,
    })
}

/// The values that a factor has, in words; `None` where any text may be one.
pub(super) fn allowed(factor: &str, file_system: &str) -> Option<String> {
    Some(match (factor, file_system) {
        ("block_size", "btrfs") => "a power of two from 4k to 64k".to_owned(),
        ("block_size", _) => "a power of two from 1k to 64k".to_owned(),
        ("inode_size", "ext4") => "a power of two from 128 to 64k, no larger than a block".to_owned(),
        ("inode_size", _) => "512, 1k or 2k".to_owned(),
        ("allocation_groups", _) => "a whole number of 2 at least".to_owned(),
        ("file_system", _) => any_of(&FILE_SYSTEMS),
        ("journal_mode", _) => any_of(&JOURNAL_MODES),
        ("nodatacow" | "nodatasum", _) => any_of(&SWITCH),
        ("atime", _) => any_of(&ACCESS_TIMES),
        ("io_scheduler", _) => any_of(&SCHEDULERS),
        ("device", _) => "loop, or the path of a block device".to_owned(),
        _ => return None,
    })
}

/// Words as a sentence has them: `a, b and c`.
pub(super) fn listed(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn any_of(values: &[&str]) -> String {
    format!("one of {}", listed(values))
}

/// Fails where a factor has no such value in a file system, with a line that says which it has.
pub(super) fn check(factor: &str, file_system: &str, value: &str) -> Result<(), String> {
    let is_power = |least: u64, most: u64| {
        quantity::size(value).is_ok_and(|bytes| bytes.is_power_of_two() && (least..=most).contains(&bytes))
    };
    let is_allowed = match (factor, file_system) {
        ("block_size", "btrfs") => is_power(4096, 65536),
        ("block_size", _) => is_power(1024, 65536),
        ("inode_size", "ext4") => is_power(128, 65536),
        ("inode_size", _) => is_power(512, 2048),
        ("allocation_groups", _) => value.parse::<u32>().is_ok_and(|count| count >= 2),
        ("file_system", _) => FILE_SYSTEMS.contains(&value),
        ("journal_mode", _) => JOURNAL_MODES.contains(&value),
        ("nodatacow" | "nodatasum", _) => SWITCH.contains(&value),
        ("atime", _) => ACCESS_TIMES.contains(&value),
        // The kernel says itself which others it offers, when the study begins.
        ("io_scheduler", _) => !GONE_SCHEDULERS.contains(&value) && !value.is_empty(),
        ("device", _) => value == "loop" || value.starts_with("/dev/"),
        _ => true,
    };
    if is_allowed {
        return Ok(());
    }
    let of = if owners(factor).is_some_and(|owners| owners.len() > 1) {
        format!(" of {file_system}")
    } else {
        String::new()
    };
    let since = if GONE_SCHEDULERS.contains(&value) { " (gone since Linux 5.0)" } else { "" };
    let allowed = allowed(factor, file_system).unwrap_or_default();
    Err(format!("`{value}` is no {factor}{of}{since}: it is {allowed}"))
}

/// The fewest bytes that a file system is made on.
pub(super) fn bytes_min(file_system: &str) -> u64 {
    match file_system {
        // Those of mkfs.xfs since 5.19, and of mkfs.btrfs with its usual profiles.
        "xfs" => 300 * MIB,
        "btrfs" => 114_294_784,
        _ => MIB,
    }
}

/// The most allocation groups that so many bytes have room for.
pub(super) fn allocation_groups_max(bytes: u64) -> u64 {
    bytes / ALLOCATION_GROUP_BYTES_MIN
}
