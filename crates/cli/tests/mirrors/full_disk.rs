//! A mirror whose members or log devices are on a file system that gets full: who fails, what clients hear, and what
//! there is once room was made.

use std::fs::{self, File};
use std::path::PathBuf;

use evenkeel_engine::device::Durability;
use evenkeel_host::event_loop::{Backend, EventLoop};
use evenkeel_host::nbd::client::ClientError;

use crate::support::events::{count, is_in_state, once, serve, stop};
use crate::support::load::{connect, contents};
use crate::support::root::{LoopDevice, Mounted, loop_devices, programs, run};
use crate::support::served::{Volume, noise, patiently};
use crate::support::{Scene, or_skip, says};

const FLAGS: &str = "--layout mirror --size 256m --buffer 4m --atomic-sectors yes --sparse";

/// Turns so short that there are many.
const TURNS: &str = "--rejoin off --turn 20ms --rest 1ms --rest-max 20ms";

/// Largest write that goes through the log.
const WRITE: usize = 16 << 10;

/// Writes on their way at once.
const DEPTH: usize = 16;

/// An ext4 of 300 MiB on a loop device, with so much in it that little room is left.
struct Small {
    _mounted: Mounted,
    _device: LoopDevice,
    folder: PathBuf,
}

impl Small {
    fn new(scene: &Scene) -> Result<Self, String> {
        loop_devices().and_then(|()| programs(&["mkfs.ext4", "fallocate"]))?;
        let device = LoopDevice::with_sectors(&scene.path("image"), 300 << 20, 4096)?;
        let folder = scene.path("small");
        Ok(Self { _mounted: device.mount_ext4(&folder)?, _device: device, folder })
    }

    /// Leaves so many bytes of room.
    fn fill(&self, left_bytes: u64) {
        let (folder, ballast) = (self.folder.display().to_string(), self.ballast());
        let found = run("stat", &["--file-system", "--format=%f %S", &folder]).unwrap();
        let (blocks, block_bytes) = found.trim().split_once(' ').unwrap();
        let room_bytes = blocks.parse::<u64>().unwrap() * block_bytes.parse::<u64>().unwrap();
        let ballast_bytes = (room_bytes - left_bytes).to_string();
        run("fallocate", &["--length", &ballast_bytes, &ballast.display().to_string()]).unwrap();
        File::open(ballast).unwrap().sync_all().unwrap();
    }

    fn make_room(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }
}

/// Writes durably from the beginning on until so many bytes are acknowledged, or a write fails; answers how many were, and
/// why the others were not.
fn write_durably(volume: &Volume<'_>, bytes: &[u8]) -> (usize, Option<ClientError>) {
    let event_loop = EventLoop::new(Backend::Auto).unwrap();
    let env = event_loop.handle();
    event_loop.block_on(async {
        let client = connect(&env, &volume.socket()).await;
        for (number, run) in bytes.chunks(WRITE * DEPTH).enumerate() {
            let start = number * WRITE * DEPTH;
            let write = |(part, piece): (usize, &[u8])| {
                client.write((start + part * WRITE) as u64, piece, Durability::Durable)
            };
            let under_way: Vec<_> = run.chunks(WRITE).enumerate().map(write).collect();
            for (part, done) in under_way.into_iter().enumerate() {
                if let Err(error) = done.await {
                    return (start + part * WRITE, Some(error));
                }
            }
        }
        (bytes.len(), None)
    })
}

/// That the volume holds this from its beginning on.
#[track_caller]
fn holds(volume: &Volume<'_>, bytes: &[u8]) {
    assert!(contents(&volume.socket())[..bytes.len()] == *bytes, "what was acknowledged is not there");
}

/// With room again it is whole from the next start on.
fn comes_back(scene: &Scene, volume: &Volume<'_>, bytes: &[u8]) {
    let server = serve(volume, TURNS);
    patiently("what failed", || (server.status().state.name == "ok").then_some(()));
    holds(volume, bytes);
    stop(server);
    says(&scene.done("check disk").stdout, &[" 0 wrong, 0 repaired"]);
}

#[test]
fn a_member_whose_file_system_is_full_fails_and_is_rebuilt_once_there_is_room() {
    let scene = Scene::new();
    let small = or_skip!(Small::new(&scene));
    let member = small.folder.join("member");
    let flags = format!("{FLAGS} --log-size 16m --member near --member {}", member.display());
    let volume = Volume::create(&scene, &flags);
    small.fill(24 << 20);
    let server = serve(&volume, TURNS);
    let bytes = noise(1, 64 << 20);
    let (acknowledged, failed) = write_durably(&volume, &bytes);
    assert_eq!((acknowledged, failed), (bytes.len(), None), "the other member goes on");
    let words = ["member 1 (", &member.display().to_string(), "is lost: ", "No space left on device"];
    once(&server, "member-lost", "ERROR", &words);
    says(&is_in_state(&scene, &server, "degraded", 1), &["No space left on device"]);
    assert_eq!(count(&server, "read-only"), 0);
    holds(&volume, &bytes);
    stop(server);
    small.make_room();
    comes_back(&scene, &volume, &bytes);
}

#[test]
fn a_log_device_has_its_room_and_one_that_lost_it_fails_and_is_made_whole_once_there_is_room() {
    let scene = Scene::new();
    let small = or_skip!(Small::new(&scene));
    let log = small.folder.join("log").display().to_string();
    let volume = Volume::create(&scene, &format!("{FLAGS} --log-size 64m --log near-log --log {log}"));
    small.fill(12 << 20);
    let server = serve(&volume, TURNS);
    assert_eq!(write_durably(&volume, &noise(2, 16 << 20)), (16 << 20, None));
    assert_eq!(count(&server, "log-device-lost"), 0, "all its room was taken at once");
    stop(server);
    small.make_room();
    // As a backup puts it back that keeps holes.
    let copy = small.folder.join("copy").display().to_string();
    run("cp", &["--sparse=always", &log, &copy]).unwrap();
    fs::rename(&copy, &log).unwrap();
    small.fill(12 << 20);
    let server = serve(&volume, TURNS);
    let bytes = noise(4, 48 << 20);
    assert_eq!(write_durably(&volume, &bytes), (bytes.len(), None), "the other log device goes on");
    once(
        &server,
        "log-device-lost",
        "ERROR",
        &["log device 1 (", &log, "is lost: ", "No space left on device"],
    );
    says(&is_in_state(&scene, &server, "degraded", 1), &["No space left on device"]);
    assert_eq!(count(&server, "read-only"), 0);
    holds(&volume, &bytes);
    stop(server);
    small.make_room();
    comes_back(&scene, &volume, &bytes);
}

#[test]
fn a_mirror_all_members_of_which_are_full_says_so_to_clients_and_keeps_what_was_acknowledged() {
    const ENOSPC: u32 = 28;
    let scene = Scene::new();
    let small = or_skip!(Small::new(&scene));
    let path = |name: &str| small.folder.join(name).display().to_string();
    let flags = format!("{FLAGS} --log-size 16m --member {} --member {}", path("one"), path("other"));
    let volume = Volume::create(&scene, &flags);
    small.fill(24 << 20);
    let mut server = serve(&volume, TURNS);
    let bytes = noise(3, 96 << 20);
    let (acknowledged, failed) = write_durably(&volume, &bytes);
    let failed = failed.expect("there is no room for all of it");
    assert!(matches!(failed, ClientError::Server { errno: ENOSPC, .. }), "{failed}");
    assert!(acknowledged > 0);
    once(&server, "read-only", "ERROR", &["takes no writes any more", "no room is left"]);
    says(&is_in_state(&scene, &server, "read-only", 1), &["no room is left"]);
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(1));
    small.make_room();
    comes_back(&scene, &volume, &bytes[..acknowledged]);
}
