//! What a factor's value changes: options of mkfs and mount, and settings of the kernel.

use super::values;
use crate::quantity;

/// The file of a device that names its I/O scheduler.
pub const SCHEDULER: &str = "queue/scheduler";

/// What one value, or a whole configuration, changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Arguments of mkfs.
    pub mkfs: Vec<String>,
    /// Options of mount.
    pub mount: Vec<String>,
    /// Files of the kernel and what is written to them: from `/sys` or `/proc/sys`, or relative to the device's folder in
    /// `/sys/block`.
    pub settings: Vec<(String, String)>,
}

impl Options {
    /// Adds those of another.
    pub(super) fn add(&mut self, other: Self) {
        self.mkfs.extend(other.mkfs);
        self.mount.extend(other.mount);
        self.settings.extend(other.settings);
    }
}

/// What is done against variation (section 5.2 of Cao et al., On the Performance Variation in Modern Storage Stacks,
/// FAST '17).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remedies {
    /// ext4 is initialized in full by mkfs, not in the background after the mount.
    pub no_lazy_init: bool,
    /// The file system is unmounted after the data set was made, and mounted again; without it there is only a sync.
    pub unmount: bool,
    /// The device is copied once its first data set is made, and restored from the copy for the other runs.
    pub restore_image: bool,
    /// ext4's hash seed is null, so that folders land in the same block groups each time.
    pub null_hash_seed: bool,
}

impl Default for Remedies {
    fn default() -> Self {
        Self { no_lazy_init: false, unmount: true, restore_image: false, null_hash_seed: false }
    }
}

impl Remedies {
    /// Those that a value of the factor `remedies` names: `none`, or names joined by `+`.
    pub(super) fn named(text: &str) -> Result<Self, String> {
        let mut found =
            Self { no_lazy_init: false, unmount: false, restore_image: false, null_hash_seed: false };
        for name in text.split('+').filter(|&name| name != "none") {
            match name {
                "no_lazy_init" => found.no_lazy_init = true,
                "unmount" => found.unmount = true,
                "restore_image" => found.restore_image = true,
                "null_hash_seed" => found.null_hash_seed = true,
                _ => {
                    return Err(format!(
                        "`{name}` is no remedy: none, or no_lazy_init, unmount, restore_image and null_hash_seed, \
                         joined by +"
                    ));
                }
            }
        }
        Ok(found)
    }
}

/// What a value of one of the [`KNOWN`](values::KNOWN) factors changes in a file system; `None` where the factor is unknown or the file
/// system does not have it.
pub(super) fn known(factor: &str, file_system: &str, value: &str) -> Option<Result<Options, String>> {
    let mkfs =
        |flag: &str, text: String| Ok(Options { mkfs: vec![flag.to_owned(), text], ..Options::default() });
    let mount = |text: String| Ok(Options { mount: vec![text], ..Options::default() });
    let bytes = || quantity::size(value);
    if !values::is_of(factor, file_system) {
        return None;
    }
    if let Err(what) = values::check(factor, file_system, value) {
        return Some(Err(what));
    }
    Some(match (factor, file_system) {
        ("block_size", "ext4") => bytes().and_then(|bytes| mkfs("-b", bytes.to_string())),
        ("block_size", "xfs") => bytes().and_then(|bytes| mkfs("-b", format!("size={bytes}"))),
        ("block_size", "btrfs") => bytes().and_then(|bytes| mkfs("-n", bytes.to_string())),
        ("inode_size", "ext4") => bytes().and_then(|bytes| mkfs("-I", bytes.to_string())),
        ("inode_size", "xfs") => bytes().and_then(|bytes| mkfs("-i", format!("size={bytes}"))),
        ("journal_mode", "ext4") if value == "none" => mkfs("-O", "^has_journal".to_owned()),
        ("journal_mode", "ext4") => mount(format!("data={value}")),
        ("allocation_groups", "xfs") => mkfs("-d", format!("agcount={value}")),
        ("nodatacow" | "nodatasum", "btrfs") if value == "on" => mount(factor.to_owned()),
        ("atime", _) => mount(value.to_owned()),
        ("io_scheduler", _) => {
            Ok(Options { settings: vec![(SCHEDULER.to_owned(), value.to_owned())], ..Options::default() })
        }
        _ => Ok(Options::default()),
    })
}

/// Whether templates have a place for the value; a setting that is named without a text has one.
pub(super) fn has_value(mkfs: &str, mount: &str, sysfs: &str) -> bool {
    let is_open = |setting: &str| !setting.contains('=') || setting.contains("{}");
    mkfs.contains("{}") || mount.contains("{}") || sysfs.split_whitespace().any(is_open)
}

/// The options of a template, `{}` in it being the value.
pub(super) fn filled(mkfs: &str, mount: &str, sysfs: &str, value: &str) -> Result<Options, String> {
    let fill = |text: &str| text.replace("{}", value);
    let mut options = Options::default();
    options.mkfs.extend(fill(mkfs).split_whitespace().map(str::to_owned));
    let mount = fill(mount);
    options.mount.extend(mount.split(',').filter(|option| !option.is_empty()).map(str::to_owned));
    for setting in sysfs.split_whitespace() {
        let (path, text) = setting.split_once('=').unwrap_or((setting, "{}"));
        let absolute = ["/sys/", "/proc/sys/"].iter().any(|root| path.starts_with(root));
        if path.contains("..") || (path.starts_with('/') && !absolute) {
            return Err(format!(
                "sysfs = \"{path}\": name a file below /sys or /proc/sys, or one of the device such as queue/nr_requests"
            ));
        }
        options.settings.push((path.to_owned(), fill(text)));
    }
    Ok(options)
}
