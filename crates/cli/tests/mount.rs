//! A volume's file system, mounted and used as any other: killed, mounted again, judged by e2fsck.

mod support;

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::thread;

use support::root::{programs, run};
use support::served::{Server, Volume, noise};
use support::{Scene, says, skip};

const FLAGS: &str = "--size 64m --log-size 16m --buffer 4m --format ext2";

/// A volume's file system, mounted on `mnt` in its scene.
struct MountedVolume<'a> {
    volume: &'a Volume<'a>,
    server: Server,
}

impl<'a> MountedVolume<'a> {
    fn mount(volume: &'a Volume<'a>, flags: &str) -> Self {
        let at = volume.scene.path("mnt");
        let _there_already_is_fine = fs::create_dir(&at);
        let command = volume.scene.command(&format!("mount disk mnt {flags}"));
        let server = Server::start(volume.folder(), volume.scene.path("stderr"), command).ready();
        Self { volume, server }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.volume.scene.path("mnt").join(name)
    }

    /// SIGTERM, after which all is durable and nothing is mounted.
    fn stop(mut self) {
        self.server.signal("TERM");
        assert_eq!(self.server.exit_code(), Some(0), "{}", self.server.complaints());
        assert_eq!(self.volume.scene.names("mnt").len(), 0);
    }
}

impl Drop for MountedVolume<'_> {
    fn drop(&mut self) {
        let at = self.volume.scene.path("mnt").display().to_string();
        let _gone_already_is_fine = run("umount", &["--lazy", &at]);
    }
}

/// Why nothing can be mounted here, if so.
fn possible() -> Result<(), String> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/fuse")
        .map_err(|error| format!("/dev/fuse: {error}"))?;
    programs(&["fusermount3", "e2fsck", "umount"])
}

/// What e2fsck says of the volume's contents.
#[track_caller]
fn judge(volume: &Volume<'_>) {
    volume.scene.done("salvage disk image");
    let image = volume.scene.path("image");
    run("e2fsck", &["-f", "-n", &image.display().to_string()]).unwrap_or_else(|why| panic!("{why}"));
    fs::remove_file(image).unwrap();
}

fn sources() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[track_caller]
fn is_same(one: &Path, other: &Path) {
    let (one, other) = (one.display().to_string(), other.display().to_string());
    run("diff", &["--recursive", "--no-dereference", &one, &other]).unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn a_tree_is_as_it_was_after_a_stop_and_e2fsck_finds_nothing() {
    if let Err(why) = possible() {
        return skip("a_tree_is_as_it_was_after_a_stop_and_e2fsck_finds_nothing", &why);
    }
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mounted = MountedVolume::mount(&volume, "");
    let copy = mounted.at("copy");
    run("cp", &["-a", &sources().display().to_string(), &copy.display().to_string()]).unwrap();
    fs::write(mounted.at("large"), noise(3, 5_000_003)).unwrap();
    let holes = File::create(mounted.at("holes")).unwrap();
    holes.set_len(3 << 30).unwrap();
    holes.write_all_at(b"in the middle", 1_234_567_890).unwrap();
    symlink("large", mounted.at("link")).unwrap();
    fs::hard_link(mounted.at("large"), mounted.at("other name")).unwrap();
    fs::write(mounted.at("gone"), b"gone").unwrap();
    fs::remove_file(mounted.at("gone")).unwrap();
    fs::rename(mounted.at("other name"), mounted.at(&"n".repeat(255))).unwrap();
    is_same(sources(), &copy);
    mounted.stop();
    judge(&volume);

    let mounted = MountedVolume::mount(&volume, "-o ro");
    is_same(sources(), &mounted.at("copy"));
    assert_eq!(fs::read(mounted.at("link")).unwrap(), noise(3, 5_000_003));
    assert_eq!(mounted.at("large").metadata().unwrap().nlink(), 2);
    let holes = File::open(mounted.at("holes")).unwrap();
    let mut middle = [1; 15];
    holes.read_exact_at(&mut middle, 1_234_567_889).unwrap();
    assert_eq!(&middle, b"\0in the middle\0");
    assert!(holes.metadata().unwrap().blocks() < 64);
    assert_eq!(File::create(mounted.at("new")).unwrap_err().kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    mounted.stop();
}

/// What one writer knows to be durable.
#[derive(Clone, Copy, Default)]
struct Durable {
    /// Records of its log.
    records: u64,
    /// The number in its small file.
    state: u64,
}

/// Appends numbered records, each durable before the next, and replaces a small file now and then, until the server goes.
fn append_until_killed(folder: &Path, name: &str, mut durable: Durable) -> Durable {
    let open = OpenOptions::new().append(true).create(true).open(folder.join(name));
    let Ok(mut log) = open else { return durable };
    let mut number = log.metadata().map_or(0, |metadata| metadata.len() / 256);
    loop {
        let record: Vec<u8> = number.to_le_bytes().repeat(32);
        if log.write_all(&record).and_then(|()| log.sync_data()).is_err() {
            return durable;
        }
        number += 1;
        durable.records = number;
        if number.is_multiple_of(8) {
            if replace(folder, name, number).is_err() {
                return durable;
            }
            durable.state = number;
        }
    }
}

fn replace(folder: &Path, name: &str, number: u64) -> std::io::Result<()> {
    let new = folder.join(format!("{name}.new"));
    let mut file = File::create(&new)?;
    file.write_all(&number.to_le_bytes().repeat(512))?;
    file.sync_all()?;
    fs::rename(&new, folder.join(format!("{name}.state")))?;
    File::open(folder)?.sync_all()
}

#[test]
fn what_was_synced_is_there_after_each_kill_and_files_are_replaced_whole() {
    if let Err(why) = possible() {
        return skip("what_was_synced_is_there_after_each_kill_and_files_are_replaced_whole", &why);
    }
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mut durable = [Durable::default(); 3];
    for round in 0..4 {
        let mut mounted = MountedVolume::mount(&volume, "--commit-every 200ms");
        for (writer, &durable) in durable.iter().enumerate() {
            let records = fs::read(mounted.at(&writer.to_string())).unwrap_or_default();
            let whole = records.len() as u64 / 256;
            assert!(whole >= durable.records, "round {round}: {whole} of {} records", durable.records);
            for (number, record) in records.chunks_exact(256).enumerate() {
                assert_eq!(record, (number as u64).to_le_bytes().repeat(32), "round {round}");
            }
            if durable.state > 0 {
                let state = fs::read(mounted.at(&format!("{writer}.state"))).unwrap();
                assert_eq!(state.len(), 4096);
                assert_eq!(state, state[..8].repeat(512), "round {round}: a mixture");
                assert!(u64::from_le_bytes(state[..8].try_into().unwrap()) >= durable.state, "round {round}");
            }
        }
        let folder = mounted.at("");
        thread::scope(|scope| {
            let start = |(writer, &durable): (usize, &Durable)| {
                let folder = &folder;
                scope.spawn(move || append_until_killed(folder, &writer.to_string(), durable))
            };
            let writers: Vec<_> = durable.iter().enumerate().map(start).collect();
            support::served::patiently("records", || {
                let is_long = |writer: usize| {
                    folder
                        .join(writer.to_string())
                        .metadata()
                        .is_ok_and(|it| it.len() > (round + 1) * 40 * 256)
                };
                (0..3).all(is_long).then_some(())
            });
            mounted.server.kill();
            for (writer, done) in writers.into_iter().enumerate() {
                durable[writer] = done.join().unwrap();
            }
        });
    }
    MountedVolume::mount(&volume, "").stop();
    judge(&volume);
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
