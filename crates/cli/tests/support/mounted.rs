//! A volume's file system, mounted, and what is asked of it whichever way the kernel's requests come.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::thread;

use super::Scene;
use super::root::{programs, run};
use super::served::{Server, Volume, noise, patiently};

/// How the volume of a story is made.
pub(crate) const FLAGS: &str = "--size 64m --log-size 16m --buffer 4m --format ext2";

/// A volume's file system, mounted on `mnt` in its scene.
pub(crate) struct MountedVolume<'a> {
    pub(crate) volume: &'a Volume<'a>,
    pub(crate) server: Server,
}

impl<'a> MountedVolume<'a> {
    pub(crate) fn mount(volume: &'a Volume<'a>, flags: &str) -> Self {
        let at = volume.scene.path("mnt");
        let _there_already_is_fine = fs::create_dir(&at);
        Self { volume, server: Self::serve(volume, flags) }
    }

    /// A server of its own, once it has mounted the volume.
    pub(crate) fn serve(volume: &Volume<'_>, flags: &str) -> Server {
        let command = volume.scene.command(&format!("mount disk mnt {flags}"));
        Server::start(volume.folder(), volume.scene.path("stderr"), command).ready()
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.volume.scene.path("mnt").join(name)
    }

    /// SIGTERM, after which all is durable and nothing is mounted.
    pub(crate) fn stop(mut self) {
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
pub(crate) fn possible() -> Result<(), String> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/fuse")
        .map_err(|error| format!("/dev/fuse: {error}"))?;
    programs(&["fusermount3", "e2fsck", "umount"])
}

/// What e2fsck says of the volume's contents.
#[track_caller]
pub(crate) fn judge(volume: &Volume<'_>) {
    volume.scene.done("salvage disk image");
    let image = volume.scene.path("image");
    run("e2fsck", &["-f", "-n", &image.display().to_string()]).unwrap_or_else(|why| panic!("{why}"));
    fs::remove_file(image).unwrap();
}

pub(crate) fn sources() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[track_caller]
pub(crate) fn is_same(one: &Path, other: &Path) {
    let (one, other) = (one.display().to_string(), other.display().to_string());
    run("diff", &["--recursive", "--no-dereference", &one, &other]).unwrap_or_else(|why| panic!("{why}"));
}

/// A tree with files of all kinds is as it was after a stop, and e2fsck finds nothing.
pub(crate) fn a_tree_comes_back(flags: &str) {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mounted = MountedVolume::mount(&volume, flags);
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

    let mounted = MountedVolume::mount(&volume, &format!("-o ro {flags}"));
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

/// What writers synced is there after each of four kills, and files are replaced whole.
pub(crate) fn what_is_synced_survives_kills(flags: &str, writers: usize) {
    // Fewer of each where there are many: the volume is small.
    let records_a_round = (120 / writers as u64).max(2);
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mut durable = vec![Durable::default(); writers];
    for round in 0..4 {
        let mut mounted = MountedVolume::mount(&volume, &format!("--commit-every 200ms {flags}"));
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
            let running: Vec<_> = durable.iter().enumerate().map(start).collect();
            patiently("records", || {
                let is_long = |writer: usize| {
                    folder
                        .join(writer.to_string())
                        .metadata()
                        .is_ok_and(|it| it.len() > (round + 1) * records_a_round * 256)
                };
                (0..writers).all(is_long).then_some(())
            });
            mounted.server.kill();
            for (writer, done) in running.into_iter().enumerate() {
                durable[writer] = done.join().unwrap();
            }
        });
    }
    MountedVolume::mount(&volume, flags).stop();
    judge(&volume);
}
