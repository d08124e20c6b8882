//! Power cuts for real processes: the volume lies on a drive with a volatile cache that is lost in the cut.
//!
//! ```text
//! clients - evenkeel serve - loop device - nbdfuse - nbdkit with a cache in memory - file
//! ```
//!
//! nbdkit keeps every write in its memory until it is told to flush. In the cut it is killed with the server, and
//! the arena is removed: what is left is what was flushed all the way down.

#![allow(clippy::print_stderr, reason = "what was tried is for whoever runs it")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::rc::Rc;

use evenkeel_engine::env::Env;
use evenkeel_host::event_loop::{Backend, EventLoop};

use crate::support::attached::{Disk, Running, possible};
use crate::support::load::{Load, read_all};
use crate::support::model::Death;
use crate::support::root::{programs, run, system};
use crate::support::served::{Volume, patiently};
use crate::support::{Scene, or_skip};

const SIZE: usize = 32 << 20;

/// Cuts, each under a load of its own.
const CUTS: usize = 6;

/// A drive with a volatile cache.
struct Drive {
    // The disk goes while nbdkit still answers, unless that was killed.
    disk: Disk,
    nbdkit: Running,
}

impl Drive {
    /// Over `image`; it answers at `link`, whatever its number is this time.
    fn plug_in(image: &Path, socket: &Path, point: &Path, link: &Path) -> Self {
        let _none_is_fine = std::fs::remove_file(socket);
        let mut command = system("nbdkit");
        command.arg("--foreground").arg("--unix").arg(socket).args(["--filter=cache", "file"]);
        command.arg(image).arg("cache=writeback").stdout(Stdio::null()).stderr(Stdio::null());
        let nbdkit = Running::spawn(&mut command);
        patiently("the socket of nbdkit", || socket.exists().then_some(()));
        let disk = Disk::attach(socket, point);
        let _none_is_fine = std::fs::remove_file(link);
        symlink(&disk.node, link).unwrap();
        Self { disk, nbdkit }
    }

    /// Its cache is lost.
    fn cut(mut self) {
        self.nbdkit.0.kill().unwrap();
        self.nbdkit.0.wait().unwrap();
        drop(self.disk);
    }
}

fn all_possible() -> Result<(), String> {
    possible().and_then(|()| programs(&["nbdkit"]))?;
    run("nbdkit", &["--dump-plugin", "--filter=cache", "file"]).map(drop)
}

#[test]
fn a_power_cut_takes_only_what_was_not_flushed() {
    or_skip!(all_possible());
    let scene = Scene::new();
    // Sockets' addresses are short.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let image: PathBuf = scene.path("image");
    std::fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let (socket, point, link) = (folder.path().join("nbdkit"), scene.path("fuse"), scene.path("drive"));
    let plug_in = || Drive::plug_in(&image, &socket, &point, &link);

    let mut drive = plug_in();
    let volume = Volume::create(
        &scene,
        "--size 32m --log-size 16m --buffer 8m --atomic-sectors yes --member drive --destroy drive",
    );
    let load = Load::new(SIZE, u64::from(std::process::id()) << 16);
    let mut unflushed = 0;
    for cut in 0..CUTS {
        let mut server = volume.serve(if cut % 3 == 2 { "--backend threads" } else { "" });
        let event_loop = EventLoop::new(Backend::Auto).unwrap();
        let mut going = Some(drive);
        load.run(&event_loop, &volume.socket(), |env| {
            let (load, server, going) = (Rc::clone(&load), &mut server, &mut going);
            async move {
                let until = load.answered.get() + 300 + load.draw().below(1000);
                while load.answered.get() < until && load.refusals.borrow().is_empty() {
                    env.sleep(500_000).await;
                }
                // First the drive, first the server, or the server in the middle of its stop.
                match cut % 3 {
                    0 => going.as_mut().unwrap().nbdkit.0.kill().unwrap(),
                    1 => {}
                    _ => server.signal("TERM"),
                }
                env.sleep(load.draw().below(5_000_000)).await;
                server.kill();
            }
        });
        // A drive that is gone and a server that stops are told to clients.
        let refusals = load.refusals.take();
        assert!(refusals.is_empty() || cut % 3 != 1, "{refusals:?}");
        unflushed += load.model.borrow().unflushed();
        going.take().unwrap().cut();
        // A server that was told to stop may have come to its end before it was killed: then it left none.
        if let Some(arena) = volume.arena() {
            std::fs::remove_file(arena).unwrap();
        } else {
            assert_eq!(cut % 3, 2, "a server that is killed leaves its arena");
        }

        drive = plug_in();
        // What recovery serves is durable already: half of the time another cut comes at once.
        let mut server = volume.serve("");
        let mut found = read_all(&event_loop, &volume.socket());
        if cut % 2 == 1 {
            server.kill();
            drive.cut();
            std::fs::remove_file(volume.arena().unwrap()).unwrap();
            drive = plug_in();
            server = volume.serve("");
            let again = read_all(&event_loop, &volume.socket());
            assert!(again == found, "cut {cut}: what recovery served was taken back");
            found = again;
        }
        eprintln!("cut {cut}: {} requests answered so far", load.answered.get());
        load.model.borrow_mut().judge(found, Death::Power);
        drop(server);
    }
    assert!(unflushed > 0, "the load left nothing that may be lost");
    assert!(scene.done("check disk").stdout.contains(" 0 damaged"));
    drop(drive);
}
