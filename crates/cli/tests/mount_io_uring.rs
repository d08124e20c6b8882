//! A mounted file system whose requests come over io_uring: as by the device, killed and mounted again.

mod support;

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;

use evenkeel_host::program::is_root;

use support::mounted::{
    FLAGS, MountedVolume, a_tree_comes_back, judge, possible, what_is_synced_survives_kills,
};
use support::served::Volume;
use support::{Scene, says, skip};

/// Whether the kernel offers it to those who mount.
const ENABLED: &str = "/sys/module/fuse/parameters/enable_uring";

/// The kernel offers it meanwhile.
struct Enabled {
    was: String,
}

impl Enabled {
    /// Why it cannot be had here, if so.
    fn for_now() -> Result<Self, String> {
        possible()?;
        let was = fs::read_to_string(ENABLED).map_err(|error| format!("{ENABLED}: {error}"))?;
        if was.trim() != "Y" && !is_root() {
            return Err(format!("{ENABLED} is `{}`, and only root can change that", was.trim()));
        }
        let enabled = Self { was };
        enabled.set("Y");
        Ok(enabled)
    }

    fn set(&self, value: &str) {
        if self.was.trim() != "Y" {
            fs::write(ENABLED, value).unwrap();
        }
    }
}

impl Drop for Enabled {
    fn drop(&mut self) {
        let was = self.was.trim().to_owned();
        self.set(&was);
    }
}

/// Requests of the kernel that the process `pid` has read from the device so far: its system calls that read.
fn reads(pid: u32) -> u64 {
    let counts = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("io")).unwrap();
    let line = counts.lines().find_map(|line| line.strip_prefix("syscr: ")).unwrap();
    line.parse().unwrap()
}

// One test, as what it sets is the machine's.
#[test]
fn requests_come_over_io_uring_where_the_kernel_offers_it_and_are_answered_as_by_the_device() {
    const NAME: &str =
        "requests_come_over_io_uring_where_the_kernel_offers_it_and_are_answered_as_by_the_device";
    let enabled = match Enabled::for_now() {
        Ok(enabled) => enabled,
        Err(why) => return skip(NAME, &why),
    };
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    for (flags, over_device) in
        [("--transport io-uring", false), ("-o transport=io-uring", false), ("", true)]
    {
        let mounted = MountedVolume::mount(&volume, flags);
        let before = reads(mounted.server.pid());
        for number in 0..100 {
            fs::write(mounted.at(&format!("{number}")), [7; 1000]).unwrap();
        }
        let read = reads(mounted.server.pid()) - before;
        assert_eq!(read > 100, over_device, "{flags}: {read} reads");
        mounted.stop();
    }
    judge(&volume);

    // Who holds a file open through the end is told so, and does not wait for ever.
    let mounted = MountedVolume::mount(&volume, "--transport io-uring");
    let mut held = fs::File::create(mounted.at("held")).unwrap();
    held.write_all(b"synced").and_then(|()| held.sync_all()).unwrap();
    mounted.stop();
    // The kernel takes the process's ring apart behind its end: a call until then is under way.
    let told = held.write_all(b"lost").unwrap_err();
    assert!(matches!(told.kind(), ErrorKind::NotConnected | ErrorKind::ConnectionAborted), "{told}");
    drop(held);
    judge(&volume);

    a_tree_comes_back("--transport io-uring");
    // More than there are slots: the others wait in the kernel.
    what_is_synced_survives_kills("--transport io-uring", 300);

    drop(enabled);
    if fs::read_to_string(ENABLED).unwrap().trim() != "Y" {
        says(
            &scene.refused("mount disk mnt --transport io-uring"),
            &["requests cannot come over io_uring", "echo Y > /sys/module/fuse/parameters/enable_uring"],
        );
    }
}
