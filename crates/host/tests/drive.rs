//! Drives over files, over block devices where there is one to be had, and the simulated one: one contract.

mod support;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use evenkeel_engine::device::{Device, Durability, Extent, FlushScope, Geometry};
use evenkeel_host::drive::{DriveOptions, DurableWay, FileDrive, Fill};
use evenkeel_host::event_loop::Loop;
use evenkeel_sim::cuts::Cuts;
use evenkeel_sim::drive::{DriveOptions as SimOptions, SimDrive};
use evenkeel_sim::executor::Executor;
use evenkeel_sim::image::Image;
use support::contract::a_device_keeps_its_word;
use support::{begin_and_drop, loops, skipped};

const SIZE: u64 = 8 << 20;

async fn create(event_loop: &Loop, path: &Path, fill: Fill, options: DriveOptions) -> FileDrive {
    FileDrive::create(event_loop, path, SIZE, fill, options, |_, _| ()).await.unwrap()
}

/// Does not wait for what is in use.
fn hasty() -> DriveOptions {
    DriveOptions { busy_timeout: Duration::ZERO, ..DriveOptions::default() }
}

/// Runs a test on each kind of event loop, with a path in a folder that is gone afterwards.
fn on_each_loop(test: impl AsyncFn(Loop, PathBuf)) {
    for event_loop in loops() {
        let folder = tempfile::tempdir_in(".").unwrap();
        event_loop.block_on(test(event_loop.handle(), folder.path().join("drive")));
    }
}

#[test]
fn the_simulated_drive_keeps_its_word() {
    for sector_bytes in [512, 4096] {
        let mut executor = Executor::new(7);
        let geometry = Geometry { size_bytes: SIZE, sector_bytes, atomic_sectors: false };
        let image = Image::shared(geometry);
        let drive = SimDrive::open(image, executor.env(), Cuts::none(executor.stop()), SimOptions::default());
        executor.block_on(a_device_keeps_its_word(&drive)).unwrap();
    }
}

#[test]
fn drives_over_files_keep_their_word_however_they_write() {
    for event_loop in loops() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let mut ways = vec![];
        for durable_way in [Some(DurableWay::Dsync), Some(DurableWay::Linked)] {
            for direct in [true, false] {
                ways.push(DriveOptions { durable_way, direct, ..DriveOptions::default() });
            }
        }
        // So little memory that calls wait for one another.
        ways.push(DriveOptions { pool_bytes: 0, ..DriveOptions::default() });
        for (number, options) in ways.into_iter().enumerate() {
            let path = folder.path().join(number.to_string());
            event_loop.block_on(async {
                let drive = create(&event_loop.handle(), &path, Fill::Reserved, options).await;
                assert!(options.direct || !drive.is_direct());
                a_device_keeps_its_word(&drive).await;
            });
        }
    }
}

#[test]
fn a_file_system_in_memory_is_written_too() {
    for event_loop in loops() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        event_loop.block_on(async {
            let path = folder.path().join("drive");
            let drive = create(&event_loop.handle(), &path, Fill::Written, DriveOptions::default()).await;
            a_device_keeps_its_word(&drive).await;
        });
    }
}

/// A loop device over a file, gone with its guard.
struct LoopDevice(String);

impl LoopDevice {
    fn over(file: &Path, sector_bytes: u32) -> Option<Self> {
        let size = sector_bytes.to_string();
        let made = Command::new("losetup")
            .args(["--find", "--show", "--direct-io=on", "--sector-size", &size])
            .arg(file)
            .output()
            .ok()?;
        made.status.success().then(|| Self(String::from_utf8(made.stdout).unwrap().trim().to_owned()))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _leaves_it = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_block_device_keeps_its_word_and_is_held_by_one() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let path = folder.path().join("disk");
    fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
    for sector_bytes in [512, 4096] {
        let Some(device) = LoopDevice::over(&path, sector_bytes) else {
            return skipped("block_device", "no loop devices here");
        };
        for event_loop in loops() {
            let env = event_loop.handle();
            let open = |options| FileDrive::open(&env, Path::new(&device.0), options);
            let drive = open(DriveOptions::default()).unwrap();
            assert!(drive.is_block_device() && drive.is_direct());
            assert_eq!(drive.geometry().size_bytes, SIZE);
            assert!(drive.geometry().sector_bytes >= sector_bytes);
            event_loop.block_on(a_device_keeps_its_word(&drive));
            let refused = open(hasty()).unwrap_err();
            assert_eq!(refused.source.kind(), io::ErrorKind::ResourceBusy, "{refused}");
        }
    }
}

#[test]
fn a_promise_that_was_made_of_smaller_sectors_is_none_of_the_larger_ones_that_are_there() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let path = folder.path().join("disk");
    fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
    for there in [512, 4096] {
        let Some(device) = LoopDevice::over(&path, there) else {
            return skipped("promised_sectors", "no loop devices here");
        };
        let event_loop = &loops()[0];
        let found = |promised: Option<u32>, sector_bytes: Option<u32>| {
            let options = DriveOptions {
                atomic_sectors: true,
                promised_sector_bytes: promised,
                sector_bytes,
                ..DriveOptions::default()
            };
            let drive = FileDrive::open(&event_loop.handle(), Path::new(&device.0), options).unwrap();
            (drive.geometry().sector_bytes, drive.geometry().atomic_sectors)
        };
        let (physical, _) = found(None, None);
        assert!(physical >= there);
        for promised in [512, 1024, 4096] {
            assert_eq!(found(Some(promised), None), (physical.max(promised), physical <= promised));
        }
        assert_eq!(found(Some(512), Some(4096)), (4096, false), "whatever was asked for");
    }
}

#[test]
fn what_lies_outside_or_is_no_whole_sector_is_refused_and_says_where() {
    on_each_loop(async |env, path| {
        let drive = create(&env, &path, Fill::Reserved, DriveOptions::default()).await;
        let sector = drive.geometry().sector_bytes as usize;
        let mut into = vec![0; sector];
        let beyond = drive.read(SIZE, &mut into).await.unwrap_err();
        assert!(beyond.to_string().contains(path.to_str().unwrap()), "{beyond}");
        assert_eq!(beyond.errno, 22);
        for (offset, len) in [(SIZE - 512, 2 * sector), (1, sector), (0, sector - 1), (u64::MAX - 1, sector)]
        {
            let bytes = vec![0; len];
            assert!(drive.write(offset, &bytes, Durability::Buffered).await.is_err(), "{len} at {offset}");
        }
        assert!(drive.discard(Extent::new(SIZE, 4096)).await.is_err());
        // The file is cut short behind the drive's back.
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(4096).unwrap();
        assert_eq!(drive.read(SIZE / 2, &mut into).await.unwrap_err().errno, 5);
    });
}

#[test]
fn a_file_is_one_drives_unless_all_only_read() {
    on_each_loop(async |env, path| {
        let reading = DriveOptions { read_only: true, ..hasty() };
        let drive = create(&env, &path, Fill::Reserved, DriveOptions::default()).await;
        let refused = FileDrive::open(&env, &path, reading).unwrap_err();
        assert_eq!(refused.source.kind(), io::ErrorKind::WouldBlock);
        assert!(refused.to_string().contains("in use"), "{refused}");
        drop(drive);
        let one = FileDrive::open(&env, &path, reading).unwrap();
        let other = FileDrive::open(&env, &path, reading).unwrap();
        assert!(FileDrive::open(&env, &path, hasty()).is_err());
        let mut into = vec![1; 4096];
        other.read(0, &mut into).await.unwrap();
        assert!(one.write(0, &into, Durability::Buffered).await.is_err());
    });
}

#[test]
fn a_new_file_has_all_its_room_and_replaces_nothing() {
    use std::os::unix::fs::MetadataExt;
    on_each_loop(async |env, path| {
        let mut reports = vec![];
        let size = 20 << 20;
        let options = DriveOptions::default();
        let made = FileDrive::create(&env, &path, size, Fill::Written, options, |done, of| {
            reports.push((done, of));
        });
        drop(made.await.unwrap());
        assert_eq!(reports, [(8 << 20, size), (16 << 20, size), (size, size)]);
        assert!(path.metadata().unwrap().blocks() * 512 >= size);
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);

        let again = FileDrive::create(&env, &path, size, Fill::Reserved, options, |_, _| ()).await;
        assert_eq!(again.unwrap_err().source.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(path.metadata().unwrap().len(), size);

        let huge = path.with_file_name("huge");
        let refused = FileDrive::create(&env, &huge, 1 << 60, Fill::Reserved, options, |_, _| ()).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.source.kind(), io::ErrorKind::StorageFull);
        assert!(refused.to_string().contains("huge"), "{refused}");
        assert!(!huge.exists(), "what was begun is removed");

        let given_up = path.with_file_name("given-up");
        begin_and_drop(FileDrive::create(&env, &given_up, size, Fill::Written, options, |_, _| ())).await;
        assert!(!given_up.exists());
    });
}

#[test]
fn a_write_that_is_given_up_harms_nobody_else() {
    on_each_loop(async |env, path| {
        let options = DriveOptions { pool_bytes: 0, ..DriveOptions::default() };
        let drive = create(&env, &path, Fill::Reserved, options).await;
        for place in 0..40_u64 {
            let bytes = vec![place as u8 + 1; 4096];
            begin_and_drop(drive.write(place * 8192, &bytes, Durability::Durable)).await;
            drive.write(place * 8192 + 4096, &vec![0xee; 4096], Durability::Buffered).await.unwrap();
        }
        drive.flush(FlushScope::Whole).await.unwrap();
        let mut into = vec![0; 8192];
        for place in 0..40_u64 {
            drive.read(place * 8192, &mut into).await.unwrap();
            // Given up while it waited for memory, it may not have begun.
            let first = into[0];
            assert!(first == 0 || first == place as u8 + 1, "place {place}");
            assert!(into[..4096].iter().all(|&byte| byte == first), "place {place}");
            assert!(into[4096..].iter().all(|&byte| byte == 0xee), "place {place}");
        }
    });
}

#[test]
fn the_faster_durable_way_is_kept() {
    on_each_loop(async |env, path| {
        let drive = Rc::new(create(&env, &path, Fill::Written, DriveOptions::default()).await);
        let [dsync_ns, linked_ns] = drive.choose_durable_way(Extent::new(0, 4096)).await.unwrap();
        let faster = if linked_ns < dsync_ns { DurableWay::Linked } else { DurableWay::Dsync };
        assert_eq!(drive.durable_way(), faster);
    });
}

#[test]
fn reads_through_the_page_cache_find_what_was_written_past_it() {
    on_each_loop(async |env, path| {
        let drive = create(&env, &path, Fill::Reserved, DriveOptions::default()).await;
        let mut found = vec![0; 64 << 10];
        for round in 1..100_u8 {
            let offset = u64::from(round % 7) * 4096;
            drive.write(offset, &vec![round; 64 << 10], Durability::Buffered).await.unwrap();
            // Not there, or there as it was just written: with nobody else at it, nothing older.
            let at_once = drive.try_read_cached(offset, &mut found);
            assert!(found[..at_once].iter().all(|&byte| byte == round), "round {round}");
            drive.read_cached(offset, &mut found).await.unwrap();
            assert!(found.iter().all(|&byte| byte == round), "round {round}");
            drive.read(offset, &mut found).await.unwrap();
            assert!(found.iter().all(|&byte| byte == round), "round {round}");
        }
        assert_eq!(drive.try_read_cached(drive.geometry().size_bytes, &mut found), 0);
    });
}

#[test]
fn a_look_at_what_is_kept_has_nothing_read_in() {
    on_each_loop(async |env, path| {
        let drive = create(&env, &path, Fill::Reserved, DriveOptions::default()).await;
        let mut found = vec![0; 64 << 10];
        for _ in 0..20 {
            drive.write(0, &vec![7; 64 << 10], Durability::Buffered).await.unwrap();
            assert!(!drive.is_direct() || drive.try_read_kept(0, &mut found) == 0, "a write takes it out");
            drive.read(0, &mut found).await.unwrap();
            assert!(!drive.is_direct() || drive.try_read_kept(0, &mut found) == 0, "nobody asked for it");
            drive.read_cached(0, &mut found).await.unwrap();
            let kept = drive.try_read_kept(0, &mut found);
            assert!(kept == 0 || found[..kept].iter().all(|&byte| byte == 7));
        }
    });
}
