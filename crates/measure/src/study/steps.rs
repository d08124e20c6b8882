//! What one run does, one step after the other: the dry run shows these steps, the run takes them.
//!
//! 1. Every run begins with a new file system, or with the image of one, and a data set of the same files.
//! 2. What a step writes to is the device that the configuration names, and a folder of this study.

use std::fmt;
use std::path::{Path, PathBuf};

use super::plan::Workload;
use super::plan::space::Configuration;

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Writes a setting of the kernel, as it was again after the run.
    Set(PathBuf, String),
    /// Runs a program that changes the device.
    Run(Vec<String>),
    /// Writes zeros all over the device, so that its image holds nothing of earlier runs.
    Zero,
    /// Copies the device to its image.
    SaveImage(PathBuf),
    /// Copies the image back.
    RestoreImage(PathBuf),
    /// Mounts the device, with the words of the command.
    Mount(Vec<String>),
    /// Unmounts it.
    Unmount,
    /// Makes the data set.
    MakeData,
    /// Writes what the file system has not written yet.
    Sync,
    /// Looks where the data set lies on the device.
    RecordLayout,
    /// Drops clean caches.
    DropCaches,
    /// Lets the workload run.
    Workload,
}

/// Where a run takes place.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The device's node.
    pub node: &'a Path,
    /// The folder to mount it on.
    pub point: &'a Path,
    /// Where the image of this configuration and workload is kept, and whether it is there.
    pub image: Option<(&'a Path, bool)>,
}

/// The steps of one run.
pub fn of_run(configuration: &Configuration, workload: &Workload, place: &Place<'_>) -> Vec<Step> {
    let mut steps = Vec::new();
    for (path, value) in &configuration.options.settings {
        steps.push(Step::Set(setting_path(path, place.node), value.clone()));
    }
    let mount = || Step::Mount(mount_words(configuration, place));
    let has_data = workload.data_bytes().is_some();
    if let Some((image, true)) = place.image {
        steps.extend([Step::RestoreImage(image.to_owned()), mount()]);
    } else {
        if place.image.is_some() {
            steps.push(Step::Zero);
        }
        steps.push(Step::Run(mkfs_words(configuration, place.node)));
        if configuration.remedies.null_hash_seed && configuration.file_system == "ext4" {
            let null = "set_super_value hash_seed null";
            steps.push(Step::Run(words(&["debugfs", "-w", "-R", null], place.node)));
        }
        steps.push(mount());
        if has_data {
            steps.extend([Step::MakeData, Step::Sync]);
        }
        if configuration.remedies.unmount || place.image.is_some() {
            steps.push(Step::Unmount);
            steps.extend(place.image.map(|(image, _)| Step::SaveImage(image.to_owned())));
            steps.push(mount());
        }
    }
    if has_data {
        steps.push(Step::RecordLayout);
    }
    steps.extend([Step::DropCaches, Step::Workload, Step::Unmount]);
    steps
}

fn setting_path(path: &str, node: &Path) -> PathBuf {
    if path.starts_with('/') {
        return path.into();
    }
    // A partition has the queue of its disk; sysfs finds both through the device's name.
    Path::new("/sys/class/block").join(node.file_name().unwrap_or_default()).join(path)
}

fn words(fixed: &[&str], node: &Path) -> Vec<String> {
    fixed.iter().map(|word| (*word).to_owned()).chain([node.display().to_string()]).collect()
}

fn mkfs_words(configuration: &Configuration, node: &Path) -> Vec<String> {
    let program = format!("mkfs.{}", configuration.file_system);
    // Over what an earlier run made, and without discards: a loop device would pass them on, and its file be all holes.
    let mut fixed: Vec<&str> = match configuration.file_system.as_str() {
        "ext4" if configuration.remedies.no_lazy_init => {
            vec!["-F", "-q", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"]
        }
        "ext2" | "ext3" | "ext4" => vec!["-F", "-q", "-E", "nodiscard"],
        "xfs" => vec!["-f", "-q", "-K"],
        "btrfs" => vec!["-f", "-q", "--nodiscard"],
        "f2fs" | "nilfs2" | "bcachefs" => vec!["-f", "-q"],
        "jfs" => vec!["-q"],
        _ => Vec::new(),
    };
    fixed.insert(0, &program);
    fixed.extend(configuration.options.mkfs.iter().map(String::as_str));
    words(&fixed, node)
}

fn mount_words(configuration: &Configuration, place: &Place<'_>) -> Vec<String> {
    let mut options = configuration.options.mount.clone();
    // Btrfs discards on its own since Linux 6.2.
    if configuration.file_system == "btrfs" && !options.iter().any(|option| option.contains("discard")) {
        options.insert(0, "nodiscard".to_owned());
    }
    let joined = options.join(",");
    let mut fixed = vec!["mount", "-t", configuration.file_system.as_str()];
    if !joined.is_empty() {
        fixed.extend(["-o", &joined]);
    }
    let mut words = words(&fixed, place.node);
    words.push(place.point.display().to_string());
    words
}

/// A step as a shell would take it, or in words where it is no command.
#[derive(Debug)]
pub struct Shown<'a>(pub &'a Step, pub &'a Place<'a>, pub &'a Workload);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(step, place, workload) = self;
        let (node, point) = (place.node.display(), place.point.display());
        match step {
            Step::Set(path, value) => write!(out, "echo {} > {}", quoted(value), path.display()),
            Step::Run(words) | Step::Mount(words) => {
                let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
                out.write_str(&words.join(" "))
            }
            Step::Zero => write!(out, "dd if=/dev/zero of={node} bs=4M oflag=direct"),
            Step::SaveImage(image) => write!(out, "dd if={node} of={} bs=4M conv=sparse", image.display()),
            Step::RestoreImage(image) => write!(out, "dd if={} of={node} bs=4M", image.display()),
            Step::Unmount => write!(out, "umount {point}"),
            Step::MakeData => match workload.data_bytes() {
                Some(bytes) => write!(
                    out,
                    "# make the data set of {}, {} in {point}/data",
                    workload.name,
                    crate::report::format::bytes(bytes)
                ),
                None => out.write_str("# the workload makes its own data"),
            },
            Step::Sync => write!(out, "sync --file-system {point}"),
            Step::RecordLayout => write!(out, "# record where the data set lies (FIEMAP)"),
            Step::DropCaches => out.write_str("echo 3 > /proc/sys/vm/drop_caches"),
            Step::Workload => write!(
                out,
                "# run {} for {}",
                workload.name,
                crate::report::format::duration(workload.time_s)
            ),
        }
    }
}

/// The word, in quotes if a shell would not take it as it is.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}
