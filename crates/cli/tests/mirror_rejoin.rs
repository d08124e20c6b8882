//! Members of a mirror that are away for a while, and are taken back with what they missed.

mod support;

use std::fs;
use std::path::PathBuf;
use std::rc::Rc;

use evenkeel_engine::env::Env;
use evenkeel_host::event_loop::{Backend, EventLoop};
use evenkeel_host::service::mirror_status::MemberStatus;

use support::events::{count, lines_of, once, serve, stop};
use support::load::{Load, contents, read_all, write};
use support::model::Death;
use support::served::{Server, Volume, arenas_of, noise, patiently};
use support::{Scene, says};

const MIB: usize = 1 << 20;

/// Bytes of the mirror, and of its beginning where the load is.
const SIZE: usize = 96 * MIB;
const LOAD: usize = 8 * MIB;

/// Bytes of a request, at most.
const REQUEST: usize = 16 * MIB;

const FLAGS: &str = "--layout mirror --size 96m --log-size 16m --buffer 8m --sparse";

const TURNS: &str = "--turn 20ms --rest 1ms --rest-max 20ms --answer-max 60s";

/// A volume on a file, served to be a member, in a process that can be killed.
struct Far<'a> {
    scene: &'a Scene,
    number: usize,
    server: Server,
}

impl<'a> Far<'a> {
    fn create(scene: &'a Scene, number: usize) -> Self {
        scene.done(&format!("create far-{number} --size 128m --log-size 16m --buffer 8m --sparse"));
        Self { scene, number, server: Self::start(scene, number) }
    }

    fn start(scene: &Scene, number: usize) -> Server {
        let socket = Self::socket(scene, number);
        let command = scene.command(&format!("serve far-{number} --nbd unix:{}", socket.display()));
        let stderr = scene.path(&format!("stderr-{number}"));
        Server::start(scene.path(&format!("far-{number}")), stderr, command).ready()
    }

    fn socket(scene: &Scene, number: usize) -> PathBuf {
        scene.path(&format!("far-{number}.sock"))
    }

    fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", Self::socket(self.scene, self.number).display())
    }

    fn starts_again(&mut self) {
        self.server = Self::start(self.scene, self.number);
    }
}

impl Drop for Far<'_> {
    fn drop(&mut self) {
        self.server.kill();
        for arena in arenas_of(&self.scene.path(&format!("far-{}", self.number))) {
            let _gone_already_is_fine = fs::remove_file(arena);
        }
    }
}

/// Writes all of these at `offset`.
fn fill(volume: &Volume<'_>, offset: usize, bytes: &[u8]) {
    for (offset, part) in (offset..).step_by(REQUEST).zip(bytes.chunks(REQUEST)) {
        write(&volume.socket(), offset as u64, part);
    }
}

/// A mirror in files that holds these, and was stopped in order.
fn stopped<'a>(scene: &'a Scene, bytes: &[u8]) -> Volume<'a> {
    let volume = Volume::create(scene, FLAGS);
    let server = volume.serve(TURNS);
    fill(&volume, 0, bytes);
    server.stop();
    volume
}

#[track_caller]
fn members(server: &Server) -> Vec<MemberStatus> {
    server.status().mirror.expect("a mirror tells of its members").members
}

#[track_caller]
fn until_standing(server: &Server, place: usize, standing: &str) -> MemberStatus {
    patiently(standing, || Some(members(server).swap_remove(place)).filter(|it| it.standing == standing))
}

#[test]
fn a_member_that_is_killed_under_load_and_back_takes_what_it_missed_and_no_client_is_told() {
    let scene = Scene::new();
    let mut far: Vec<Far<'_>> = (0..3).map(|number| Far::create(&scene, number)).collect();
    let named: Vec<String> = far.iter().map(|it| format!("--member {0} --destroy {0}", it.uri())).collect();
    let volume = Volume::create(&scene, &format!("{FLAGS} {}", named.join(" ")));
    let rest = noise(7, SIZE - LOAD);
    let server = volume.serve(TURNS);
    fill(&volume, LOAD, &rest);
    server.stop();

    let load = Load::new(LOAD, 25);
    let mut server = volume.serve(TURNS);
    let event_loop = EventLoop::new(Backend::Auto).unwrap();
    load.run(&event_loop, &volume.socket(), |env| {
        let (load, server, far) = (Rc::clone(&load), &mut server, &mut far);
        async move {
            let some_requests = async |count: u64| {
                let until = load.answered.get() + count;
                while load.answered.get() < until && load.refusals.borrow().is_empty() {
                    env.sleep(500_000).await;
                }
            };
            let standing = async |place: usize, wanted: &str| {
                while members(server)[place].standing != wanted && load.refusals.borrow().is_empty() {
                    env.sleep(5_000_000).await;
                }
            };
            some_requests(300).await;
            far[1].server.kill();
            standing(1, "out").await;
            env.sleep(5_000_000_000).await;
            some_requests(300).await;
            let away = members(server)[1].clone();
            assert!(away.away_s.is_some() && away.lacks_bytes.is_some(), "{away:?}");
            far[1].starts_again();
            standing(1, "in-sync").await;
            some_requests(300).await;
            let back = members(server)[1].clone();
            assert!(back.lacks_bytes.is_some() && back.away_s.is_none(), "{back:?}");
            // Beside the load there are the sums of its pages.
            assert!(back.copied_bytes > 0 && back.copied_bytes <= 2 * LOAD as u64, "{back:?}");
            // From here on it is relied on alone.
            far[0].server.kill();
            far[2].server.kill();
            standing(0, "out").await;
            standing(2, "out").await;
            some_requests(100).await;
            server.kill();
        }
    });
    assert!(load.refusals.borrow().is_empty(), "{:?}", load.refusals.borrow());
    let server = volume.serve(TURNS);
    let mut found = read_all(&event_loop, &volume.socket());
    assert!(found.split_off(LOAD) == rest, "what nobody wrote to is other bytes");
    load.model.borrow_mut().judge(found, Death::Kill);
    // The others are taken back as soon as they are there.
    far[0].starts_again();
    far[2].starts_again();
    server.until_in_sync(true);
    server.stop();
    says(&scene.done("check disk").stdout, &[" 0 damaged", " 0 wrong"]);
}

#[test]
fn a_member_whose_file_is_back_is_taken_back_and_told_of() {
    let scene = Scene::new();
    let volume = stopped(&scene, &noise(1, SIZE));
    let (member, away) = (scene.path("disk/member-1"), scene.path("away"));
    fs::rename(&member, &away).unwrap();
    let server = serve(&volume, TURNS);
    write(&volume.socket(), 4096, &noise(2, MIB));
    assert_eq!(members(&server)[1].standing, "out");
    fs::rename(&away, &member).unwrap();
    let back = until_standing(&server, 1, "in-sync");
    assert!(back.lacks_bytes.is_some_and(|bytes| bytes < SIZE as u64 / 4), "{back:?}");
    assert!(back.copied_bytes < SIZE as u64 / 4, "{back:?}");
    once(&server, "rebuild-begun", "INFO", &["member 1", "it was away, and lacks "]);
    once(&server, "rebuild-ended", "INFO", &["member 1", "is taken back"]);
    stop(server);
    fs::rename(scene.path("disk/member-0"), &away).unwrap();
    let mut expected = noise(1, SIZE);
    expected[4096..][..MIB].copy_from_slice(&noise(2, MIB));
    volume.expect_contents("--rejoin off", &expected);
}

#[test]
fn what_somebody_else_put_there_is_left_alone_and_what_is_older_is_rebuilt_whole() {
    let scene = Scene::new();
    let volume = stopped(&scene, &noise(1, SIZE));
    let (member, away, older) = (scene.path("disk/member-1"), scene.path("away"), scene.path("older"));
    fs::copy(&member, &older).unwrap();
    let server = volume.serve(TURNS);
    write(&volume.socket(), 0, &noise(2, MIB));
    server.stop();
    fs::rename(&member, &away).unwrap();
    let server = serve(&volume, TURNS);
    write(&volume.socket(), 2 * MIB as u64, &noise(3, MIB));
    let strange = noise(9, fs::metadata(&away).unwrap().len() as usize);
    fs::write(&member, &strange).unwrap();
    once(
        &server,
        "member-refused",
        "WARN",
        &["member 1", "is not taken back", "is not this member", "replaced by name"],
    );
    assert_eq!(members(&server)[1].standing, "out");
    assert!(fs::read(&member).unwrap() == strange, "it was written to");
    fs::rename(&older, &member).unwrap();
    let back = until_standing(&server, 1, "in-sync");
    assert_eq!(back.lacks_bytes, None, "{back:?}");
    assert_eq!(count(&server, "member-refused"), 1);
    stop(server);
    says(&scene.done("check disk").stdout, &[" 0 damaged", " 0 wrong"]);
}

#[test]
fn a_person_decides_where_nobody_is_to_be_taken_back() {
    let scene = Scene::new();
    let volume = stopped(&scene, &noise(1, 4 * MIB));
    let (member, away) = (scene.path("disk/member-1"), scene.path("away"));
    fs::rename(&member, &away).unwrap();
    let server = serve(&volume, &format!("{TURNS} --rejoin off"));
    fs::rename(&away, &member).unwrap();
    // A quiet time later it is where it was.
    let asked = server.status().server.uptime_s;
    patiently("some seconds", || (server.status().server.uptime_s > asked + 3.0).then_some(()));
    assert_eq!(members(&server)[1].standing, "out");
    assert!(lines_of(&server, "rebuild-begun").is_empty());
    scene.done("replace disk member-1 member-1");
    until_standing(&server, 1, "in-sync");
    assert!(contents(&volume.socket())[..4 * MIB] == noise(1, 4 * MIB));
    stop(server);
}
