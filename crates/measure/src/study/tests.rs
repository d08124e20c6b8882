//! Studies on a stage that only remembers: every run is taken once, whatever fails and whenever it stops.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use evenkeel_host::conditions::Machine;
use evenkeel_host::fiemap::Extent;
use evenkeel_host::interrupt::Interrupt;
use rusqlite::Connection;

use super::answer::Answer;
use super::plan::Plan;
use super::plan::space::Configuration;
use super::runner::{self, Observer, Progress, RunError, Stage, StageError, Task};
use super::schedule;
use super::steps::{self, Place, Shown, Step};
use super::store::{Begun, Claim, DATABASE, EXTENTS_MAX, Record, SqliteStore, Store, StoreError, Tally};

const PLAN: &str = r#"
name = "story"
runs = 2
time = "1s"
interval = "0.4s"
[data]
size = "64m"
[[workload]]
name = "mailserver"
[[workload]]
name = "webserver"
[[factor]]
name = "file_system"
values = ["ext4", "xfs"]
[[factor]]
name = "atime"
values = ["noatime", "relatime"]
"#;
const RUNS: u64 = 16;

/// A stage on which every step is taken at once.
#[derive(Default)]
struct Memory {
    point: PathBuf,
    /// What was done, and the label of the run's configuration with each.
    taken: Vec<(String, Step)>,
    cleared: usize,
    /// The configuration whose mounts fail.
    unmountable: Option<&'static str>,
    /// So many mounts of it succeed first.
    mounts_left: usize,
    /// The configuration whose device others hold.
    held: Option<&'static str>,
    /// The workload that fails.
    failing: Option<&'static str>,
    /// After so many steps the study is interrupted.
    steps_left: Option<usize>,
    images: BTreeMap<PathBuf, ()>,
}

impl Stage for Memory {
    fn ready(&mut self, _device: &str) -> Result<PathBuf, StageError> {
        Ok("/dev/loopN".into())
    }

    fn point(&self) -> &Path {
        &self.point
    }

    fn image(&self, task: &Task<'_>) -> (PathBuf, bool) {
        let path = PathBuf::from(format!("{}-{}", task.configuration.label, task.workload.name));
        let is_there = self.images.contains_key(&path);
        (path, is_there)
    }

    fn perform(
        &mut self,
        step: &Step,
        task: &Task<'_>,
        _node: &Path,
        record: &mut Record,
    ) -> Result<(), StageError> {
        match &mut self.steps_left {
            Some(0) => return Err(StageError::Interrupted),
            Some(left) => *left -= 1,
            None => {}
        }
        self.taken.push((task.configuration.label.clone(), step.clone()));
        match step {
            Step::Mount(_) if self.held == Some(&task.configuration.label) => {
                return Err(StageError::Passing("/dev/loopN: waited 1 min for it".to_owned()));
            }
            Step::Mount(_) if self.unmountable == Some(&task.configuration.label) && self.mounts_left > 0 => {
                self.mounts_left -= 1;
            }
            Step::Mount(_) if self.unmountable == Some(&task.configuration.label) => {
                return Err(StageError::Unmountable("mount failed: wrong option".to_owned()));
            }
            Step::Workload if self.failing == Some(&task.workload.name) => {
                return Err(StageError::Failed("append f0000001: No space left on device".to_owned()));
            }
            Step::SaveImage(image) => {
                self.images.insert(image.clone(), ());
            }
            Step::RecordLayout => {
                let extent = |at: u64| Extent { physical_bytes: at * 8192, length_bytes: 4096 };
                record.layout = (0..5000).map(extent).collect();
            }
            Step::Workload => {
                record.answer = Answer {
                    duration_s: 1.0,
                    operations: 30,
                    operations_per_s: 30.0,
                    interval_s: 0.4,
                    windows: vec![10, 12, 8],
                    ..Answer::default()
                };
                record.conditions.push(("load_1m".to_owned(), 0.5));
            }
            _ => {}
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<(), StageError> {
        self.cleared += 1;
        Ok(())
    }
}

#[derive(Default)]
struct Notes(Vec<String>);

impl Observer for Notes {
    fn progress(&mut self, _progress: &Progress<'_>) {}

    fn waiting(&mut self, _settled: u64, _all: u64) {}

    fn note(&mut self, line: &str) {
        self.0.push(line.to_owned());
    }
}

fn machine() -> Machine {
    Machine { name: "m".to_owned(), kernel: "k".to_owned(), cpus: 2, memory_bytes: 1 << 30 }
}

/// A study in a folder of its own.
struct Study {
    folder: tempfile::TempDir,
    plan: Plan,
    configurations: Vec<Configuration>,
}

impl Study {
    fn new(text: &str) -> Self {
        let plan = Plan::parse(text, Path::new("")).unwrap();
        let configurations = plan.sampled().unwrap().configurations;
        Self { folder: tempfile::tempdir().unwrap(), plan, configurations }
    }

    fn order(&self) -> Vec<schedule::Planned> {
        let (configurations, workloads) = (self.configurations.len(), self.plan.workloads.len());
        schedule::order(configurations, workloads, self.plan.runs, self.plan.seed)
    }

    fn begin(&self) -> SqliteStore {
        let order = self.order();
        let begun = Begun { plan: &self.plan, configurations: &self.configurations, order: &order };
        SqliteStore::create(&self.folder.path().join(DATABASE), &begun, &machine()).unwrap()
    }

    fn try_resume(&self, plan: &Plan, configurations: &[Configuration]) -> Result<SqliteStore, StoreError> {
        let begun = Begun { plan, configurations, order: &[] };
        SqliteStore::resume(&self.folder.path().join(DATABASE), &begun, &machine())
    }

    fn resume(&self) -> SqliteStore {
        self.try_resume(&self.plan, &self.configurations).unwrap()
    }

    fn go(&self, store: &mut dyn Store, stage: &mut Memory) -> (Result<Tally, RunError>, Vec<String>) {
        let mut notes = Notes::default();
        let interrupt = Interrupt::default();
        let ended = runner::run(&self.plan, &self.configurations, store, stage, &mut notes, &interrupt);
        (ended, notes.0)
    }

    fn number(&self, query: &str) -> i64 {
        let connection = Connection::open(self.folder.path().join(DATABASE)).unwrap();
        connection.query_row(query, [], |row| row.get(0)).unwrap()
    }

    fn text(&self, query: &str) -> String {
        let connection = Connection::open(self.folder.path().join(DATABASE)).unwrap();
        connection.query_row(query, [], |row| row.get(0)).unwrap()
    }
}

#[test]
fn every_run_is_taken_once_from_a_new_file_system_to_the_unmount() {
    let study = Study::new(PLAN);
    let mut stage = Memory::default();
    let (ended, notes) = study.go(&mut study.begin(), &mut stage);
    assert_eq!(ended.unwrap(), Tally { done: RUNS, ..Tally::default() });
    assert!(notes.is_empty());
    assert_eq!(stage.cleared as u64, RUNS);
    let starts = stage
        .taken
        .iter()
        .filter(|(_, step)| matches!(step, Step::Run(words) if words[0].starts_with("mkfs.")));
    assert_eq!(starts.count() as u64, RUNS);
    assert_eq!(
        study.number("SELECT count(*) FROM run WHERE state = 'done' AND operations = 30"),
        RUNS as i64
    );
    assert_eq!(study.number("SELECT sum(operations) FROM throughput"), 30 * RUNS as i64);
    assert_eq!(study.number("SELECT count(*) FROM condition WHERE name = 'load_1m'"), RUNS as i64);
    // The last window is as long as what is left of the run.
    let last = "SELECT printf('%.3f', length_s) FROM throughput WHERE run_id = 1 AND window = 2";
    assert_eq!(study.text(last), "0.200");
    let layout = "SELECT count(*) || ' ' || min(physical_bytes) || ' ' || max(physical_bytes) FROM layout WHERE run_id = 1";
    assert_eq!(study.text(layout), format!("{EXTENTS_MAX} 0 {}", 4999 * 8192));
}

#[test]
fn a_configuration_that_cannot_be_mounted_is_kept_with_its_message_and_skipped() {
    let study = Study::new(PLAN);
    let mut stage = Memory { unmountable: Some("xfs-noatime"), ..Memory::default() };
    let (ended, notes) = study.go(&mut study.begin(), &mut stage);
    assert_eq!(ended.unwrap(), Tally { done: RUNS - 4, skipped: 4, ..Tally::default() });
    let tried =
        stage.taken.iter().filter(|(label, step)| label == "xfs-noatime" && matches!(step, Step::Mount(_)));
    assert_eq!(tried.count(), 1, "once is enough");
    assert_eq!(notes, ["skipped xfs-noatime: mount failed: wrong option"]);
    let kept = "SELECT group_concat(DISTINCT message) FROM run WHERE state = 'skipped'";
    assert_eq!(study.text(kept), "mount failed: wrong option");
}

#[test]
fn a_device_that_others_hold_stops_the_study_and_costs_no_run() {
    let study = Study::new(PLAN);
    let mut stage = Memory { held: Some("xfs-noatime"), ..Memory::default() };
    let (ended, _) = study.go(&mut study.begin(), &mut stage);
    assert!(matches!(ended, Err(RunError::Passing(why)) if why == "/dev/loopN: waited 1 min for it"));
    assert_eq!(study.number("SELECT count(*) FROM run WHERE state NOT IN ('planned', 'done')"), 0);
    let (ended, _) = study.go(&mut study.resume(), &mut Memory::default());
    assert_eq!(ended.unwrap(), Tally { done: RUNS, ..Tally::default() });
}

#[test]
fn a_configuration_that_was_made_before_is_never_taken_for_one_that_cannot_be() {
    let study = Study::new(PLAN);
    // Two mounts for each run: its first run is done, and the next one fails.
    let mut stage = Memory { unmountable: Some("xfs-noatime"), mounts_left: 2, ..Memory::default() };
    let (ended, notes) = study.go(&mut study.begin(), &mut stage);
    let Err(RunError::Passing(why)) = ended else { panic!("{ended:?}") };
    assert_eq!(why, "xfs-noatime was made and mounted before, and now: mount failed: wrong option");
    assert!(notes.is_empty(), "{notes:?}");
    assert_eq!(study.number("SELECT count(*) FROM run WHERE state NOT IN ('planned', 'done')"), 0);
    let (ended, _) = study.go(&mut study.resume(), &mut Memory::default());
    assert_eq!(ended.unwrap(), Tally { done: RUNS, ..Tally::default() });
}

#[test]
fn a_run_that_fails_is_kept_with_its_message_and_the_next_is_taken() {
    let study = Study::new(PLAN);
    let mut stage = Memory { failing: Some("webserver"), ..Memory::default() };
    let (ended, notes) = study.go(&mut study.begin(), &mut stage);
    assert_eq!(ended.unwrap(), Tally { done: RUNS / 2, failed: RUNS / 2, ..Tally::default() });
    assert_eq!(notes.len() as u64, RUNS / 2);
    assert_eq!(
        study.number("SELECT count(*) FROM run WHERE message LIKE '%No space left%'"),
        RUNS as i64 / 2
    );
    assert_eq!(stage.cleared as u64, RUNS);
}

#[test]
fn a_study_that_stops_at_any_step_goes_on_with_the_run_that_it_stopped() {
    let whole = Study::new(PLAN);
    let mut stage = Memory::default();
    let _all_are_done = whole.go(&mut whole.begin(), &mut stage);
    let steps = stage.taken.len();
    // Seven and the steps of a run have no divisor in common: a run is stopped at each of its steps.
    for steps_left in (0..steps).step_by(7) {
        let study = Study::new(PLAN);
        let mut stopped = Memory { steps_left: Some(steps_left), ..Memory::default() };
        let (ended, _) = study.go(&mut study.begin(), &mut stopped);
        assert!(matches!(ended, Err(RunError::Interrupted)));
        assert_eq!(study.number("SELECT count(*) FROM run WHERE state = 'running'"), 0);
        let done = study.number("SELECT count(*) FROM run WHERE state = 'done'");
        let mut rest = Memory::default();
        let (ended, _) = study.go(&mut study.resume(), &mut rest);
        assert_eq!(ended.unwrap().done, RUNS);
        assert_eq!(rest.cleared as i64, RUNS as i64 - done, "no run is taken twice");
        assert_eq!(study.number("SELECT count(DISTINCT started_at IS NOT NULL) FROM run"), 1);
    }
}

#[test]
fn a_run_under_way_when_the_process_was_killed_is_taken_again() {
    let study = Study::new(PLAN);
    let mut store = study.begin();
    let first = store.claim(&study.plan).unwrap();
    assert!(matches!(first, Claim::Run(_)));
    drop(store);
    let mut store = study.resume();
    assert_eq!(store.claim(&study.plan).unwrap(), first);
}

#[test]
fn a_study_that_was_killed_while_it_made_its_database_begins_anew() {
    let study = Study::new(PLAN);
    let path = study.folder.path().join(DATABASE);
    assert!(!SqliteStore::is_begun(&path).unwrap());
    let killed = Connection::open(&path).unwrap();
    killed.execute_batch("BEGIN; CREATE TABLE study (id INTEGER)").unwrap();
    drop(killed);
    assert!(path.exists() && !SqliteStore::is_begun(&path).unwrap());
    drop(study.begin());
    assert!(SqliteStore::is_begun(&path).unwrap());
}

#[test]
fn results_of_another_plan_are_refused() {
    let study = Study::new(PLAN);
    drop(study.begin());
    let other = Plan::parse(&PLAN.replace("runs = 2", "runs = 3"), Path::new("")).unwrap();
    let refused = study.try_resume(&other, &study.configurations);
    assert!(matches!(refused, Err(StoreError::OtherPlan(name)) if name == "story"));
    // As a version that samples otherwise would.
    let mut configurations = study.configurations.clone();
    configurations.swap(0, 1);
    let refused = study.try_resume(&study.plan, &configurations);
    assert!(matches!(refused, Err(StoreError::OtherSample(_))));
}

#[test]
fn what_failed_or_was_skipped_is_taken_again_when_that_is_asked_for_and_not_otherwise() {
    let study = Study::new(PLAN);
    let mut poor =
        Memory { failing: Some("webserver"), unmountable: Some("xfs-noatime"), ..Memory::default() };
    let (ended, _) = study.go(&mut study.begin(), &mut poor);
    let tally = ended.unwrap();
    assert_eq!((tally.skipped, tally.planned), (4, 0));
    assert!(tally.failed > 0);
    let mut idle = Memory::default();
    let (ended, _) = study.go(&mut study.resume(), &mut idle);
    assert_eq!((ended.unwrap(), idle.cleared), (tally, 0));

    let mut store = study.resume();
    store.retry().unwrap();
    let mut well = Memory::default();
    let (ended, _) = study.go(&mut store, &mut well);
    assert_eq!(ended.unwrap(), Tally { done: RUNS, ..Tally::default() });
    assert_eq!(well.cleared as u64, tally.failed + tally.skipped, "what was done stays as it is");
    assert_eq!(study.number("SELECT count(*) FROM run WHERE message IS NOT NULL"), 0);
    assert_eq!(study.number("SELECT count(*) FROM condition WHERE name = 'load_1m'"), RUNS as i64);
}

#[test]
fn an_image_is_made_once_for_each_pair_and_restored_after_that() {
    let study = Study::new(&PLAN.replace("[data]", "[remedies]\nrestore_image = true\n[data]"));
    let mut stage = Memory::default();
    let (ended, _) = study.go(&mut study.begin(), &mut stage);
    assert_eq!(ended.unwrap().done, RUNS);
    let count =
        |fits: &dyn Fn(&Step) -> bool| stage.taken.iter().filter(|(_, step)| fits(step)).count() as u64;
    assert_eq!(count(&|step| matches!(step, Step::SaveImage(_))), RUNS / 2);
    assert_eq!(count(&|step| matches!(step, Step::RestoreImage(_))), RUNS / 2);
    assert_eq!(count(&|step| *step == Step::MakeData), RUNS / 2);
}

/// What a run does, as the dry run shows it.
fn shown(plan: &str, is_there: Option<bool>) -> Vec<String> {
    let study = Study::new(plan);
    let (configuration, workload) = (&study.configurations[0], &study.plan.workloads[0]);
    let image = is_there.map(|is_there| (Path::new("/s/image"), is_there));
    let place = Place { node: Path::new("/dev/loop7"), point: Path::new("/s/mnt"), image };
    let steps = steps::of_run(configuration, workload, &place);
    steps.iter().map(|step| Shown(step, &place, workload).to_string()).collect()
}

#[test]
fn the_steps_of_a_run_are_the_paper_s_and_each_remedy_changes_them() {
    let plan = |remedies: &str| {
        format!(
            "name = \"p\"\nruns = 1\ntime = \"1s\"\ninterval = \"1s\"\n[data]\nsize = \"64m\"\n\
             [[workload]]\nname = \"mailserver\"\n[remedies]\n{remedies}\n\
             [[factor]]\nname = \"file_system\"\nvalues = [\"ext4\"]\n\
             [[factor]]\nname = \"journal_mode\"\nvalues = [\"writeback\"]\n\
             [[factor]]\nname = \"io_scheduler\"\nvalues = [\"none\"]\n"
        )
    };
    let baseline = shown(&plan("unmount = false"), None);
    assert_eq!(
        baseline,
        [
            "echo none > /sys/class/block/loop7/queue/scheduler",
            "mkfs.ext4 -F -q -E nodiscard /dev/loop7",
            "mount -t ext4 -o data=writeback /dev/loop7 /s/mnt",
            "# make the data set of mailserver, 64 MiB in /s/mnt/data",
            "sync --file-system /s/mnt",
            "# record where the data set lies (FIEMAP)",
            "echo 3 > /proc/sys/vm/drop_caches",
            "# run mailserver for 1 s",
            "umount /s/mnt",
        ]
    );
    let unmounting = shown(&plan("unmount = true"), None);
    assert_eq!(unmounting[5..7], ["umount /s/mnt", baseline[2].as_str()]);
    assert_eq!([&unmounting[..5], &unmounting[7..]].concat(), baseline);

    let eager = shown(&plan("unmount = false\nno_lazy_init = true"), None);
    assert_eq!(eager[1], "mkfs.ext4 -F -q -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 /dev/loop7");
    let seedless = shown(&plan("unmount = false\nnull_hash_seed = true"), None);
    assert_eq!(seedless[2], "debugfs -w -R 'set_super_value hash_seed null' /dev/loop7");
    let restored = shown(&plan("restore_image = true"), Some(true));
    assert_eq!(
        restored,
        [
            baseline[0].as_str(),
            "dd if=/s/image of=/dev/loop7 bs=4M",
            &baseline[2],
            &baseline[5],
            &baseline[6],
            &baseline[7],
            &baseline[8],
        ]
    );
}
