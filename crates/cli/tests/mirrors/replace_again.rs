//! Replacements that were cut short, asked for twice, or by two at once.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixListener;
use std::process::{Output, Stdio};
use std::thread;
use std::time::Duration;

use crate::support::load::contents;
use crate::support::served::{Ended, Server, Volume, noise, patiently};
use crate::support::{Ran, Scene, says};

const SIZE: usize = 16 << 20;

const FLAGS: &str = "--layout mirror --size 16m --log-size 16m --buffer 8m --atomic-sectors yes";

/// What a new one has to promise that the others do.
const ATOMIC: &str = "--atomic-sectors yes";

/// A mirror that was written whole.
fn written(scene: &Scene) -> Volume<'_> {
    Volume::stopped(scene, FLAGS, &noise(1, SIZE))
}

/// Waits until every member holds everything, and that this is what was written.
#[track_caller]
fn is_whole(volume: &Volume<'_>, server: Server) {
    server.until_in_sync(false);
    assert!(contents(&volume.socket()) == noise(1, SIZE));
    server.stop();
}

/// Starts a command.
fn started(scene: &Scene, line: &str) -> Ended {
    Ended(scene.command(line).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
}

/// How it ended.
fn ran(line: &str, mut started: Ended) -> Ran {
    let mut stderr = Vec::new();
    std::io::Read::read_to_end(&mut started.0.stderr.take().unwrap(), &mut stderr).unwrap();
    let status = started.0.wait().unwrap();
    Ran::of(line, Output { status, stdout: Vec::new(), stderr })
}

/// Has a replacement done. The kernel may close a moment later what a process has let go: then it is asked for again.
#[track_caller]
fn done_soon(scene: &Scene, line: &str) -> Ran {
    patiently("its end", || {
        let ran = scene.run(line);
        let is_passing = ran.code == Some(2) && ran.complaint().contains("in use");
        assert!(ran.code == Some(0) || is_passing, "{ran:?}");
        (!is_passing).then_some(ran)
    })
}

/// Has a replacement done that was cut: by the same command, or by the one that it names.
#[track_caller]
fn done_again(scene: &Scene, line: &str, new: &str) {
    let again = scene.run(line);
    if again.code != Some(0) {
        assert!(["--destroy", "in use"].iter().any(|it| again.complaint().contains(it)), "{again:?}");
        done_soon(scene, &format!("{line} --destroy {new}"));
    }
}

#[test]
fn what_was_cut_before_it_was_described_is_done_by_the_same_command_and_then_nothing_is_left() {
    for (old, is_served) in [("member-1", false), ("member-1", true), ("log-1", false)] {
        let scene = Scene::new();
        let volume = written(&scene);
        let description = scene.bytes("disk/volume.toml");
        let line = format!("replace disk {old} new {ATOMIC}");
        done_soon(&scene, &line);
        fs::write(scene.path("disk/volume.toml"), description).unwrap();
        fs::write(scene.path("disk/volume.toml.new"), "half of").unwrap();
        let server = is_served.then(|| volume.serve(""));
        says(&done_soon(&scene, &line).stdout, &["new takes the place of "]);
        for _ in 0..2 {
            let stdout = done_soon(&scene, &line).stdout;
            says(
                &stdout,
                &[
                    "new is in its place already, and ",
                    " is no member or log device (any more): nothing to do",
                ],
            );
        }
        is_whole(&volume, server.unwrap_or_else(|| volume.serve("")));
        // It holds everything now, and is nobody's to overwrite.
        fs::rename(scene.path("new"), scene.path("moved")).unwrap();
        let line = format!("replace disk {old} moved {ATOMIC} --destroy moved");
        scene.refused(&line.replace(old, "member-0"));
    }
}

#[test]
fn a_file_that_was_half_made_is_refused_with_what_to_add() {
    let scene = Scene::new();
    let volume = written(&scene);
    let line = format!("replace disk member-0 new {ATOMIC}");
    for half in [&b""[..], &[0; 10_000]] {
        fs::write(scene.path("new"), half).unwrap();
        says(&scene.refused(&line), &["new: it exists", "--destroy new"]);
    }
    scene.done(&format!("{line} --destroy new"));
    is_whole(&volume, volume.serve(""));
}

#[test]
fn what_a_server_took_that_is_gone_before_it_answers_is_kept() {
    let scene = Scene::new();
    let volume = written(&scene);
    let described = fs::File::open(scene.path("disk/volume.toml")).unwrap();
    described.lock().unwrap();
    let listen = |name: &str| UnixListener::bind(scene.path(&format!("disk/{name}"))).unwrap();
    let (_status, control) = (listen("status.sock"), listen("control.sock"));
    let gone = thread::spawn(move || {
        for order in ["consider", "consider", "replace"] {
            let (mut stream, _) = control.accept().unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            says(&line, &[order]);
            if order == "consider" {
                std::io::Write::write_all(&mut stream, b"{\"refused\":null}\n").unwrap();
            }
        }
    });
    let line = format!("replace disk member-0 new {ATOMIC}");
    says(&scene.refused(&line), &["its server does not answer", "evenkeel status"]);
    gone.join().unwrap();
    assert!(scene.path("new").exists(), "it may be a member by now");
    drop(described);
    for socket in ["status.sock", "control.sock"] {
        fs::remove_file(scene.path(&format!("disk/{socket}"))).unwrap();
    }
    done_again(&scene, &line, "new");
    is_whole(&volume, volume.serve(""));
}

#[test]
fn a_command_or_a_server_that_is_killed_at_any_moment_costs_a_second_command() {
    let scene = Scene::new();
    let volume = written(&scene);
    let mut old = "member-0".to_owned();
    for step in 0..16_u64 {
        let (new, is_served) = (format!("new{step}"), step % 2 == 1);
        let line = format!("replace disk {old} {new} {ATOMIC}");
        let mut server = is_served.then(|| volume.serve(""));
        let mut replacing = started(&scene, &line);
        // Spread over what it takes.
        thread::sleep(Duration::from_millis(step / 2 * 25));
        match &mut server {
            Some(server) => server.kill(),
            None => replacing.0.kill().unwrap(),
        }
        let _killed_or_not = ran(&line, replacing);
        let server = is_served.then(|| volume.serve(""));
        done_again(&scene, &line, &new);
        is_whole(&volume, server.unwrap_or_else(|| volume.serve("")));
        old = scene.path(&new).display().to_string();
    }
}

#[test]
fn of_two_commands_at_once_one_replaces_and_the_other_is_told() {
    let scene = Scene::new();
    let volume = written(&scene);
    let mut old = "member-0".to_owned();
    for step in 0..6 {
        let server = (step % 2 == 1).then(|| volume.serve(""));
        let news = [format!("one{step}"), format!("two{step}")];
        let lines = news.each_ref().map(|new| format!("replace disk {old} {new} {ATOMIC}"));
        let both = lines.each_ref().map(|line| started(&scene, line));
        let ends: Vec<Ran> = lines.iter().zip(both).map(|(line, started)| ran(line, started)).collect();
        let winner = ends.iter().position(|end| end.code == Some(0)).unwrap_or_else(|| panic!("{ends:?}"));
        let loser = &ends[1 - winner];
        assert_eq!(loser.code, Some(2), "{ends:?}");
        says(&loser.complaint(), &[&old]);
        assert!(!scene.path(&news[1 - winner]).exists(), "what was made in vain goes again");
        is_whole(&volume, server.unwrap_or_else(|| volume.serve("")));
        old = scene.path(&news[winner]).display().to_string();
        assert!(scene.text("disk/volume.toml").contains(&old));
    }
}

#[test]
fn of_two_commands_at_once_the_one_that_is_told_has_overwritten_nothing() {
    let scene = Scene::new();
    let volume = written(&scene);
    let server = volume.serve("");
    let mut old = "member-0".to_owned();
    for step in 0..6 {
        let news = [format!("one{step}"), format!("two{step}")];
        news.iter().for_each(|new| fs::write(scene.path(new), noise(7, 1 << 20)).unwrap());
        let lines = news.each_ref().map(|new| format!("replace disk {old} {new} {ATOMIC} --destroy {new}"));
        let both = lines.each_ref().map(|line| started(&scene, line));
        let ends: Vec<Ran> = lines.iter().zip(both).map(|(line, started)| ran(line, started)).collect();
        let winner = ends.iter().position(|end| end.code == Some(0)).unwrap_or_else(|| panic!("{ends:?}"));
        assert_eq!(ends[1 - winner].code, Some(2), "{ends:?}");
        assert!(scene.bytes(&news[1 - winner]) == noise(7, 1 << 20), "{ends:?}");
        old = scene.path(&news[winner]).display().to_string();
        server.until_in_sync(false);
    }
    is_whole(&volume, server);
}
