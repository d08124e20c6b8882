//! Studies of real file systems on loop devices: run, stopped, killed, resumed, and nothing left behind.

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::root::{loop_devices, must_be_root, programs};
use crate::support::{Ran, Scene, or_skip, says, skip};
use rusqlite::Connection;

const LINE: &str = "study run plan.toml --out s";

/// Short runs over three file systems.
fn plan(more: &str) -> String {
    format!(
        r#"name = "story"
runs = 2
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
values = ["ext4", "xfs", "btrfs"]
{more}"#
    )
}

fn scene_with(plan: &str) -> Scene {
    let scene = Scene::new();
    fs::write(scene.path("plan.toml"), plan).unwrap();
    scene
}

/// Whether studies can be run here; tells who asks if not.
fn can_run(test: &str) -> bool {
    let needed = ["mkfs.ext4", "mkfs.xfs", "mkfs.btrfs", "losetup", "mount"];
    let reason = must_be_root().and_then(|()| programs(&needed)).and_then(|()| loop_devices());
    reason.inspect_err(|reason| skip(test, reason)).is_ok()
}

fn number(scene: &Scene, query: &str) -> i64 {
    Connection::open(scene.path("s/study.db")).unwrap().query_row(query, [], |row| row.get(0)).unwrap()
}

fn words(scene: &Scene, query: &str) -> String {
    Connection::open(scene.path("s/study.db")).unwrap().query_row(query, [], |row| row.get(0)).unwrap()
}

/// That nothing of the study's folder is mounted or behind a loop device, and nothing but the database is in it.
#[track_caller]
fn nothing_is_left(scene: &Scene) {
    let folder = fs::canonicalize(scene.path("s")).unwrap().display().to_string();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&folder), "something is mounted");
    assert!(backing_files().iter().all(|file| !file.starts_with(&folder)), "a loop device is attached");
    let names: Vec<String> = scene.names("s").into_iter().collect();
    assert_eq!(names, ["study.db"]);
}

fn backing_files() -> Vec<String> {
    let devices = fs::read_dir("/sys/block").unwrap().flatten();
    devices.filter_map(|device| fs::read_to_string(device.path().join("loop/backing_file")).ok()).collect()
}

/// A study in the middle of a run.
struct Running<'a> {
    scene: &'a Scene,
    child: Option<Child>,
}

impl<'a> Running<'a> {
    /// Started, and with so many runs done and a workload under way.
    fn after(scene: &'a Scene, runs: i64) -> Self {
        let child = scene.command(LINE).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut running = Self { scene, child: Some(child) };
        let patience = Instant::now();
        while !running.is_at(runs) {
            let ended = running.child.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "the study ended by itself: {ended:?}");
            assert!(patience.elapsed() < Duration::from_secs(300), "no run came to its end");
            thread::sleep(Duration::from_millis(5));
        }
        running
    }

    /// Whether a data set is there after so many runs.
    fn is_at(&self, runs: i64) -> bool {
        let done = || {
            let connection = Connection::open(self.scene.path("s/study.db")).ok()?;
            connection.query_row("SELECT count(*) FROM run WHERE state = 'done'", [], |row| row.get(0)).ok()
        };
        let has_data = || {
            fs::read_dir(self.scene.path("s/scratch/mnt/data")).is_ok_and(|mut files| files.next().is_some())
        };
        self.scene.path("s/study.db").exists() && done().is_some_and(|done: i64| done >= runs) && has_data()
    }

    fn signal(&self, name: &str) {
        let id = self.child.as_ref().unwrap().id().to_string();
        let sent = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &id]).status().unwrap();
        assert!(sent.success());
    }

    fn end(mut self) -> Ran {
        Ran::of(LINE, self.child.take().unwrap().wait_with_output().unwrap())
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ended_already_is_fine = child.kill();
            let _ended_already_is_fine = child.wait();
        }
    }
}

#[test]
fn a_dry_run_tells_the_size_the_sample_the_time_and_every_command() {
    let more = "[[factor]]\nname = \"atime\"\nvalues = [\"noatime\", \"relatime\"]\n";
    let scene = scene_with(&plan(more).replace("runs = 2", "runs = 2\nsample = 4"));
    let said = scene.done("study plan plan.toml --out s").stdout;
    says(
        &said,
        &[
            "2 factors, 6 valid configurations, of which 4 are taken",
            "4 configurations x 1 workload x 2 runs = 8 runs, about ",
            "16 threads",
            "losetup --find --show --direct-io=on s/scratch/loop.img",
            "mkfs.xfs -f -q -K /dev/loopN",
            "mount -t btrfs -o nodiscard,",
            "umount s/scratch/mnt",
        ],
    );
    assert!(!scene.path("s").exists(), "a dry run changes nothing");
    let paper = scene.done("study plan --preset paper").stdout;
    says(&paper, &["10 factors", "of which 107 are taken", "mkfs.ext4 ", "data=journal"]);
    let printed = scene.done("study plan --preset scaled --print").stdout;
    fs::write(scene.path("own.toml"), printed).unwrap();
    assert_eq!(scene.done("study plan own.toml").stdout, scene.done("study plan --preset scaled").stdout);
}

#[test]
fn what_cannot_be_studied_is_refused_in_one_line() {
    let scene = scene_with(&plan("[[factor]]\nname = \"colour\"\nvalues = [1]\n"));
    says(&scene.refused("study plan plan.toml"), &["plan.toml: factor colour: it changes nothing"]);
    says(&scene.refused("study plan no-such.toml"), &["no-such.toml: No such file"]);
    says(&scene.refused("study plan --preset nonsense"), &["nonsense", "five-minutes"]);
    says(&scene.misused("study run plan.toml"), &["--out <DIR>"]);
    says(&scene.refused("study worker"), &["which alone starts this command"]);
    fs::write(scene.path("plan.toml"), plan("[[factor]]\nname = \"device\"\nvalues = [\"/dev/sdx\"]\n"))
        .unwrap();
    says(&scene.refused("study run plan.toml --out s"), &["destroy = [\"/dev/sdx\"]"]);
    assert!(!scene.path("s").exists());
}

#[test]
fn an_io_scheduler_that_the_kernel_does_not_offer_is_refused_with_those_that_it_does() {
    let test = "an_io_scheduler_that_the_kernel_does_not_offer_is_refused_with_those_that_it_does";
    if !can_run(test) {
        return;
    }
    let scene = scene_with(&plan("[[factor]]\nname = \"io_scheduler\"\nvalues = [\"none\", \"kybre\"]\n"));
    says(
        &scene.refused(LINE),
        &["factor io_scheduler: `kybre` is not offered by this kernel for loop; there are none"],
    );
    assert_eq!(scene.names("s").len(), 0, "nothing was begun");
    fs::write(scene.path("plan.toml"), plan("").replace("\"ext4\", \"xfs\"", "\"xsf\"")).unwrap();
    says(
        &scene.refused(LINE),
        &["plan.toml: factor file_system: `xsf` is no file_system: it is one of ext2"],
    );
    fs::write(scene.path("plan.toml"), plan("").replace("runs = 2", "runs = 2\nsample = 500")).unwrap();
    says(&scene.refused(LINE), &["sample = 500: there are 3 configurations that are valid"]);
}

#[test]
fn a_file_system_without_its_programs_is_named_before_anything_is_made() {
    let test = "a_file_system_without_its_programs_is_named_before_anything_is_made";
    if let Err(reason) = must_be_root().and_then(|()| programs(&["losetup", "mount"])) {
        return skip(test, &reason);
    }
    let scene = scene_with(&plan("").replace("\"ext4\", \"xfs\", \"btrfs\"", "\"jfs\""));
    let said = scene.refused(LINE);
    says(&said, &["mkfs.jfs is missing"]);
    assert!(!said.contains("apt-get"), "no package has that name: {said}");
    assert!(!scene.path("s").exists());
}

#[test]
fn whoever_is_not_root_is_told_so_before_anything_is_made() {
    or_skip!(must_be_root());
    // Where the nobody may read: the scene is in folders of root's.
    let place = tempfile::Builder::new().prefix("evenkeel-study-").tempdir().unwrap();
    let binary = place.path().join("evenkeel");
    fs::copy(env!("CARGO_BIN_EXE_evenkeel"), &binary).unwrap();
    let open = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    fs::set_permissions(place.path(), open).unwrap();
    let mut command = Command::new(&binary);
    command.args(["study", "run", "--preset", "five-minutes", "--out", "s"]).current_dir(place.path());
    let ran = Ran::of("study run", command.uid(65534).gid(65534).output().unwrap());
    assert_eq!(ran.code, Some(2), "{ran:?}");
    says(&ran.complaint(), &["run it as root"]);
    assert!(!place.path().join("s").exists());
}

#[test]
fn a_study_that_is_stopped_and_one_that_is_killed_go_on_and_leave_nothing() {
    let test = "a_study_that_is_stopped_and_one_that_is_killed_go_on_and_leave_nothing";
    if !can_run(test) {
        return;
    }
    let scene = scene_with(&plan(""));
    says(&scene.refused(&format!("{LINE} --resume")), &["s/study.db", "no study was begun there"]);
    let stopped = Running::after(&scene, 1);
    stopped.signal("INT");
    let ran = stopped.end();
    assert_eq!(ran.code, Some(130), "{ran:?}");
    says(&ran.complaint(), &["interrupted after", "--resume"]);
    nothing_is_left(&scene);
    let done = number(&scene, "SELECT count(*) FROM run WHERE state = 'done'");
    assert!((1..6).contains(&done), "{done} runs were done");
    says(&scene.refused(LINE), &["s/study.db", "--resume"]);

    let killed = scene.command(&format!("{LINE} --resume")).stdout(Stdio::null()).spawn().unwrap();
    let killed = Running { scene: &scene, child: Some(killed) };
    while !killed.is_at(done + 1) {
        thread::sleep(Duration::from_millis(5));
    }
    killed.signal("KILL");
    drop(killed);

    let ran = scene.run(&format!("{LINE} --resume"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    says(&ran.stdout, &["6 runs done, 0 skipped, 0 failed"]);
    nothing_is_left(&scene);
    assert_eq!(number(&scene, "SELECT count(*) FROM run WHERE state = 'done' AND operations > 0"), 6);
    // Each run was counted whole.
    let whole = "SELECT count(*) FROM run WHERE operations = (SELECT sum(operations) FROM throughput WHERE run_id = id)
                 AND operations = (SELECT sum(operations) FROM latency WHERE run_id = id)";
    assert_eq!(number(&scene, whole), 6);
    assert_eq!(number(&scene, "SELECT count(*) FROM (SELECT DISTINCT run_id FROM layout)"), 6);
    assert_eq!(number(&scene, "SELECT count(*) FROM condition WHERE name = 'load_1m'"), 6);
    // Where memory is not bounded, each run says so.
    let bounded = "SELECT count(*) FROM run WHERE message IS NOT NULL
                   OR id IN (SELECT run_id FROM condition WHERE name = 'memory_bound_bytes')";
    assert_eq!(number(&scene, bounded), 6);
}

#[test]
fn the_loop_device_of_a_killed_study_is_removed_from_another_folder_too() {
    let test = "the_loop_device_of_a_killed_study_is_removed_from_another_folder_too";
    if !can_run(test) {
        return;
    }
    let scene = Scene::new();
    fs::create_dir(scene.path("elsewhere")).unwrap();
    let elsewhere = fs::canonicalize(scene.path("elsewhere")).unwrap().display().to_string();
    let plan = plan("").replace("size = \"320m\"", &format!("size = \"320m\"\nfolder = \"{elsewhere}\""));
    fs::write(scene.path("plan.toml"), plan.replace(", \"xfs\", \"btrfs\"", "")).unwrap();
    let killed = Running::after(&scene, 0);
    killed.signal("KILL");
    drop(killed);
    let image = scene.path("elsewhere/evenkeel-story.img");
    assert!(image.exists());

    // Whoever did not make it leaves it alone.
    let stranger = scene.run("study run plan.toml --out t");
    assert_eq!(stranger.code, Some(2), "{stranger:?}");
    says(&stranger.stderr, &["evenkeel-story.img", "already exists"]);
    assert!(image.exists());

    let ran = scene.run(&format!("{LINE} --resume"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    nothing_is_left(&scene);
    assert!(!image.exists());
    assert!(backing_files().iter().all(|file| !file.starts_with(&elsewhere)), "a loop device is attached");
}

#[test]
fn an_impatient_second_ctrl_c_unmounts_and_detaches_too() {
    let test = "an_impatient_second_ctrl_c_unmounts_and_detaches_too";
    if !can_run(test) {
        return;
    }
    let scene = scene_with(&plan("").replace("0.5s", "60s"));
    let running = Running::after(&scene, 0);
    running.signal("INT");
    running.signal("INT");
    let ran = running.end();
    assert_eq!(ran.code, Some(130), "{ran:?}");
    let folder = fs::canonicalize(scene.path("s")).unwrap().display().to_string();
    assert!(!fs::read_to_string("/proc/self/mountinfo").unwrap().contains(&folder));
    assert!(backing_files().iter().all(|file| !file.starts_with(&folder)));
    assert!(!scene.path("s/scratch/loop.img").exists());
}

#[test]
fn a_loop_device_that_another_mount_namespace_holds_for_a_moment_is_waited_for() {
    let test = "a_loop_device_that_another_mount_namespace_holds_for_a_moment_is_waited_for";
    if !can_run(test) {
        return;
    }
    if let Err(reason) = programs(&["unshare"]) {
        return skip(test, &reason);
    }
    let scene = scene_with(&plan("").replace("0.5s", "2s"));
    let running = Running::after(&scene, 0);
    let point = fs::canonicalize(scene.path("s/scratch/mnt")).unwrap();
    // A copy of every mount, which goes with this process: long after the study unmounts its own.
    let hold = "findmnt --mountpoint \"$0\" > /dev/null || exit 1; echo held; sleep 5";
    let holder = loop {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", hold]).arg(&point);
        let mut holder = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = [0];
        // Between two mounts of a run there is none to hold.
        if holder.stdout.as_mut().unwrap().read(&mut said).unwrap() == 1 {
            break holder;
        }
        holder.wait().unwrap();
    };
    let ran = running.end();
    assert!(holder.wait_with_output().unwrap().status.success());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    says(&ran.stdout, &["6 runs done, 0 skipped, 0 failed"]);
    nothing_is_left(&scene);
}

#[test]
fn what_cannot_be_mounted_is_skipped_with_its_message_and_others_go_on() {
    let test = "what_cannot_be_mounted_is_skipped_with_its_message_and_others_go_on";
    if !can_run(test) {
        return;
    }
    let more = "[[factor]]\nname = \"journal\"\nvalues = [\"ordered\", \"nonsense\"]\nmount = \"data={}\"\n\
                [[workload]]\nname = \"own\"\ncommand = [\"sh\", \"-c\", \"touch x; echo 250 operations per second\"]\n\
                [[workload]]\nname = \"bad\"\ncommand = [\"sh\", \"-c\", \"test -e READY && echo 7 && exit 0; echo went wrong >&2; exit 1\"]\n";
    let scene = Scene::new();
    let ready = scene.path("s/ready").display().to_string();
    let plan = plan(&more.replace("READY", &ready)).replace(", \"xfs\", \"btrfs\"", "");
    fs::write(scene.path("plan.toml"), plan.replace("runs = 2", "runs = 1")).unwrap();
    let ran = scene.run(LINE);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    says(&ran.stdout, &["2 runs done, 3 skipped, 1 failed"]);
    says(&ran.stderr, &["skipped ext4-nonsense: mount failed: ", "sh failed: went wrong"]);
    says(ran.stderr.lines().last().unwrap(), &["sqlite3 s/study.db", "--retry-failed"]);
    nothing_is_left(&scene);
    says(&words(&scene, "SELECT DISTINCT message FROM run WHERE state = 'skipped'"), &["mount failed"]);
    assert_eq!(
        number(
            &scene,
            "SELECT CAST(operations_per_s AS INTEGER) FROM run WHERE workload = 'own' AND state = 'done'"
        ),
        250
    );

    // What was missing is there now: asked for, what failed is tried again, and nothing else.
    says(&scene.misused(&format!("{LINE} --retry-failed")), &["--resume"]);
    fs::write(scene.path("s/ready"), "").unwrap();
    let ran = scene.run(&format!("{LINE} --resume"));
    says(&ran.stdout, &["2 runs done, 3 skipped, 1 failed"]);
    let ran = scene.run(&format!("{LINE} --resume --retry-failed"));
    assert_eq!(ran.code, Some(1), "what is left out is no success: {ran:?}");
    says(&ran.stdout, &["3 runs done, 3 skipped, 0 failed"]);
    says(ran.stderr.lines().last().unwrap(), &["3 runs skipped; `sqlite3 s/study.db", "--retry-failed"]);
    assert_eq!(number(&scene, "SELECT count(*) FROM run WHERE message LIKE '%went wrong%'"), 0);
}

#[test]
fn a_workload_that_the_bound_of_memory_kills_fails_with_that_reason() {
    let test = "a_workload_that_the_bound_of_memory_kills_fails_with_that_reason";
    if !can_run(test) {
        return;
    }
    // tail keeps what comes, as it looks for the begin of the last line.
    let more = "[[workload]]\nname = \"greedy\"\ncommand = [\"sh\", \"-c\", \"head -c 400m /dev/zero | tail > /dev/null; echo 7\"]\n";
    let plan = plan(more).replace(", \"xfs\", \"btrfs\"", "").replace("runs = 2", "runs = 1");
    let scene = scene_with(&plan.replace("size = \"40m\"", "size = \"40m\"\nmemory = \"32m\""));
    let ran = scene.run(LINE);
    if ran.stderr.contains("memory was not bounded") {
        return skip(test, "no control group with a memory controller");
    }
    assert_eq!(ran.code, Some(1), "{ran:?}");
    says(&ran.stdout, &["1 run done, 0 skipped, 1 failed"]);
    let why = words(&scene, "SELECT message FROM run WHERE state = 'failed' AND workload = 'greedy'");
    says(&why, &["needs more memory than it may have", "[data] memory"]);
    nothing_is_left(&scene);
}

#[test]
fn remedies_take_the_chance_out_of_where_data_lies() {
    let test = "remedies_take_the_chance_out_of_where_data_lies";
    if !can_run(test) {
        return;
    }
    let more = "[[factor]]\nname = \"remedies\"\nvalues = [\"no_lazy_init+unmount+restore_image\", \
                \"no_lazy_init+unmount+null_hash_seed\"]\n";
    let plan = plan(more).replace(", \"xfs\", \"btrfs\"", "").replace("runs = 2", "runs = 3");
    let scene = scene_with(&plan);
    let ran = scene.run(LINE);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    nothing_is_left(&scene);
    // Each configuration's data lies at the same place in all of its three runs.
    let places = "SELECT max(places) FROM (SELECT count(DISTINCT first) AS places FROM
                    (SELECT run_id, min(physical_bytes) AS first FROM layout GROUP BY run_id)
                    JOIN run ON run.id = run_id GROUP BY configuration_id)";
    assert_eq!(number(&scene, places), 1);
    assert_eq!(number(&scene, "SELECT count(*) FROM run WHERE state = 'done'"), 6);
}
