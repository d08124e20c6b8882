//! Volumes that grow: with nobody serving them and under load, of one member and of several; whatever is in the way, and
//! whenever the process is killed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use evenkeel_engine::env::Env;
use evenkeel_host::event_loop::{Backend, EventLoop, Loop};

use crate::support::load::{Load, connect, contents, read_all, write};
use crate::support::model::Death;
use crate::support::served::{Chance, Volume, noise};
use crate::support::{Ran, Scene, or_skip, says};

const MIB: usize = 1 << 20;

const FLAGS: &str = "--size 32m --log-size 16m --buffer 8m";

const MIRROR_FLAGS: &str = "--size 32m --layout mirror --log-size 16m --buffer 8m";

/// What is in the volume's folder: every file with its length, and what volume.toml says.
fn state(volume: &Volume<'_>) -> (BTreeMap<String, u64>, String) {
    let entries = fs::read_dir(volume.folder()).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    let lengths =
        files.map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len()));
    (lengths.collect(), volume.scene.text("disk/volume.toml"))
}

/// Bytes with contents in the first half, and zeros behind them.
fn expect_grown(volume: &Volume<'_>, bytes: &[u8], size: usize) {
    let server = volume.serve("");
    let found = contents(&volume.socket());
    assert_eq!(found.len(), size);
    assert!(found[..bytes.len()] == *bytes, "what it held stays");
    assert!(found[bytes.len()..].iter().all(|&byte| byte == 0), "what is new is zeros");
    assert_eq!(server.status().volume.size_bytes, size as u64);
    server.stop();
}

fn filled<'a>(scene: &'a Scene, flags: &str) -> (Volume<'a>, Vec<u8>) {
    let volume = Volume::create(scene, flags);
    let bytes = noise(1, 32 * MIB);
    let server = volume.serve("");
    write(&volume.socket(), 0, &bytes[..16 * MIB]);
    write(&volume.socket(), 16 * MIB as u64, &bytes[16 * MIB..]);
    server.stop();
    (volume, bytes)
}

#[test]
fn one_that_nobody_serves_grows_with_its_files_and_keeps_what_it_holds() {
    for flags in
        [FLAGS, MIRROR_FLAGS, "--size 32m --layout mirror --log-on-members --log-size 16m --buffer 8m"]
    {
        let scene = Scene::new();
        let (volume, bytes) = filled(&scene, flags);
        let before = state(&volume);
        let planned = scene.done("grow disk --size 80m --dry-run").stdout;
        says(&planned, &["disk: would grow from 32 MiB to 80 MiB", "next: the same without --dry-run"]);
        assert_eq!(state(&volume), before, "nothing is written");
        says(&scene.done("grow disk --size 80m").stdout, &["disk: has grown from 32 MiB to 80 MiB"]);
        let (lengths, text) = state(&volume);
        says(&text, &["size_bytes = 83886080"]);
        for (name, length) in lengths.iter().filter(|(name, _)| *name != "volume.toml") {
            let is_log = name.starts_with("log");
            assert!(is_log || *length >= before.0[name] + 48 * MIB as u64, "{name}: {length} of {before:?}");
            assert!(!is_log || *length == before.0[name], "{name}");
        }
        says(&scene.done("grow disk --size 80m").stdout, &["80 MiB already: nothing to do"]);
        expect_grown(&volume, &bytes, 80 * MIB);
        // Across the page of the table, and once more.
        scene.done("grow disk --size 90m");
        expect_grown(&volume, &bytes, 90 * MIB);
        let checked = scene.done("check disk").stdout;
        says(&checked, &["8,192 pages checked", " 0 damaged"]);
    }
}

#[test]
fn what_cannot_be_is_refused_in_a_line_and_nothing_has_changed() {
    let scene = Scene::new();
    let (volume, bytes) = filled(&scene, FLAGS);
    let before = state(&volume);
    for (size, parts) in [
        ("16m", &["no volume shrinks"][..]),
        ("33000001", &["multiple of 4096"]),
        ("4000t", &["no volume is larger than 256 TiB"]),
        ("250t", &["home: cannot grow to 25", "free some room", "nothing has changed"]),
    ] {
        for dry_run in ["", "--dry-run"] {
            says(&scene.refused(&format!("grow disk --size {size} {dry_run}")), parts);
            assert_eq!(state(&volume), before, "{size}");
        }
    }
    let server = volume.serve("");
    for (size, parts) in
        [("16m", &["no volume shrinks"][..]), ("250t", &["cannot grow to", "nothing has changed"])]
    {
        says(&scene.refused(&format!("grow disk --size {size}")), parts);
        let after = state(&volume);
        assert_eq!(after, before, "{size}");
    }
    server.stop();
    expect_grown(&volume, &bytes, 32 * MIB);
    says(&scene.refused("grow nothing --size 64m"), &["nothing: no volume is here"]);
}

#[test]
fn a_growth_by_less_than_is_seen_in_three_digits_is_told_to_the_byte() {
    let scene = Scene::new();
    Volume::create(&scene, FLAGS);
    let told = scene.done("grow disk --size 32772k").stdout;
    says(&told, &["from 33554432 bytes (32 MiB) to 33558528 bytes (32 MiB)"]);
}

#[test]
fn a_refusal_names_sizes_in_units_and_speaks_of_no_opening() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let refuse = || {
        let line = scene.refused("grow disk --size 16m");
        says(&line, &["disk: cannot become 16 MiB: it has 32 MiB already, and no volume shrinks"]);
        assert!(!line.contains("open"), "{line}");
    };
    refuse();
    let server = volume.serve("");
    refuse();
    server.stop();
}

#[test]
fn growths_are_counted_and_the_last_one_says_so() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve("");
    for left in (0..16).rev() {
        let size = (32 << 20) + (16 - left) * 4096;
        let said = scene.done(&format!("grow disk --size {size}")).stdout;
        match left {
            0 => says(&said, &["no growth is left after this one"]),
            1 => says(&said, &["1 growth is left after this one"]),
            _ => says(&said, &[&format!("{left} growths are left after this one")]),
        }
    }
    let refuse = || {
        for dry_run in ["", "--dry-run"] {
            let line = scene.refused(&format!("grow disk --size 64m {dry_run}"));
            says(&line, &["disk: cannot grow: it has grown 16 times", "evenkeel create", "nbdcopy"]);
            assert!(!line.contains("open"), "{line}");
        }
    };
    refuse();
    server.stop();
    refuse();
}

#[test]
fn a_dry_run_is_refused_as_the_growth_is_where_a_damaged_page_cannot_go_home() {
    let scene = Scene::new();
    let (volume, bytes) = filled(&scene, FLAGS);
    let page = &bytes[5 * 4096..6 * 4096];
    let home = scene.bytes("disk/home");
    let at = home.chunks(4096).position(|chunk| chunk == page).unwrap();
    let file = fs::OpenOptions::new().write(true).open(scene.path("disk/home")).unwrap();
    file.write_all_at(&[!page[1000]], at as u64 * 4096 + 1000).unwrap();
    file.sync_all().unwrap();
    let mut server = volume.serve("");
    // The rest of the page is to come from the drive.
    write(&volume.socket(), 5 * 4096, &[9; 512]);
    let refuse = || {
        for dry_run in ["--dry-run", ""] {
            let before = state(&volume);
            let line = scene.refused(&format!("grow disk --size 64m {dry_run}"));
            says(&line, &["disk: cannot grow: page 5 is damaged", "write all of it anew"]);
            assert_eq!(state(&volume), before);
        }
    };
    refuse();
    server.kill();
    refuse();
    let server = volume.serve("");
    write(&volume.socket(), 5 * 4096, page);
    scene.done("grow disk --size 64m --dry-run");
    server.stop();
    scene.done("grow disk --size 64m --dry-run");
    scene.done("grow disk --size 64m");
    expect_grown(&volume, &bytes, 64 * MIB);
}

#[test]
fn a_dry_run_is_refused_as_the_growth_is_where_a_member_is_missing_or_lacks_writes() {
    let scene = Scene::new();
    let (volume, bytes) = filled(&scene, MIRROR_FLAGS);
    let refuse = |parts: &[&str]| {
        for dry_run in ["--dry-run", ""] {
            let before = state(&volume);
            says(&scene.refused(&format!("grow disk --size 64m {dry_run}")), parts);
            assert_eq!(state(&volume), before);
        }
    };
    let missing = &["member-1: ", "grows with all of its members", "evenkeel replace disk member-1 NEW"];
    fs::rename(scene.path("disk/member-1"), scene.path("away")).unwrap();
    refuse(missing);
    let server = volume.serve("");
    write(&volume.socket(), 0, &bytes[..4096]);
    refuse(missing);
    server.stop();
    fs::rename(scene.path("away"), scene.path("disk/member-1")).unwrap();
    refuse(&["member-1: ", "rebuilt while the volume is served", "evenkeel status disk"]);
}

#[test]
fn a_server_that_goes_away_while_it_is_asked_is_said_to_have_gone() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve("");
    let control = scene.path("disk/control.sock");
    fs::remove_file(&control).unwrap();
    let listener = UnixListener::bind(&control).unwrap();
    let gone = thread::spawn(move || {
        for answer in ["", "{\"refused\":nu", "{}}\n"] {
            let (mut stream, _) = listener.accept().unwrap();
            BufReader::new(&stream).read_line(&mut String::new()).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    for why in ["it went away before it had answered"; 2].into_iter().chain(["none of this version"]) {
        let line = scene.refused("grow disk --size 64m");
        says(&line, &["disk: its server does not answer", why, "evenkeel status"]);
        assert!(!line.contains("EOF") && !line.contains("column"), "{line}");
    }
    gone.join().unwrap();
    server.stop();
}

#[test]
fn a_description_from_before_is_brought_up_to_date_and_one_of_another_size_is_refused() {
    for flags in [FLAGS, MIRROR_FLAGS] {
        let scene = Scene::new();
        let (volume, bytes) = filled(&scene, flags);
        let before = scene.text("disk/volume.toml");
        scene.done("grow disk --size 64m");
        let after = scene.text("disk/volume.toml");
        let describe = |text: &str| fs::write(scene.path("disk/volume.toml"), text).unwrap();
        describe(&before.replace("33554432", "33558528"));
        says(&scene.refused("check disk"), &["size_bytes = 33558528", "the volume has 67108864"]);
        describe(&before);
        expect_grown(&volume, &bytes, 64 * MIB);
        assert_eq!(scene.text("disk/volume.toml"), after);
        describe(&before);
        says(&scene.done("grow disk --size 64m").stdout, &["64 MiB already"]);
        assert_eq!(scene.text("disk/volume.toml"), after);
    }
}

fn started(scene: &Scene, line: &str) -> Child {
    scene.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The end of a process, while the loop runs.
async fn end_of(env: &Loop, line: &str, mut child: Child) -> Ran {
    while child.try_wait().unwrap().is_none() {
        env.sleep(1_000_000).await;
    }
    Ran::of(line, child.wait_with_output().unwrap())
}

#[test]
fn one_that_is_served_grows_under_load_and_who_connects_then_sees_it() {
    for flags in [FLAGS, MIRROR_FLAGS] {
        let scene = Scene::new();
        let volume = Volume::create(&scene, flags);
        let load = Load::new(32 * MIB, 5);
        let mut server = volume.serve("");
        let event_loop = EventLoop::new(Backend::Auto).unwrap();
        let socket = volume.socket();
        load.run(&event_loop, &socket, |env| {
            let (load, server, scene, socket) = (Rc::clone(&load), &mut server, &scene, &socket);
            async move {
                let early = connect(&env, socket).await;
                load.goes_on(&env, 100).await;
                for size in [40, 70_u64] {
                    let line = format!("grow disk --size {size}m");
                    let ran = end_of(&env, &line, started(scene, &line)).await;
                    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
                    says(&ran.stdout, &["disk: has grown", "clients see it when they connect again"]);
                    let late = connect(&env, socket).await;
                    assert_eq!(late.negotiated().size_bytes, size << 20);
                    assert_eq!(early.negotiated().size_bytes, 32 << 20);
                    let last = (size << 20) - 4096;
                    late.write(last, &[7; 4096], evenkeel_engine::device::Durability::Durable).await.unwrap();
                    assert_eq!(server.status().volume.size_bytes, size << 20);
                    load.goes_on(&env, 100).await;
                }
                server.kill();
            }
        });
        assert!(load.refusals.take().is_empty());
        drop(server);
        let server = volume.serve("");
        let found = read_all(&event_loop, &volume.socket());
        assert_eq!(found.len(), 70 * MIB);
        load.model.borrow_mut().judge(found[..32 * MIB].to_vec(), Death::Kill);
        for (at, byte) in found.iter().enumerate().skip(32 * MIB) {
            let is_written = [40 * MIB, 70 * MIB].iter().any(|end| (end - 4096..*end).contains(&at));
            assert_eq!(*byte, if is_written { 7 } else { 0 }, "at {at}");
        }
        server.stop();
    }
}

#[test]
fn killed_at_any_moment_it_has_the_old_size_or_the_new_one_and_the_same_again_finishes_it() {
    let mut chance = Chance(std::process::id().into());
    for flags in [FLAGS, MIRROR_FLAGS] {
        let scene = Scene::new();
        let (volume, bytes) = filled(&scene, flags);
        let mut size = 32;
        for _ in 0..4 {
            let line = format!("grow disk --size {}m", size + 10);
            let mut child = started(&scene, &line);
            thread::sleep(Duration::from_micros(chance.below(80_000)));
            child.kill().unwrap();
            child.wait().unwrap();
            let server = volume.serve("");
            let found = server.status().volume.size_bytes as usize / MIB;
            assert!(found == size || found == size + 10, "{found}");
            server.stop();
            scene.done(&line);
            size += 10;
            expect_grown(&volume, &bytes, size * MIB);
        }
    }
}

#[test]
fn a_mirror_grows_with_all_its_members_or_not_at_all() {
    let scene = Scene::new();
    let (volume, bytes) = filled(&scene, MIRROR_FLAGS);
    let before = state(&volume);
    fs::rename(scene.path("disk/member-1"), scene.path("away")).unwrap();
    says(&scene.refused("grow disk --size 64m"), &["member-1"]);
    fs::rename(scene.path("away"), scene.path("disk/member-1")).unwrap();
    assert_eq!(state(&volume), before);
    // One that lacks writes is rebuilt first.
    fs::rename(scene.path("disk/member-1"), scene.path("away")).unwrap();
    let server = volume.serve("");
    write(&volume.socket(), 0, &bytes[..4096]);
    says(&scene.refused("grow disk --size 64m"), &["member-1"]);
    server.stop();
    fs::rename(scene.path("away"), scene.path("disk/member-1")).unwrap();
    let server = volume.serve("");
    server.until_in_sync(false);
    scene.done("grow disk --size 64m");
    server.stop();
    expect_grown(&volume, &bytes, 64 * MIB);
    // Whoever takes a member's place is as large, and it can be lost.
    fs::remove_file(scene.path("disk/member-0")).unwrap();
    scene.done("replace disk member-0 member-2");
    let server = volume.serve("");
    server.until_in_sync(false);
    server.stop();
    fs::remove_file(scene.path("disk/member-1")).unwrap();
    expect_grown(&volume, &bytes, 64 * MIB);
}

#[test]
fn a_member_is_replaced_while_the_volume_that_has_just_grown_is_served() {
    let scene = Scene::new();
    let (volume, bytes) = filled(&scene, MIRROR_FLAGS);
    let server = volume.serve("");
    scene.done("grow disk --size 64m");
    scene.done("replace disk member-0 member-2");
    server.until_in_sync(false);
    scene.done("replace disk member-1 member-1");
    server.until_in_sync(false);
    write(&volume.socket(), 63 << 20, &[7; 4096]);
    server.stop();
    // Both hold everything, and each as much as the volume has by now.
    fs::remove_file(scene.path("disk/member-1")).unwrap();
    let server = volume.serve("");
    let found = contents(&volume.socket());
    assert_eq!(found.len(), 64 * MIB);
    assert!(found[..bytes.len()] == bytes && found[63 << 20..][..4096] == [7; 4096]);
    server.stop();
}

#[test]
fn a_copy_by_other_programs_made_before_fits_behind_it() {
    let scene = Scene::new();
    or_skip!(crate::support::root::programs(&["nbdcopy", "nbdinfo"]));
    let (volume, bytes) = filled(&scene, FLAGS);
    let server = volume.serve("");
    scene.done("grow disk --size 64m");
    let size = Command::new("nbdinfo").args(["--size", &volume.uri()]).output().unwrap();
    assert_eq!(String::from_utf8(size.stdout).unwrap().trim(), "67108864");
    let image = scene.path("image");
    let copied = Command::new("nbdcopy").arg(volume.uri()).arg(&image).status().unwrap();
    assert!(copied.success());
    let image = fs::read(image).unwrap();
    assert!(image.len() == 64 * MIB && image[..32 * MIB] == bytes);
    server.stop();
}
