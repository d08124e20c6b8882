//! `evenkeel status --watch`: figures of intervals, in lines, as JSON and on a terminal.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

use evenkeel_host::service::status::Status;

use crate::support::load::{contents, write};
use crate::support::root::programs;
use crate::support::served::{Ended, Volume, noise, patiently};
use crate::support::{Scene, or_skip, says};

const FLAGS: &str = "--size 32m --log-size 16m --buffer 4m";

/// A watch whose lines are read one by one.
struct Watch {
    lines: BufReader<ChildStdout>,
    process: Ended,
}

impl Watch {
    fn start(scene: &Scene, flags: &str) -> Self {
        let mut command = scene.command(&format!("status disk --watch {flags}"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { lines, process: Ended(child) }
    }

    /// The next line.
    #[track_caller]
    fn line(&mut self) -> String {
        let mut line = String::new();
        let len = self.lines.read_line(&mut line).unwrap();
        assert!(len > 0, "it ended");
        line.trim_end().to_owned()
    }

    /// The next document.
    #[track_caller]
    fn document(&mut self) -> Status {
        serde_json::from_str(&self.line()).unwrap()
    }

    fn signal(&self, name: &str) {
        let id = self.process.0.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    /// Exit code and last words on standard error.
    fn end(mut self) -> (Option<i32>, String) {
        let child: &mut Child = &mut self.process.0;
        let code = patiently("the end of the watch", || child.try_wait().unwrap()).code();
        let mut words = String::new();
        child.stderr.take().unwrap().read_to_string(&mut words).unwrap();
        (code, words)
    }
}

#[test]
fn each_document_tells_what_came_since_the_one_before() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve("");
    // What was before the watch is in no interval.
    write(&volume.socket(), 0, &noise(1, 1 << 20));
    let before = server.status();
    let mut watch = Watch::start(&scene, "--json --interval 100ms");
    let first = watch.document();
    write(&volume.socket(), 0, &noise(2, 1 << 20));
    let of = |status: &Status| {
        let writes = status.requests.iter().find(|it| it.kind == "write").unwrap();
        (writes.requests, writes.bytes)
    };
    assert_eq!(of(&first), of(&before), "nobody wrote before its first interval was over");
    let (mut requests, mut bytes, mut last) = (0.0, 0.0, first.clone());
    while of(&last).0 == of(&before).0 || last.recent.as_ref().unwrap().writes.per_s > 0.0 {
        let next = watch.document();
        let recent = next.recent.clone().expect("it is of an interval");
        let counted: u64 = recent.writes.latency_counts.iter().sum();
        assert_eq!(counted as f64, (recent.writes.per_s * recent.over_s).round(), "each took some time");
        assert_eq!(recent.writes.p99_s.is_some(), counted > 0);
        assert!((recent.over_s - (next.server.uptime_s - last.server.uptime_s)).abs() < 1e-9);
        requests += recent.writes.per_s * recent.over_s;
        bytes += recent.writes.bytes_per_s * recent.over_s;
        last = next;
    }
    let (before, after) = (of(&before), of(&server.status()));
    assert_eq!((requests.round() as u64, bytes.round() as u64), (after.0 - before.0, after.1 - before.1));
    watch.signal("INT");
    assert_eq!(watch.end(), (Some(0), String::new()));
    server.stop();
}

#[test]
fn lines_are_one_for_each_interval_and_say_when_the_server_goes_and_comes() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve("");
    let mut watch = Watch::start(&scene, "--interval 100ms");
    says(&watch.line(), &["reads/s", "99%below", "fsyncs/s", "batch", "state"]);
    let columns = watch.line();
    assert!(
        columns.ends_with(" ok") && columns.split("  ").filter(|cell| !cell.is_empty()).count() >= 11,
        "{columns}"
    );
    server.stop();
    let next_remark = |watch: &mut Watch| loop {
        let line = watch.line();
        if line.starts_with('#') {
            return line;
        }
    };
    says(&next_remark(&mut watch), &["disk: it is not being served any more", "waiting for its server"]);
    let server = volume.serve("");
    says(&next_remark(&mut watch), &["it is served again"]);
    assert!(watch.line().ends_with(" ok"), "it goes on with the new server");
    watch.signal("TERM");
    assert_eq!(watch.end().0, Some(0));
    server.stop();
}

#[test]
fn a_watch_ends_after_so_many_intervals_and_where_nobody_reads() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve("");
    let ran = scene.done("status disk --watch --interval 100ms --count 3 --json");
    assert_eq!(ran.stdout.lines().count(), 3);
    let mut watch = Watch::start(&scene, "--interval 100ms");
    watch.line();
    let Watch { lines, process } = watch;
    drop(lines);
    let mut process = process;
    let ended = patiently("the end of a watch that nobody reads", || process.0.try_wait().unwrap());
    assert_eq!(ended.code(), Some(0));
    server.stop();
}

#[test]
fn a_volume_that_nobody_serves_is_not_waited_for_and_wrong_intervals_are_refused() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let ran = scene.run("status disk --watch");
    assert_eq!(ran.code, Some(1));
    says(&ran.stderr, &["it is not being served", "evenkeel serve disk"]);
    says(&scene.misused("status disk --interval 1s"), &["--watch"]);
    says(&scene.misused("status disk --watch --interval 1"), &["1s"]);
    says(&scene.refused("status disk --watch --interval 1ms"), &["100ms"]);
    drop(volume);
}

#[test]
fn on_a_terminal_it_is_drawn_in_place_and_the_cursor_comes_back() {
    or_skip!(programs(&["script"]));
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve("");
    assert!(contents(&volume.socket()).len() == 32 << 20);
    let program = scene.command("status disk --watch --interval 100ms --count 2");
    let words: Vec<String> = [program.get_program()]
        .into_iter()
        .chain(program.get_args())
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    let mut terminal = Command::new("script");
    terminal.args([
        "--quiet",
        "--return",
        "--command",
        &format!("stty rows 60 columns 120; {}", words.join(" ")),
    ]);
    terminal.arg("/dev/null").current_dir(scene.folder()).env("TERM", "xterm").stdin(Stdio::null());
    let output = terminal.output().unwrap();
    let drawn = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{drawn}");
    // A picture before the first interval is over, and one for each.
    assert_eq!(drawn.matches("\x1b[H").count(), 3, "{drawn:?}");
    says(
        &drawn,
        &[
            "The first interval is not over yet",
            "99.9 % below",
            "reads",
            "fsyncs",
            "survives the loss of 0 members",
        ],
    );
    assert!(drawn.find("\x1b[?25l").is_some() && drawn.trim_end().ends_with("\x1b[?25h"), "{drawn:?}");
    server.stop();
}
