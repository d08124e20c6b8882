//! Studies that several machines run together on a PostgreSQL database: two processes of this machine stand for them.

#![allow(clippy::print_stderr, reason = "what was tried is for whoever runs it")]

#[path = "../../../measure/src/study/store/postgres/cluster.rs"]
#[expect(unreachable_pub, reason = "the library's tests include it too")]
mod cluster;

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::root::{loop_devices, must_be_root, programs};
use crate::support::{Ran, Scene, list, or_skip, says, skip};
use cluster::Cluster;
use postgres::{Client, NoTls};

/// Four blocks of two runs each.
const PLAN: &str = r#"name = "shared"
runs = 4
time = "0.5s"
interval = "0.1s"
[data]
size = "40m"
[loop]
size = "320m"
[[workload]]
name = "mailserver"
[[factor]]
name = "file_system"
values = ["ext4"]
[[factor]]
name = "atime"
values = ["noatime", "relatime"]
"#;
const RUNS: i64 = 8;
/// In the address; the server lets anyone in, and nobody is to read it.
const PASSWORD: &str = "s3cret";

struct Shared {
    scene: Scene,
    cluster: Cluster,
}

impl Shared {
    /// A plan and a server; or why there can be none here.
    fn new() -> Result<Self, String> {
        must_be_root()?;
        programs(&["mkfs.ext4", "losetup", "mount"])?;
        loop_devices()?;
        let shared = Self { scene: Scene::new(), cluster: Cluster::start()? };
        fs::write(shared.scene.path("plan.toml"), PLAN).unwrap();
        Ok(shared)
    }

    fn line(&self, machine: &str, more: &str) -> String {
        let address = self.cluster.address();
        format!("study run plan.toml --out {machine} --db {address} --machine {machine} {more}")
    }

    fn begin(&self, machine: &str) -> Machine {
        let mut command = self.scene.command(&self.line(machine, "--lease 3s"));
        Machine(Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
    }

    fn number(&self, query: &str) -> i64 {
        let mut client = Client::connect(&self.cluster.address(), NoTls).unwrap();
        client.query_one(query, &[]).unwrap().get(0)
    }

    fn done_by(&self, machine: &str) -> i64 {
        let has_begun = "SELECT count(*) FROM pg_tables WHERE tablename = 'block'";
        if self.number(has_begun) == 0 {
            return 0;
        }
        self.number(&format!(
            "SELECT count(*) FROM run JOIN machine ON machine.id = machine_id
             WHERE state = 'done' AND name = '{machine}'"
        ))
    }

    fn has_data(&self, machine: &str) -> bool {
        let data = self.scene.path(&format!("{machine}/scratch/mnt/data"));
        fs::read_dir(data).is_ok_and(|mut files| files.next().is_some())
    }

    #[track_caller]
    fn nothing_is_left(&self, machine: &str) {
        let folder = fs::canonicalize(self.scene.path(machine)).unwrap().display().to_string();
        assert!(
            !fs::read_to_string("/proc/self/mountinfo").unwrap().contains(&folder),
            "something is mounted"
        );
        assert!(self.scene.names(machine).is_empty(), "{:?}", self.scene.names(machine));
    }
}

/// A process that takes part; killed when it is dropped.
struct Machine(Option<Child>);

impl Machine {
    #[track_caller]
    fn is_running(&mut self) {
        let ended = self.0.as_mut().unwrap().try_wait().unwrap();
        assert!(ended.is_none(), "it ended by itself: {ended:?}");
    }

    fn kill(mut self) {
        let mut child = self.0.take().unwrap();
        let id = child.id().to_string();
        assert!(Command::new("sh").args(["-c", "kill -s KILL \"$0\"", &id]).status().unwrap().success());
        child.wait().unwrap();
    }

    fn end(mut self, line: &str) -> Ran {
        Ran::of(line, self.0.take().unwrap().wait_with_output().unwrap())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ended_already_is_fine = child.kill();
            let _ended_already_is_fine = child.wait();
        }
    }
}

#[test]
fn machines_share_the_runs_and_what_one_that_was_killed_has_left_is_done_by_the_other() {
    let test = "machines_share_the_runs_and_what_one_that_was_killed_has_left_is_done_by_the_other";
    let shared = match Shared::new() {
        Ok(shared) => shared,
        Err(reason) => return skip(test, &reason),
    };
    let mut doomed = shared.begin("doomed");
    let mut heir = None;
    let patience = Instant::now();
    // In the middle of its second block, so that it has repeats to be compared.
    while !(shared.done_by("doomed") >= 3 && shared.has_data("doomed")) {
        doomed.is_running();
        // So late that there is something left for it.
        if shared.done_by("doomed") >= 1 {
            heir.get_or_insert_with(|| shared.begin("heir")).is_running();
        }
        assert!(patience.elapsed() < Duration::from_secs(300), "no run came to its end");
        thread::sleep(Duration::from_millis(5));
    }
    doomed.kill();
    let under_way = shared.number("SELECT count(*) FROM run WHERE state = 'running'");
    assert!((1..=2).contains(&under_way), "{under_way} runs are under way");

    let ended = heir.unwrap().end("study run: the heir");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    says(&ended.stdout, &["8 runs done, 0 skipped, 0 failed: postgres://tester@%2Ftmp%2F"]);
    shared.nothing_is_left("heir");
    let (of_doomed, of_heir) = (shared.done_by("doomed"), shared.done_by("heir"));
    assert_eq!(of_doomed + of_heir, RUNS);
    assert!(of_doomed >= 3 && of_heir >= 3, "{of_doomed} and {of_heir}");
    // Each run was counted whole, and once.
    let whole = "SELECT count(*) FROM run WHERE state = 'done'
                 AND operations = (SELECT sum(operations) FROM throughput WHERE run_id = id)
                 AND operations = (SELECT sum(operations) FROM latency WHERE run_id = id)";
    assert_eq!(shared.number(whole), RUNS);
    let taken_over = "SELECT count(*) FROM block JOIN machine ON machine.id = machine_id
                      WHERE name = 'heir'";
    assert!(shared.number(taken_over) >= 2);

    // The dead comes back: it finds nothing to do, and takes away what its earlier life left.
    let back = shared.scene.run(&shared.line("doomed", "--resume"));
    assert_eq!(back.code, Some(0), "{back:?}");
    shared.nothing_is_left("doomed");
    assert_eq!((shared.done_by("doomed"), shared.done_by("heir")), (of_doomed, of_heir));

    let line = format!("study report --db {} --out report", shared.cluster.address());
    let report = shared.scene.done(&line);
    says(&report.stdout, &["shared: 4 configurations (each machine's apart), 1 workload, 8 runs"]);
    let document = shared.scene.json("report/study.json");
    assert_eq!(document["study"]["runs_done"], RUNS);
    let factors = list(&document["study"], "factors");
    let machines = factors.iter().find(|factor| factor["name"] == "machine").unwrap();
    let mut names: Vec<&str> = list(machines, "values").iter().map(|name| name.as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["doomed", "heir"]);
    for ran in [ended, back, report] {
        assert!(!format!("{}{}", ran.stdout, ran.stderr).contains(PASSWORD), "{ran:?}");
    }
    for name in shared.scene.names("report") {
        assert!(!shared.scene.text(&format!("report/{name}")).contains(PASSWORD), "{name}");
    }

    // Another plan is refused, by a line without the password.
    fs::write(shared.scene.path("plan.toml"), PLAN.replace("runs = 4", "runs = 5")).unwrap();
    let refused = shared.scene.refused(&shared.line("other", ""));
    says(&refused, &["postgres://tester@%2Ftmp%2F", "results of another plan are there (shared)", "--db"]);
    assert!(!refused.contains(PASSWORD), "{refused}");
}

#[test]
fn a_database_that_cannot_be_had_is_named_in_one_line_without_its_password() {
    let scene = Scene::new();
    let refused = |line: &str| {
        let said = scene.refused(line);
        assert!(!said.contains(PASSWORD), "{said}");
        said
    };
    says(
        &refused("study report --db postgres://me:s3cret@%2Fnowhere/db --out r"),
        &["postgres://me@%2Fnowhere", "/db: ", "error connecting to server: No such file"],
    );
    for address in ["s3cret", "postgres://me:s3cret@ret@host/db", "mysql://me:s3cret@host/db"] {
        let said = refused(&format!("study run --preset five-minutes --out s --db {address}"));
        says(&said, &["--db: not an address such as postgres://user@host/database"]);
    }
    let said = refused("study report --db postgres://me:s3cret@host/db?sslmode=require --out r");
    says(&said, &["not encrypted", "tunnel"]);
    assert!(!scene.path("s").exists() && !scene.path("r").exists());
    says(&scene.misused("study report --db postgres://me@host/db"), &["--out <DIR>"]);
    says(&scene.misused("study run --preset five-minutes --out s --lease 5s"), &["--db <ADDRESS>"]);
    says(
        &scene.misused("study run --preset five-minutes --out s --db postgres://h --lease 5ms"),
        &["at least 1s"],
    );
}

#[test]
fn a_database_without_a_study_is_said_to_be_one() {
    let cluster = or_skip!(Cluster::start());
    let scene = Scene::new();
    let refused = scene.refused(&format!("study report --db {} --out r", cluster.address()));
    says(&refused, &["postgres://tester@%2Ftmp%2F", "there is no study in this database", "does not exist"]);
    assert!(!refused.contains(PASSWORD), "{refused}");
}
