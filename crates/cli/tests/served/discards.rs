//! Discards that a member fails to carry out: a hint less, and nothing else.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use evenkeel_engine::device::{Durability, Extent};
use evenkeel_host::event_loop::{Backend, EventLoop};

use crate::support::events::{is_in_state, lines_of, serve};
use crate::support::load::{connect, contents, write};
use crate::support::root::{programs, run, system};
use crate::support::served::{Volume, noise, patiently};
use crate::support::{Scene, or_skip, says};

const SIZE: usize = 16 << 20;

/// Bytes that are given back.
const TRIMMED: Extent = Extent::new(1 << 20, 16 << 10);

/// An nbdkit whose export is well but for trims, ended with this.
struct Member {
    child: Child,
    socket: PathBuf,
}

impl Member {
    fn start(scene: &Scene, number: usize) -> Self {
        let socket = scene.path(&format!("member-{number}"));
        let mut nbdkit = system("nbdkit");
        nbdkit.args(["--foreground", "--filter=limit", "--filter=error", "--unix"]).arg(&socket);
        nbdkit.args(["memory", "64M", "limit=1", "error-trim=EIO", "error-trim-rate=100%"]);
        let child = nbdkit.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        patiently("nbdkit", || socket.exists().then_some(()));
        Self { child, socket }
    }

    fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket.display())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ended_already_is_fine = self.child.kill();
        let _ended_already_is_fine = self.child.wait();
    }
}

fn possible() -> Result<(), String> {
    programs(&["nbdkit"])?;
    run("nbdkit", &["--dump-plugin", "--filter=error", "memory"]).map(drop)
}

/// Gives a range back, durably.
fn trim(socket: &Path) {
    let event_loop = EventLoop::new(Backend::Auto).unwrap();
    let env = event_loop.handle();
    event_loop.block_on(async {
        let client = connect(&env, socket).await;
        client.trim(TRIMMED, Durability::Durable).await.unwrap();
    });
}

/// A volume on such members is filled, trimmed, stopped, started and checked, as if nothing were wrong with them. Answers
/// what it told of the discards.
fn goes_on(members: usize, flags: &str) -> String {
    let scene = Scene::new();
    let members: Vec<Member> = (0..members).map(|number| Member::start(&scene, number)).collect();
    let named: Vec<String> =
        members.iter().map(Member::uri).map(|uri| format!("--member {uri} --destroy {uri}")).collect();
    let sizes = format!("--size {SIZE} --log-size 16m --buffer 8m");
    let volume = Volume::create(&scene, &format!("{flags} {sizes} {}", named.join(" ")));

    let mut expected = noise(3, SIZE);
    let server = serve(&volume, "");
    write(&volume.socket(), 0, &expected);
    server.stop();

    let server = serve(&volume, "");
    trim(&volume.socket());
    expected[TRIMMED.offset as usize..TRIMMED.end() as usize].fill(0);
    // More than half of the log, so that it is taken home.
    let more = noise(4, SIZE / 2);
    write(&volume.socket(), SIZE as u64 / 2, &more);
    expected[SIZE / 2..].copy_from_slice(&more);
    write(&volume.socket(), SIZE as u64 / 4, &more[..SIZE / 4]);
    expected[SIZE / 4..SIZE / 2].copy_from_slice(&more[..SIZE / 4]);
    let told = patiently("a line for each", || {
        Some(lines_of(&server, "discards-stopped")).filter(|lines| lines.len() >= members.len())
    });
    assert!(server.status().counters.failed_discards >= members.len() as u64);
    is_in_state(&scene, &server, "ok", 0);
    assert!(contents(&volume.socket()) == expected);
    server.stop();

    let server = serve(&volume, "");
    assert!(contents(&volume.socket()) == expected);
    server.stop();
    says(&scene.done("check disk").stdout, &[" 0 damaged"]);
    assert_eq!(told.len(), members.len(), "once of each: {told:?}");
    told.iter().map(|line| line["message"].as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_member_that_fails_to_discard_keeps_its_volume() {
    or_skip!(possible());
    says(&goes_on(1, ""), &["member 0 (nbd", "failed to discard", "until the next start"]);
}

#[test]
fn a_mirror_of_members_that_fail_to_discard_loses_none() {
    or_skip!(possible());
    let told = goes_on(2, "--layout mirror");
    says(&told, &["member 0 (nbd", "member 1 (nbd", "failed to discard"]);
}
