//! Where acknowledged writes are kept if `/dev/shm` is too small for them, as in a container: on btrfs, whose disk fills up.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::Command;

use evenkeel_engine::device::Durability;
use evenkeel_host::event_loop::{Backend, EventLoop};

use crate::support::load::{connect, contents};
use crate::support::root::{LoopDevice, Mounted, programs, run, with_own_memory};
use crate::support::served::{Server, Volume, noise};
use crate::support::{Ran, Scene, or_skip, says};

const FLAGS: &str = "--size 32m --log-size 16m --buffer 4m";

/// Where a write lies, whose bytes follow from its number.
fn place(number: u64) -> u64 {
    number % 8 * 4_000_000 + 13
}

const LEN: usize = 300_001;

/// A small btrfs in a scene.
struct Btrfs {
    inside: Scene,
    _mounted: Mounted,
    _device: LoopDevice,
    _scene: Scene,
}

impl Btrfs {
    fn new() -> Result<Self, String> {
        programs(&["mkfs.btrfs", "lsattr", "unshare"])?;
        let scene = Scene::new();
        let device = LoopDevice::over(&scene.path("image"), 256 << 20, 0)?;
        run("mkfs.btrfs", &["-q", "-f", &device.node])?;
        let mounted = Mounted::of(&device.node, &scene.path("mounted"))?;
        let inside = Scene::below(&scene.path("mounted"));
        Ok(Self { inside, _mounted: mounted, _device: device, _scene: scene })
    }

    /// Starts a server of the volume where memory has so much room.
    fn serve(&self, volume: &Volume<'_>, memory: &str) -> Server {
        let command = with_own_memory(&self.inside.command("serve disk"), memory);
        Server::start(volume.folder(), self.inside.path("stderr"), command).ready()
    }

    fn refused(&self, line: &str, memory: &str) -> String {
        let output = with_own_memory(&self.inside.command(line), memory).output().unwrap();
        let ran = Ran::of(line, output);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        ran.complaint()
    }

    /// Fills it up to the last block.
    fn fill(&self) {
        for (name, block, flags) in [("filler", "64k", "oflag=direct"), ("rest", "4k", "conv=fsync")] {
            let file = self.inside.path(name).display().to_string();
            let _until_it_is_full =
                run("dd", &["if=/dev/zero", &format!("of={file}"), &format!("bs={block}"), flags]);
        }
        run("sync", &[]).unwrap();
    }

    fn make_room(&self) {
        fs::remove_file(self.inside.path("filler")).unwrap();
        fs::remove_file(self.inside.path("rest")).unwrap();
        run("sync", &[]).unwrap();
    }
}

/// Writes that are acknowledged and not durable.
fn write_buffered(volume: &Volume<'_>, numbers: std::ops::Range<u64>) {
    let event_loop = EventLoop::new(Backend::Auto).unwrap();
    let env = event_loop.handle();
    event_loop.block_on(async {
        let client = connect(&env, &volume.socket()).await;
        for number in numbers {
            client.write(place(number), &noise(number, LEN), Durability::Buffered).await.unwrap();
        }
    });
}

#[track_caller]
fn must_have(volume: &Volume<'_>, numbers: std::ops::Range<u64>) {
    let found = contents(&volume.socket());
    for number in numbers {
        assert!(found[place(number) as usize..][..LEN] == noise(number, LEN), "write {number}");
    }
}

fn arena_in(volume: &Volume<'_>) -> Option<PathBuf> {
    let mut entries = fs::read_dir(volume.folder()).unwrap().map(|entry| entry.unwrap().path());
    entries.find(|path| path.extension().is_some_and(|extension| extension == "arena"))
}

fn is_exempt(file: &std::path::Path) -> bool {
    let flags = run("lsattr", &[&file.display().to_string()]).unwrap();
    flags.split_whitespace().next().unwrap().contains('C')
}

/// Makes the arena as a version did that knew nothing of copying on write, or as a reflink leaves it.
fn make_copied(arena: &PathBuf) {
    let bytes = fs::read(arena).unwrap();
    fs::remove_file(arena).unwrap();
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(arena).unwrap();
    std::io::Write::write_all(&mut file, &bytes).unwrap();
    file.sync_all().unwrap();
}

#[test]
fn a_disk_that_fills_up_ends_no_server_whose_arena_is_on_it() {
    let btrfs = or_skip!(Btrfs::new());
    let volume = Volume::create(&btrfs.inside, FLAGS);
    let mut server = btrfs.serve(&volume, "1m");
    let arena = arena_in(&volume).expect("memory is too small for it");
    assert!(is_exempt(&arena));
    write_buffered(&volume, 0..12);
    btrfs.fill();
    // Each round is written back by the kernel, and the next one stores into the same blocks.
    for round in 1..6 {
        write_buffered(&volume, round * 12..(round + 1) * 12);
        run("sync", &[]).unwrap();
    }
    assert!(!server.has_ended(), "{}", server.complaints());
    must_have(&volume, 64..72);
    server.kill();
    for round in 6..8 {
        let mut server = btrfs.serve(&volume, "1m");
        says(&server.told("recovered: "), &["kept in memory"]);
        must_have(&volume, round * 12 - 8..round * 12);
        write_buffered(&volume, round * 12..(round + 1) * 12);
        server.kill();
    }
    btrfs.make_room();
    let server = btrfs.serve(&volume, "1m");
    must_have(&volume, 88..96);
    server.stop();
    assert_eq!(arena_in(&volume), None);
    says(&btrfs.inside.done("check disk").stdout, &[" 0 damaged"]);
}

#[test]
fn an_arena_that_may_not_stay_where_it_is_is_moved_and_loses_nothing() {
    let btrfs = or_skip!(Btrfs::new());
    let volume = Volume::create(&btrfs.inside, FLAGS);
    let mut server = btrfs.serve(&volume, "1m");
    write_buffered(&volume, 0..8);
    server.kill();
    let arena = arena_in(&volume).unwrap();
    make_copied(&arena);

    // There is room for it neither here nor there: it stays, and the volume says what to do.
    btrfs.fill();
    let before = fs::read(&arena).unwrap();
    let line = btrfs.refused("serve disk", "1m");
    says(&line, &["btrfs", "/dev/shm larger", "docker run -v /dev/shm", "buffer_bytes"]);
    assert!(fs::read(&arena).unwrap() == before);

    // To memory that has room by now.
    let mut server = btrfs.serve(&volume, "64m");
    assert_eq!(arena_in(&volume), None);
    must_have(&volume, 0..8);
    write_buffered(&volume, 8..16);
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0), "{}", server.complaints());
    btrfs.make_room();

    // To a file that is written in place.
    let mut server = btrfs.serve(&volume, "1m");
    must_have(&volume, 8..16);
    write_buffered(&volume, 16..24);
    server.kill();
    make_copied(&arena);
    let server = btrfs.serve(&volume, "1m");
    assert!(is_exempt(&arena));
    must_have(&volume, 16..24);
    drop(server);

    // A reflink of it has been made meanwhile.
    let copy = btrfs.inside.path("copy").display().to_string();
    run("touch", &[&copy]).unwrap();
    run("chattr", &["+C", &copy]).unwrap();
    run("cp", &["--reflink=always", &arena.display().to_string(), &copy]).unwrap();
    let mut server = btrfs.serve(&volume, "1m");
    btrfs.fill();
    for round in 2..5 {
        write_buffered(&volume, round * 12..(round + 1) * 12);
        run("sync", &[]).unwrap();
    }
    assert!(!server.has_ended(), "{}", server.complaints());
    must_have(&volume, 52..60);
    server.stop();
}

/// What is too large for memory is refused by `create` too, where the folder is no place for it either.
#[test]
fn what_finds_no_memory_is_refused_when_it_is_made() {
    let btrfs = or_skip!(Btrfs::new());
    let line = "create disk --size 32m --log-size 16m --sparse --buffer 64m";
    let file = btrfs.inside.path("large").display().to_string();
    run("fallocate", &["-l", "150m", &file]).unwrap();
    let said = Ran::of(line, run_in(&btrfs, line, "32m"));
    assert_eq!(said.code, Some(2), "{said:?}");
    says(&said.complaint(), &["--buffer", "/dev/shm"]);
    assert!(!btrfs.inside.path("disk").exists());
}

fn run_in(btrfs: &Btrfs, line: &str, memory: &str) -> std::process::Output {
    let mut command: Command = with_own_memory(&btrfs.inside.command(line), memory);
    command.output().unwrap()
}
