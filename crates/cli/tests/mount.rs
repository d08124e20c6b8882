//! A volume's file system, mounted and used as any other: killed, mounted again, judged by e2fsck.

mod support;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use evenkeel_host::program::is_root;
use evenkeel_host::service::status::Status;

use support::far::{Drive, members, until_standing};
use support::load::write;
use support::metrics::{address, metric, scrape};
use support::mounted::{
    FLAGS, MountedVolume, a_tree_comes_back, judge, possible, what_is_synced_survives_kills,
};
use support::root::{programs, run};
use support::served::{Volume, noise, patiently};
use support::{Scene, says, skip};

#[test]
fn a_tree_is_as_it_was_after_a_stop_and_e2fsck_finds_nothing() {
    if let Err(why) = possible() {
        return skip("a_tree_is_as_it_was_after_a_stop_and_e2fsck_finds_nothing", &why);
    }
    a_tree_comes_back("");
}

#[test]
fn what_was_synced_is_there_after_each_kill_and_files_are_replaced_whole() {
    if let Err(why) = possible() {
        return skip("what_was_synced_is_there_after_each_kill_and_files_are_replaced_whole", &why);
    }
    what_is_synced_survives_kills("", 3);
}

#[test]
fn an_fsync_leaves_the_data_of_other_files_where_it_is() {
    if let Err(why) = possible() {
        return skip("an_fsync_leaves_the_data_of_other_files_where_it_is", &why);
    }
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mounted = MountedVolume::mount(&volume, "--commit-every 1h");
    fs::write(mounted.at("neighbour"), noise(1, 8 << 20)).unwrap();
    let mut small = File::create(mounted.at("small")).unwrap();
    small.write_all(b"begin").unwrap();
    small.sync_all().unwrap();
    let before = mounted.server.status().counters.user_bytes;
    small.write_all(&[7; 100]).unwrap();
    small.sync_data().unwrap();
    let taken = mounted.server.status().counters.user_bytes - before;
    assert!((100..400).contains(&taken), "{taken} bytes for an append of 100");

    // A file that is opened so is durable with each write.
    let before = mounted.server.status().counters.commits;
    let mut durable =
        OpenOptions::new().append(true).custom_flags(libc_o_dsync()).open(mounted.at("small")).unwrap();
    durable.write_all(b"durable").unwrap();
    assert!(mounted.server.status().counters.commits > before);
    mounted.stop();
    judge(&volume);
}

/// `O_DSYNC` of Linux on all its common processors.
const fn libc_o_dsync() -> i32 {
    0o10000
}

#[test]
fn a_volume_gets_another_layout_while_programs_use_the_files_on_it() {
    if let Err(why) = possible() {
        return skip("a_volume_gets_another_layout_while_programs_use_the_files_on_it", &why);
    }
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mounted = MountedVolume::mount(&volume, "");
    let (is_over, synced) = (AtomicBool::new(false), AtomicU64::new(0));
    /// Whatever becomes of the story, its programs end.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    thread::scope(|threads| {
        let _over = Over(&is_over);
        threads.spawn(|| {
            let mut journal = File::create(mounted.at("journal")).unwrap();
            while !is_over.load(Ordering::Relaxed) {
                journal.write_all(&synced.load(Ordering::Relaxed).to_le_bytes()).unwrap();
                journal.sync_data().unwrap();
                synced.fetch_add(1, Ordering::Relaxed);
            }
        });
        threads.spawn(|| {
            for number in 0.. {
                let (new, name) = (mounted.at("new"), mounted.at(&format!("file-{}", number % 8)));
                fs::write(&new, noise(number, 100_000)).unwrap();
                fs::rename(new, name).unwrap();
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        says(
            &scene.refused("convert disk --layout mirror --log-size 4m"),
            &["choose a larger --log-size, or unmount"],
        );
        let on_itself = "convert disk --layout single --log-size 32m --member mnt/member --log new-log";
        says(&scene.refused(on_itself), &["it is on the file system of this very volume"]);
        for line in [
            "convert disk --layout mirror --log-size 32m",
            "convert disk --layout single --log-size 64m --member one --log one-log",
        ] {
            says(&scene.done(line).stdout, &["from now on"]);
        }
    });
    let entries = synced.into_inner();
    let expected: Vec<u8> = (0..entries).flat_map(u64::to_le_bytes).collect();
    assert!(fs::read(mounted.at("journal")).unwrap() == expected);
    mounted.stop();
    judge(&volume);
    let mounted = MountedVolume::mount(&volume, "");
    assert!(fs::read(mounted.at("journal")).unwrap() == expected);
    for name in scene.names("mnt").into_iter().filter(|name| name.starts_with("file-")) {
        assert_eq!(fs::read(mounted.at(&name)).unwrap().len(), 100_000);
    }
    mounted.stop();
}

#[test]
fn status_and_metrics_tell_of_fsyncs_and_of_room() {
    if let Err(why) = possible() {
        return skip("status_and_metrics_tell_of_fsyncs_and_of_room", &why);
    }
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mounted = MountedVolume::mount(&volume, "--commit-every 1h --metrics 127.0.0.1:0");
    let figures = || mounted.server.status().file_system.unwrap();
    let before = figures();
    assert_eq!((before.fsyncs, before.inodes > before.free_inodes), (0, true), "{before:?}");
    assert!(before.size_bytes > before.free_bytes && before.free_bytes > before.available_bytes);

    let mut file = File::create(mounted.at("file")).unwrap();
    file.write_all(&[7; 1_000_000]).unwrap();
    let written = figures();
    assert!(written.dirty_bytes >= 1_000_000, "{written:?}");
    assert!(before.free_bytes - written.free_bytes >= 1_000_000, "{written:?}");
    file.sync_all().unwrap();
    file.write_all(&[7; 100]).unwrap();
    file.sync_data().unwrap();
    let after = figures();
    assert_eq!((after.fsyncs, after.dirty_bytes), (2, 0));
    assert_eq!(before.free_inodes - after.free_inodes, 1);
    assert!(after.written_bytes + after.data_bytes >= 1_000_100 && after.metadata_bytes > 0, "{after:?}");
    assert!(after.commits > before.commits && after.fsync_latency_s.p99 > 0.0, "{after:?}");
    says(&scene.done("status disk").stdout, &["files", "inodes", "fsyncs", "2, ", "of metadata"]);
    let waiter = after.waiters.iter().find(|it| it.fsyncs == 2).unwrap();
    assert!(waiter.waited_s > 0.0, "{waiter:?}");
    let own = format!("/proc/self/task/{}/comm", waiter.thread);
    assert_eq!(waiter.program.as_deref(), Some(fs::read_to_string(own).unwrap().trim_end()));
    says(&scene.done("status disk").stdout, &["waited most", &format!("({})", waiter.thread), "in 2"]);

    let (_, body) = scrape(&address(&mounted.server), "/metrics");
    assert_eq!(metric(&body, "evenkeel_file_system_fsyncs_total"), 2.0);
    assert_eq!(metric(&body, "evenkeel_file_system_free_inodes"), after.free_inodes as f64);
    assert_eq!(metric(&body, "evenkeel_file_system_size_bytes"), after.size_bytes as f64);
    mounted.stop();
}

#[test]
fn a_folder_that_holds_something_and_a_volume_without_a_file_system_are_refused() {
    if let Err(why) = possible() {
        return skip("a_folder_that_holds_something_and_a_volume_without_a_file_system_are_refused", &why);
    }
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    fs::create_dir(scene.path("full")).unwrap();
    fs::write(scene.path("full").join("file"), b"mine").unwrap();
    says(&scene.refused("mount disk full"), &["not empty", "-o nonempty"]);
    says(&scene.refused("mount disk full/file"), &["no folder"]);
    says(&scene.refused("mount disk nowhere"), &["nowhere"]);
    says(&scene.refused("mount disk full -o ro,rw"), &["choose one"]);
    says(&scene.refused("mount disk full --write-back 64m -o nonempty,write_back=4k"), &["1m at least"]);
    says(&scene.misused("mount disk full -o sync"), &["sync"]);

    let mounted = MountedVolume::mount(&volume, "");
    fs::create_dir(scene.path("other")).unwrap();
    says(&scene.refused("mount disk other"), &["another process"]);
    scene.done("create plain --size 32m --log-size 16m --buffer 4m");
    says(&scene.refused("mount plain mnt"), &["mnt", "something is mounted there"]);
    mounted.stop();

    says(&scene.refused("mount plain mnt"), &["no ext2", "make one first"]);
    assert_eq!(scene.names("mnt").len(), 0);
}

#[test]
fn names_of_any_bytes_and_what_a_file_says_of_itself_come_back() {
    if let Err(why) = possible() {
        return skip("names_of_any_bytes_and_what_a_file_says_of_itself_come_back", &why);
    }
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mounted = MountedVolume::mount(&volume, "");
    let name = OsStr::from_bytes(b"\xff\x01 \n\\");
    let file = File::create(mounted.at("").join(name)).unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::new(1_234_567_890, 123_456_789);
    file.set_modified(time).unwrap();
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
    for number in 0..2000 {
        File::create(mounted.at(&format!("file {number}"))).unwrap();
    }
    mounted.stop();

    let mounted = MountedVolume::mount(&volume, "");
    let found = mounted.at("").join(name).metadata().unwrap();
    assert_eq!(found.modified().unwrap(), time);
    assert_eq!(found.mode() & 0o7777, 0o640);
    let names = fs::read_dir(mounted.at("")).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.filter(|name| name.as_bytes().starts_with(b"file ")).count();
    assert_eq!(names, 2000);
    for number in (0..2000).step_by(3) {
        fs::remove_file(mounted.at(&format!("file {number}"))).unwrap();
    }
    mounted.stop();
    judge(&volume);
}

/// What a program does with a file that it has mapped; it gets the folder, and says what it found.
const MAPPED: &str = r#"
import errno, mmap, os, sys
os.chdir(sys.argv[1])
PAGE = 4096

def mapped(name, pages):
    file = os.open(name, os.O_RDWR | os.O_CREAT)
    os.ftruncate(file, pages * PAGE)
    os.fsync(file)
    return file, mmap.mmap(file, pages * PAGE)

# Nobody has synced what is changed through the map: it is no hole.
file, pages = mapped("sparse", 64)
for page in range(8, 24):
    pages[page * PAGE] = 7
other = os.open("sparse", os.O_RDONLY)
print(os.lseek(other, 0, os.SEEK_DATA) // PAGE, os.lseek(other, 8 * PAGE, os.SEEK_HOLE) // PAGE)
try:
    os.lseek(other, 24 * PAGE, os.SEEK_DATA)
    print("data")
except OSError as error:
    print(errno.errorcode[error.errno])

# Room is found or missed when it is written back, and who syncs hears of it.
file, pages = mapped("late", 64)
fill = os.open("fill", os.O_WRONLY | os.O_CREAT)
try:
    while True:
        os.write(fill, bytes(64 * PAGE))
except OSError as error:
    print(errno.errorcode[error.errno])
os.fsync(fill)
for page in range(64):
    pages[page * PAGE : (page + 1) * PAGE] = bytes([1 + page]) * PAGE
try:
    pages.flush()
    os.fsync(file)
    print("synced")
except OSError as error:
    print(errno.errorcode[error.errno])
"#;

#[test]
fn what_a_program_changes_through_a_map_is_no_hole_and_what_finds_no_room_is_told() {
    if let Err(why) = possible().and_then(|()| programs(&["python3"])) {
        return skip("what_a_program_changes_through_a_map_is_no_hole_and_what_finds_no_room_is_told", &why);
    }
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mounted = MountedVolume::mount(&volume, "");
    let told = Command::new("python3").args(["-c", MAPPED]).arg(mounted.at("")).output().unwrap();
    let told = (String::from_utf8(told.stdout).unwrap(), String::from_utf8(told.stderr).unwrap());
    // Who is not root leaves some room, which mapped writes may take.
    let last = if is_root() { "ENOSPC" } else { "synced" };
    assert_eq!(told, (format!("8 24\nENXIO\nENOSPC\n{last}\n"), String::new()));
    mounted.stop();
    judge(&volume);
}

/// A file without a name in that folder.
fn unnamed(folder: &Path, flags: i32) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_TMPFILE | flags).open(folder)
}

/// Gives an open file a name.
fn name(file: &File, at: &Path) -> Result<String, String> {
    let open = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    run("ln", &["--logical", &open, &at.display().to_string()])
}

#[test]
fn a_file_without_a_name_is_given_one_once_it_is_whole_or_leaves_nothing() {
    if let Err(why) = possible() {
        return skip("a_file_without_a_name_is_given_one_once_it_is_whole_or_leaves_nothing", &why);
    }
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mut mounted = MountedVolume::mount(&volume, "");
    let folder = mounted.at("folder");
    fs::create_dir(&folder).unwrap();
    let whole = unnamed(&folder, 0).unwrap();
    whole.write_all_at(&noise(5, 300_000), 0).unwrap();
    whole.sync_all().unwrap();
    assert_eq!(whole.metadata().unwrap().nlink(), 0);
    assert_eq!(scene.names("mnt/folder").len(), 0);
    name(&whole, &folder.join("whole")).unwrap();
    File::open(&folder).unwrap().sync_all().unwrap();
    let never = unnamed(&folder, libc::O_EXCL).unwrap();
    never.write_all_at(&noise(6, 5_000_000), 0).unwrap();
    never.sync_all().unwrap();
    assert!(name(&never, &folder.join("never")).is_err(), "it was opened so that it gets no name");
    let unfinished = unnamed(&folder, 0).unwrap();
    unfinished.write_all_at(&noise(7, 300_000), 0).unwrap();
    unfinished.sync_all().unwrap();
    mounted.server.kill();
    drop((whole, never, unfinished, mounted));

    let mounted = MountedVolume::mount(&volume, "");
    assert_eq!(scene.names("mnt/folder"), ["whole".to_owned()].into());
    let whole = File::open(mounted.at("folder/whole")).unwrap();
    assert_eq!(whole.metadata().unwrap().nlink(), 1);
    assert_eq!(fs::read(mounted.at("folder/whole")).unwrap(), noise(5, 300_000));
    mounted.stop();
    judge(&volume);
}

#[test]
fn who_changes_a_program_of_another_takes_from_it_that_it_runs_as_its_owner() {
    let name = "who_changes_a_program_of_another_takes_from_it_that_it_runs_as_its_owner";
    let needed = possible().and_then(|()| programs(&["setpriv", "dd", "fallocate"]));
    if let Err(why) = needed.and_then(|()| is_root().then_some(()).ok_or_else(|| "root is needed".to_owned()))
    {
        return skip(name, &why);
    }
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mounted = MountedVolume::mount(&volume, "");
    let file = mounted.at("program");
    let at = file.display().to_string();
    let (from, to) = ("if=/dev/zero", format!("of={at}"));
    let changes: [&[&str]; 5] = [
        &["dd", from, &to, "bs=4k", "count=1", "conv=notrunc"],
        &["dd", from, &to, "bs=4k", "count=1", "conv=notrunc", "oflag=direct"],
        &["fallocate", "--length", "9000", &at],
        &["fallocate", "--punch-hole", "--length", "4096", &at],
        &["fallocate", "--zero-range", "--length", "4096", &at],
    ];
    for change in changes {
        fs::write(&file, [7; 8192]).unwrap();
        let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(&file, mode(0o6777)).unwrap();
        assert_eq!(file.metadata().unwrap().mode() & 0o7777, 0o6777);
        let as_nobody = [&["--reuid", "65534", "--regid", "65534", "--clear-groups"][..], change].concat();
        run("setpriv", &as_nobody).unwrap_or_else(|why| panic!("{change:?}: {why}"));
        assert_eq!(file.metadata().unwrap().mode() & 0o7777, 0o777, "{change:?}");
    }
    mounted.stop();
    judge(&volume);
}

/// Whether a mount can be replaced without a moment between: root's rights, and Linux 6.5.
fn can_replace() -> Result<(), String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").map_err(|error| error.to_string())?;
    let numbers: Vec<u32> = release.split('.').take(2).filter_map(|number| number.parse().ok()).collect();
    match is_root() && numbers >= vec![6, 5] {
        true => possible(),
        false => Err(format!("root and Linux 6.5 are needed; this is {}", release.trim())),
    }
}

#[test]
fn a_program_that_goes_on_through_kills_never_reaches_what_lies_beneath() {
    if let Err(why) = can_replace() {
        return skip("a_program_that_goes_on_through_kills_never_reaches_what_lies_beneath", &why);
    }
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mut mounted = MountedVolume::mount(&volume, "--commit-every 1h");
    let is_over = AtomicBool::new(false);
    let files = AtomicU64::new(0);
    thread::scope(|scope| {
        let folder = mounted.at("");
        let (is_over, files) = (&is_over, &files);
        let program = scope.spawn(move || {
            let mut failures = BTreeSet::new();
            for number in 0_u64.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                match fs::write(folder.join(format!("file {}", number % 100)), b"mine") {
                    Ok(()) => drop(files.fetch_add(1, Ordering::Relaxed)),
                    Err(error) => drop(failures.insert(error.raw_os_error())),
                }
            }
            failures
        });
        for _ in 0..6 {
            let before = files.load(Ordering::Relaxed);
            support::served::patiently("files", || {
                (files.load(Ordering::Relaxed) > before + 20).then_some(())
            });
            mounted.server.kill();
            mounted.server = MountedVolume::serve(&volume, "--commit-every 1h");
        }
        is_over.store(true, Ordering::Relaxed);
        let failures = program.join().unwrap();
        let known = [libc::ENOTCONN, libc::ECONNABORTED, libc::EIO].map(Some);
        assert!(failures.iter().all(|failure| known.contains(failure)), "{failures:?}");
    });
    // Which sees that nothing was made in the folder beneath.
    mounted.stop();
    judge(&volume);
}

#[test]
fn a_mount_that_the_kernel_remembers_is_replaced_after_a_kill() {
    if let Err(why) = possible() {
        return skip("a_mount_that_the_kernel_remembers_is_replaced_after_a_kill", &why);
    }
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mut mounted = MountedVolume::mount(&volume, "");
    fs::write(mounted.at("file"), b"before").unwrap();
    File::open(mounted.at("")).unwrap().sync_all().unwrap();
    mounted.at("").metadata().unwrap();
    mounted.server.kill();
    mounted.server = MountedVolume::serve(&volume, "");
    assert_eq!(scene.names("mnt"), BTreeSet::from(["file".to_owned(), "lost+found".to_owned()]));
    mounted.stop();
}

#[test]
fn the_kernel_reads_further_ahead_where_pages_come_from_an_export_and_by_itself_from_a_file() {
    let name = "the_kernel_reads_further_ahead_where_pages_come_from_an_export_and_by_itself_from_a_file";
    if let Err(why) = possible().and_then(|()| is_root().then_some(()).ok_or_else(|| "root is needed".into()))
    {
        return skip(name, &why);
    }
    let read_ahead_kib = |mounted: &MountedVolume<'_>| -> u64 {
        let device = mounted.at("").metadata().unwrap().dev();
        let setting = format!("/sys/class/bdi/{}:{}/read_ahead_kb", libc::major(device), libc::minor(device));
        fs::read_to_string(setting).unwrap().trim().parse().unwrap()
    };
    let scene = Scene::new();
    let drive = Drive::start(&scene, 0);
    let far =
        Volume::create(&scene, &format!("--size 32m --format ext2 --member {0} --destroy {0}", drive.uri));
    let mounted = MountedVolume::mount(&far, "");
    assert_eq!(read_ahead_kib(&mounted), 1024);
    let contents = noise(7, 5_000_000);
    fs::write(mounted.at("file"), &contents).unwrap();
    mounted.stop();
    let mounted = MountedVolume::mount(&far, "");
    assert_eq!(fs::read(mounted.at("file")).unwrap(), contents);
    mounted.stop();

    let scene = Scene::new();
    let near = Volume::create(&scene, FLAGS);
    let mounted = MountedVolume::mount(&near, "");
    assert!(read_ahead_kib(&mounted) < 1024);
    mounted.stop();
}

#[test]
fn a_member_whose_file_system_does_not_answer_holds_up_nobody_and_is_taken_back() {
    let name = "a_member_whose_file_system_does_not_answer_holds_up_nobody_and_is_taken_back";
    if let Err(why) = possible() {
        return skip(name, &why);
    }
    let below = Scene::new();
    let hung = Volume::create(&below, "--size 256m --log-size 16m --buffer 4m --format ext2");
    let mounted = MountedVolume::mount(&hung, "");
    let scene = Scene::new();
    let far = mounted.at("member").display().to_string();
    let flags = "--size 16m --log-size 16m --buffer 4m --layout mirror";
    let mirror = Volume::create(&scene, &format!("{flags} --member {far} --member near"));
    let server = mirror.serve("--answer-max 500ms");
    write(&mirror.socket(), 0, &noise(1, 1 << 20));
    mounted.server.signal("STOP");
    let next = Cell::new(0u8);
    let use_it = || {
        let number = next.replace(next.get().wrapping_add(1));
        write(&mirror.socket(), u64::from(number % 15) << 20, &noise(number.into(), 1 << 20));
    };
    // Until a checkpoint writes to it.
    patiently("its failure", || {
        use_it();
        (members(&server)[0].standing == "out").then_some(())
    });
    // It is asked for again after a second, then after longer: clients have their answers all the same.
    for _ in 0..100 {
        use_it();
        thread::sleep(Duration::from_millis(30));
    }
    assert_eq!(members(&server)[0].standing, "out");
    mounted.server.signal("CONT");
    until_standing(&server, 0, "in-sync");
    use_it();
    server.stop();
    scene.done("check disk");
    mounted.stop();
}

/// Nothing is mounted there at the end of a test, however it ends: a server without a mount ends, too.
struct Detached(PathBuf);

impl Drop for Detached {
    fn drop(&mut self) {
        let _gone_already_is_fine = run("umount", &["--lazy", &self.0.display().to_string()]);
    }
}

/// `mount.evenkeel`, as mount(8) calls it.
fn helper(scene: &Scene) -> Command {
    let name = scene.path("mount.evenkeel");
    if !name.exists() {
        symlink(env!("CARGO_BIN_EXE_evenkeel"), &name).unwrap();
    }
    let mut command = Command::new(name);
    command.current_dir(scene.folder()).stdin(Stdio::null());
    command
}

#[test]
fn mount_8_finds_it_mounted_and_a_server_that_outlives_the_helper() {
    if let Err(why) = possible() {
        return skip("mount_8_finds_it_mounted_and_a_server_that_outlives_the_helper", &why);
    }
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    fs::create_dir(scene.path("mnt")).unwrap();
    let options = "defaults,noatime,nofail,_netdev,x-systemd.device-timeout=5s,commit=1,cache=32m,nosuid";
    let _gone_at_the_end = Detached(scene.path("mnt"));
    // A caller that reads both pipes to their ends gets on.
    let ran = helper(&scene).args(["disk", "mnt", "-n", "-o", "rw", "-o", options]).output().unwrap();
    assert_eq!(
        (ran.status.code(), &ran.stdout[..], &ran.stderr[..]),
        (Some(0), &b""[..], &b""[..]),
        "{ran:?}"
    );
    let mounted_with = |option: &str| {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let at = scene.path("mnt").display().to_string();
        let line = table.lines().find(|line| line.split(' ').nth(4) == Some(&at)).unwrap().to_owned();
        line.split(' ').nth(5).unwrap().split(',').any(|it| it == option)
    };
    assert_eq!((mounted_with("nodev"), mounted_with("nosuid")), (!is_root(), true));
    fs::write(scene.path("mnt").join("file"), b"from a program").unwrap();
    let status = Status::ask(&volume.folder()).unwrap();
    assert_eq!(status.chosen.cache_bytes, 32 << 20);

    let at = scene.path("mnt").display().to_string();
    run("umount", &[&at]).unwrap_or_else(|why| panic!("{why}"));
    // It makes everything durable, and ends.
    support::served::patiently("its end", || Status::ask(&volume.folder()).is_err().then_some(()));
    support::served::patiently("the volume", || (scene.run("check disk").code == Some(0)).then_some(()));
    let mounted = MountedVolume::mount(&volume, "-o ro");
    assert_eq!(fs::read(mounted.at("file")).unwrap(), b"from a program");
    mounted.stop();
}

#[test]
fn mount_8_hears_in_one_line_why_nothing_is_mounted() {
    let scene = Scene::new();
    fs::create_dir(scene.path("mnt")).unwrap();
    let ended = |arguments: &[&str]| {
        let ran = helper(&scene).args(arguments).output().unwrap();
        assert_eq!(ran.stdout, b"", "{ran:?}");
        (ran.status.code(), String::from_utf8(ran.stderr).unwrap())
    };
    let (code, said) = ended(&["disk", "mnt", "-o", "defaults"]);
    assert_eq!((code, said.lines().count()), (Some(32), 1), "{said}");
    says(&said, &["disk", "no volume"]);
    let (code, said) = ended(&["disk", "mnt", "-o", "defaults,data=journal"]);
    assert_eq!((code, said.lines().count()), (Some(1), 1), "{said}");
    says(&said, &["data=journal"]);
    let (code, said) = ended(&["disk", "mnt", "-o", "remount,ro"]);
    assert_eq!((code, said.lines().count()), (Some(1), 1), "{said}");
    says(&said, &["mount it again"]);
    assert_eq!(ended(&["disk"]).0, Some(1));
    // What is not known is passed over where that is asked for, and nothing is done where that is.
    assert_eq!(ended(&["disk", "mnt", "-sf", "-o", "data=journal"]), (Some(0), String::new()));
}
