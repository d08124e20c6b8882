//! A volume that gets another layout while clients use it: what they wrote is there, whatever becomes of the conversion.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Command};

use evenkeel_engine::env::Env;
use evenkeel_host::event_loop::{Backend, EventLoop, Loop};

use crate::support::load::{Load, contents, read_all, write};
use crate::support::served::{Server, Volume, arenas_of, noise, patiently};
use crate::support::{Ran, Scene, says};

const FLAGS: &str = "--size 8m --log-size 4m --buffer 1m";
const SIZE: usize = 8 << 20;

/// At this pace the copy of a volume takes minutes.
const SLOWLY: &str = "--rebuild-rate 64KiB";

/// Files that the process holds open.
fn open_files(server: &Server) -> BTreeSet<String> {
    let entries = fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap();
    let targets = entries.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    targets.map(|target| target.display().to_string()).filter(|target| target.contains("/disk/")).collect()
}

fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

fn ended(line: &str, child: Child) -> Ran {
    Ran::of(line, child.wait_with_output().unwrap())
}

fn piped(mut command: Command) -> Child {
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
}

/// Waits until the server copies to the new members of a conversion.
fn until_copied_to(server: &Server) {
    patiently("a conversion under way", || {
        server.status().conversion.filter(|it| it.doing == "copying" && it.done_bytes > 0)
    });
}

#[test]
fn under_load_a_volume_goes_through_all_layouts_and_holds_what_its_clients_wrote() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let first_arenas = arenas_of(&volume.folder());
    let load = Load::new(SIZE, 1);
    let mut server = volume.serve("");
    let event_loop = EventLoop::new(Backend::Auto).unwrap();
    load.run(&event_loop, &volume.socket(), |env| {
        let (load, server, scene, volume) = (load.clone(), &mut server, &scene, &volume);
        async move {
            load.goes_on(&env, 300).await;
            for (line, layout, not_needed) in [
                ("--layout mirror --log-size 8m", "mirror", ["home", "log"]),
                ("--layout rs:2+1 --shard 8k --log-size 8m --log l0 --log l1 --member m0 --member m1 --member m2", "rs:2+1", ["member-1", "log-1"]),
                ("--layout single --log-size 4m --member single --log single-log", "single", ["m0", "l0"]),
            ] {
                let command = scene.command(&format!("convert disk {line}"));
                let ran = env.blocking(move || Ran::of(line, piped(command).wait_with_output().unwrap()));
                let ran = ran.await.unwrap();
                assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
                says(&ran.stdout, &[&format!("layout {layout} from now on"), "once it is stopped: evenkeel check disk"]);
                assert_eq!(server.status().volume.layout, layout);
                for name in not_needed {
                    assert!(!open_files(server).iter().any(|path| path.ends_with(name)), "{name} is still open");
                    let path = [format!("disk/{name}"), name.to_owned()].map(|name| scene.path(&name));
                    path.iter().filter(|path| path.exists()).for_each(|path| fs::remove_file(path).unwrap());
                }
                assert_eq!(arenas_of(&volume.folder()).len(), 1);
                load.goes_on(&env, 500).await;
            }
            server.kill();
        }
    });
    assert!(load.refusals.borrow().is_empty(), "{:?}", load.refusals.borrow());
    let server = volume.serve("");
    load.judge_after_kill(&volume);
    server.stop();
    says(&scene.done("check disk").stdout, &["0 damaged"]);
    assert!(first_arenas.iter().all(|arena| !arena.exists()));
}

/// When a server is killed that converts a volume.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Moment {
    /// The new members are described, and it copies to them.
    Copying,
    /// They are closed, and nothing names them.
    Closed,
    /// The description names them.
    Described,
    /// After so many requests.
    Later(u64),
}

impl Moment {
    async fn comes(self, env: &Loop, load: &Load, scene: &Scene) {
        let mut seen = 0;
        let mut has_come = || {
            let names = scene.names("disk");
            let is_there = names.iter().any(|name| name.starts_with(".evenkeel-convert-"));
            seen += u64::from(is_there);
            match self {
                Self::Copying | Self::Later(_) => is_there,
                Self::Closed => seen > 0 && !is_there,
                Self::Described => scene.text("disk/volume.toml").contains("layout = \"mirror\""),
            }
        };
        while !has_come() {
            env.sleep(20_000).await;
        }
        if let Self::Later(requests) = self {
            load.goes_on(env, requests).await;
        }
    }
}

#[test]
fn a_server_that_is_killed_while_it_converts_loses_nothing() {
    use Moment::{Closed, Copying, Described, Later};
    let mut moments = vec![Copying, Closed, Described, Later(200), Closed, Described, Later(1000)];
    // A soak goes on at moments that come later and later.
    let more = std::env::var("SEEDS").map_or(0, |text| text.parse().unwrap());
    moments.extend((0..more).map(|seed| Later(37 * (seed % 100))));
    for (seed, moment) in (0..).zip(moments) {
        let scene = Scene::new();
        let volume = Volume::create(&scene, FLAGS);
        let load = Load::new(SIZE, seed);
        let mut server = volume.serve("");
        let former = arenas_of(&volume.folder());
        let event_loop = EventLoop::new(Backend::Auto).unwrap();
        load.run(&event_loop, &volume.socket(), |env| {
            let (load, server, scene) = (load.clone(), &mut server, &scene);
            async move {
                load.goes_on(&env, 200).await;
                let converting = piped(scene.command("convert disk --layout mirror --log-size 8m"));
                moment.comes(&env, &load, scene).await;
                server.kill();
                let ran = ended("convert", converting);
                assert!(matches!(ran.code, Some(0 | 2)), "{ran:?}");
            }
        });
        assert!(load.refusals.borrow().is_empty(), "{:?}", load.refusals.borrow());
        let arenas = scene.run("arenas").stdout;
        let of_copy = format!("{}/.evenkeel-convert-", scene.path("disk").canonicalize().unwrap().display());
        let lines = arenas.lines().filter(|line| line.contains(&of_copy));
        lines.for_each(|line| assert!(!line.contains("nowhere else"), "{line}"));
        let server = volume.serve("");
        let layout = server.status().volume.layout;
        assert!(layout == "mirror" || layout == "single" && moment != Described, "{moment:?}: {layout}");
        load.judge_after_kill(&volume);
        server.stop();
        says(&scene.done("check disk").stdout, &["0 damaged"]);
        let left = scene.names("disk").into_iter().filter(|name| name.starts_with(".evenkeel-convert-"));
        let next = match layout.as_str() {
            "single" => "convert disk --layout single --log-size 4m --member next --log next-log",
            _ => {
                "convert disk --layout mirror --log-size 8m --member next --member next-1 --log next-log --log next-log-1"
            }
        };
        let left: Vec<String> = left.collect();
        scene.done(next);
        // Where it was killed just then, nobody looks for the former memory any more.
        former.iter().filter(|arena| arena.exists()).for_each(|arena| fs::remove_file(arena).unwrap());
        assert!(left.iter().all(|name| !scene.path("disk").join(name).exists()), "{left:?}");
    }
}

#[test]
fn a_cut_after_the_switch_keeps_what_was_flushed_before_it() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mut server = volume.serve("");
    let bytes = noise(3, SIZE);
    write(&volume.socket(), 0, &bytes);
    scene.done("convert disk --layout mirror --log-size 8m");
    assert!(contents(&volume.socket()) == bytes);
    server.kill();
    // The memory of the machine goes with it: what is left is what the drives have.
    for arena in arenas_of(&volume.folder()) {
        fs::remove_file(arena).unwrap();
    }
    volume.expect_contents("", &bytes);
}

#[test]
fn a_conversion_that_is_given_up_leaves_the_volume_served_as_it_was() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve(SLOWLY);
    let bytes = noise(4, SIZE);
    write(&volume.socket(), 0, &bytes);
    assert_eq!(server.status().conversion, None);
    let before = (scene.names("disk"), scene.text("disk/volume.toml"));
    let line = "convert disk --layout mirror --log-size 8m";
    let converting = piped(scene.command(line));
    until_copied_to(&server);
    says(&scene.done("status disk").stdout, &["converting copying: ", " MiB of 8 MiB ("]);
    says(&scene.refused("grow disk --size 16m --dry-run"), &["being converted"]);
    says(&scene.refused(line), &["another replacement or conversion is at work there"]);
    interrupt(&converting);
    let ran = ended(line, converting);
    assert_eq!(ran.code, Some(130), "{ran:?}");
    says(&ran.stderr, &["interrupted; nothing was left behind"]);
    assert_eq!((scene.names("disk"), scene.text("disk/volume.toml")), before);
    assert_eq!(arenas_of(&volume.folder()).len(), 1);
    // It grows again, and is as it was.
    says(&scene.done("grow disk --size 16m --dry-run").stdout, &["would grow from 8 MiB to 16 MiB"]);
    let status = server.status();
    assert_eq!((status.volume.layout.as_str(), status.conversion), ("single", None));
    server.stop();
    assert_eq!(scene.text("disk/volume.toml"), before.1);
}

#[test]
fn a_stop_ends_a_conversion_and_whoever_ordered_it_is_told() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve(SLOWLY);
    write(&volume.socket(), 0, &noise(6, SIZE));
    let names = scene.names("disk");
    let line = "convert disk --layout mirror --log-size 8m";
    let converting = piped(scene.command(line));
    until_copied_to(&server);
    server.stop();
    let ran = ended(line, converting);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    says(&ran.stderr, &["the conversion was given up, and the volume is what it was"]);
    let is_file = |name: &String| !name.ends_with(".sock");
    let files = |names: BTreeSet<String>| names.into_iter().filter(is_file).collect::<BTreeSet<_>>();
    assert_eq!(files(scene.names("disk")), files(names));
}

#[test]
fn what_cannot_take_its_place_is_refused_and_goes() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let bytes = noise(5, SIZE);
    let server = volume.serve("");
    write(&volume.socket(), 0, &bytes);
    let names = scene.names("disk");
    says(&scene.refused("convert disk --layout single"), &["disk/home", "--destroy"]);
    let over_itself = "convert disk --layout single --member disk/home --log new --destroy disk/home";
    says(&scene.refused(over_itself), &["disk/home"]);
    says(
        &scene.done("convert disk --layout mirror --log-size 8m --dry-run").stdout,
        &["would copy to a disk of 8 MiB in disk", "would stay as they are"],
    );
    assert_eq!(scene.names("disk"), names);
    server.stop();
    let server = volume.serve("--read-only");
    says(&scene.refused("convert disk --layout mirror --log-size 8m"), &["nothing of it changes"]);
    let found = read_all(&EventLoop::new(Backend::Auto).unwrap(), &volume.socket());
    assert!(found == bytes);
    server.stop();
}
