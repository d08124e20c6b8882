//! What a killed server of a volume still had on its way to a member does not land after what the next one writes.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use evenkeel_host::event_loop::{Backend, EventLoop};
use evenkeel_host::nbd::client::connect as connect_nbd;
use evenkeel_host::nbd::proto::writer::Writer;
use evenkeel_host::nbd::uri::NbdUri;

use crate::support::far::{FarVolume, uri};
use crate::support::load::{contents, write};
use crate::support::root::{programs, system};
use crate::support::served::{Peer, Volume, noise, patiently};
use crate::support::{Scene, or_skip, says};

/// What the volume has beside its member.
const NEAR: &str = "--size 16m --log-size 16m --buffer 4m";

/// A volume `far` that is served to any number of clients.
fn far(scene: &Scene) -> FarVolume<'_> {
    FarVolume::create(scene, "far", "--size 32m --log-size 16m --buffer 4m", "")
}

/// A network between a volume and its member's server. It holds back what the connections there are send from a moment on,
/// keeps them up for as long, and delivers it later.
struct Network {
    socket: PathBuf,
    state: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
struct State {
    connections: usize,
    /// Of so many connections, the oldest, bytes are held back.
    held: usize,
    /// Bytes that are held back now.
    waiting: usize,
    /// Connections that delivered everything and ended.
    ended: BTreeSet<usize>,
}

impl Network {
    fn new(scene: &Scene, far: &Path) -> Self {
        let (socket, far) = (scene.path("network.sock"), far.to_owned());
        let state: Arc<(Mutex<State>, Condvar)> = Arc::default();
        let (listener, shared) = (UnixListener::bind(&socket).unwrap(), Arc::clone(&state));
        thread::spawn(move || {
            for near in listener.incoming() {
                let (Ok(near), Ok(far)) = (near, UnixStream::connect(&far)) else { return };
                let number = shared.0.lock().unwrap().connections;
                shared.0.lock().unwrap().connections += 1;
                let (from, to) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                let state = Arc::clone(&shared);
                thread::spawn(move || deliver(from, to, number, &state));
                thread::spawn(move || give_back(far, near));
            }
        });
        Self { socket, state }
    }

    /// From now on what the connections there are send is under way.
    fn hold(&self) {
        let mut state = self.state.0.lock().unwrap();
        state.held = state.connections;
    }

    fn waiting(&self) -> usize {
        self.state.0.lock().unwrap().waiting
    }

    /// What was under way arrives, all of it.
    fn release(&self) {
        let mut state = self.state.0.lock().unwrap();
        let held = std::mem::take(&mut state.held);
        self.state.1.notify_all();
        while !(0..held).all(|number| state.ended.contains(&number)) {
            state = self.state.1.wait(state).unwrap();
        }
    }
}

/// Passes on what comes, when it may.
fn deliver(mut from: UnixStream, mut to: UnixStream, number: usize, state: &(Mutex<State>, Condvar)) {
    let (mut bytes, mut held) = (vec![0; 64 << 10], Vec::new());
    loop {
        let came = from.read(&mut bytes);
        let is_over = !matches!(came, Ok(1..));
        held.extend_from_slice(&bytes[..came.unwrap_or(0)]);
        let mut now = state.0.lock().unwrap();
        if number < now.held && !is_over {
            now.waiting += held.len();
            continue;
        }
        // The sender is gone; what it sent is not.
        while number < now.held {
            now = state.1.wait(now).unwrap();
        }
        drop(now);
        let is_gone = to.write_all(&std::mem::take(&mut held)).is_err();
        if is_over || is_gone {
            break;
        }
    }
    let _gone_already_is_fine = to.shutdown(Shutdown::Write);
    // Everything has been taken once the other side ends, too.
    let _its_answers_go_nowhere = std::io::copy(&mut to, &mut std::io::sink());
    state.0.lock().unwrap().ended.insert(number);
    state.1.notify_all();
}

/// Passes answers on, until nobody takes them.
fn give_back(mut from: UnixStream, mut to: UnixStream) {
    let _nobody_may_be_left = std::io::copy(&mut from, &mut to);
    let _gone_already_is_fine = to.shutdown(Shutdown::Write);
}

#[test]
fn what_a_killed_server_sent_late_does_not_land_after_the_next_ones_writes() {
    let scene = Scene::new();
    let far = far(&scene);
    let network = Network::new(&scene, &far.socket);
    let member = uri(&network.socket);
    let volume = Volume::create(&scene, &format!("{NEAR} --member {member} --destroy {member}"));

    let mut server = volume.serve("");
    write(&volume.socket(), 0, &noise(1, 1_000_000));
    network.hold();
    // It takes its pages home, and is killed while they are under way.
    server.signal("TERM");
    patiently("pages on their way home", || (network.waiting() > 100_000).then_some(()));
    server.kill();

    let server = volume.serve("");
    write(&volume.socket(), 0, &noise(2, 1_000_000));
    server.stop();
    network.release();
    assert!(contents_of(&volume)[..1_000_000] == *noise(2, 1_000_000), "late writes landed");
    says(&scene.done("check disk").stdout, &[" 0 damaged"]);
    drop(far);
}

/// What the volume holds, after a start.
fn contents_of(volume: &Volume<'_>) -> Vec<u8> {
    let server = volume.serve("");
    let found = contents(&volume.socket());
    server.stop();
    found
}

#[test]
fn a_server_that_takes_several_connections_is_refused_unless_its_owner_answers_for_it() {
    or_skip!(programs(&["nbdkit", "qemu-nbd"]));
    let scene = Scene::new();
    let image = scene.path("image.raw");
    std::fs::write(&image, vec![0; 32 << 20]).unwrap();
    let qemu_nbd = |name: &str, more: &[&str]| {
        let socket = scene.path(name);
        let mut command = system("qemu-nbd");
        command.args(["--persistent", "--format=raw"]).args(more).arg("--socket").arg(&socket).arg(&image);
        (Peer::start(command, &socket), uri(&socket))
    };
    let nbdkit = |name: &str, filter: &[&str], more: &[&str]| {
        let socket = scene.path(name);
        let mut command = system("nbdkit");
        command.args(["--foreground", "--unix"]).arg(&socket).args(filter).args(["memory", "32M"]).args(more);
        (Peer::start(command, &socket), uri(&socket))
    };
    let create =
        |member: &str, more: &str| format!("create disk {NEAR} --member {member} --destroy {member} {more}");
    for (_server, member) in [qemu_nbd("shared.sock", &["--shared=2"]), nbdkit("many.sock", &[], &[])] {
        let line = scene.refused(&create(&member, ""));
        says(
            &line,
            &[&member, "several connections", "--shared", "limit=1", "unfenced = true", "--unfenced"],
        );
        assert!(!scene.path("disk").exists(), "something was made");

        scene.done(&create(&member, "--unfenced"));
        let description = scene.text("disk/volume.toml");
        says(&description, &["unfenced = true"]);
        says(&scene.done("check disk").stdout, &[" 0 damaged"]);
        // It stands for what it says, at each opening.
        std::fs::write(scene.path("disk/volume.toml"), description.replace("unfenced = true\n", "")).unwrap();
        says(&scene.refused("serve disk"), &[&member, "several connections", "unfenced = true"]);
        // Who writes nothing needs no fence.
        says(&scene.done("check disk").stdout, &[" 0 damaged"]);
        std::fs::remove_dir_all(scene.path("disk")).unwrap();
    }
    for (_server, member) in
        [qemu_nbd("alone.sock", &[]), nbdkit("one.sock", &["--filter=limit"], &["limit=1"])]
    {
        scene.done(&create(&member, ""));
        says(&scene.done("check disk").stdout, &[" 0 damaged"]);
        assert!(!scene.text("disk/volume.toml").contains("unfenced"));
        std::fs::remove_dir_all(scene.path("disk")).unwrap();
    }
}

#[test]
fn two_volumes_do_not_share_an_export() {
    let scene = Scene::new();
    let far = far(&scene);
    let member = far.uri.clone();
    let volume = Volume::create(&scene, &format!("{NEAR} --member {member} --destroy {member}"));
    let server = volume.serve("");
    write(&volume.socket(), 0, b"contents");
    let line = scene.refused(&format!("create other {NEAR} --member {member} --destroy {member}"));
    says(&line, &[&member, "another volume writes to the export"]);
    assert!(!scene.path("other").exists(), "something was made");
    // Whoever only looks is served, and cannot do any harm.
    assert!(contents(&far.socket).len() == 32 << 20);
    assert_eq!(server.status().failure, None);

    server.stop();
    says(&scene.done("check disk").stdout, &[" 0 damaged"]);
    drop(far);
}

/// A server that opened the volume earlier and comes back later, as one of which the network was away: it is told to stop,
/// and the one that is there goes on.
#[test]
fn an_earlier_opening_does_not_come_back() {
    for layout in ["", "--layout mirror --member disk/near"] {
        let scene = Scene::new();
        let far = far(&scene);
        let member = far.uri.clone();
        let options = format!("{NEAR} --member {member} --destroy {member} {layout}");
        let volume = Volume::create(&scene, &options);
        volume.serve("").stop();
        let server = volume.serve("");
        write(&volume.socket(), 0, b"contents");

        // What the first opening of the drive was, and one that has not got as far as that.
        let text = scene.text("disk/volume.toml");
        let id = text.lines().find_map(|line| line.strip_prefix("id = ")).unwrap().trim_matches('"');
        let volume_id = u64::from_str_radix(id, 16).unwrap();
        let event_loop = EventLoop::new(Backend::Auto).unwrap();
        let handle = event_loop.handle();
        for number in [Some(1), Some(2), None] {
            let earlier = Writer { volume: volume_id, opening: 1, drive: 0, number };
            let uri: NbdUri = member.parse().unwrap();
            let refused =
                event_loop.block_on(async { connect_nbd(&handle, &uri, Some(earlier)).await.map(drop) });
            says(
                &refused.unwrap_err().source.to_string(),
                &["opened the same volume later", "stop that one"],
            );
        }
        write(&volume.socket(), 0, b"CONTENTS");
        assert_eq!(server.status().failure, None);
        server.stop();
        says(&scene.done("check disk").stdout, &[" 0 damaged"]);
        drop(far);
    }
}
