//! Several machines on one database of a real server: each run once, whole blocks, and nobody's work twice.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_host::conditions::Machine;
use evenkeel_host::fiemap::Extent;
use evenkeel_host::interrupt::Interrupt;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};

use super::cluster::Cluster;
use super::{Address, PostgresStore, Seat};
use crate::study::answer::Latency;
use crate::study::plan::Plan;
use crate::study::plan::space::Configuration;
use crate::study::schedule::{self, Planned};
use crate::study::store::{
    Begun, Claim, Claimed, EXTENTS_MAX, Kept, Record, SqliteStore, Store, StoreError, Tally,
};
use crate::study::{data, read};

pub(super) const PLAN: &str = r#"
name = "shared"
runs = 4
time = "1s"
interval = "0.5s"
[data]
size = "64m"
[[workload]]
name = "mailserver"
[[workload]]
name = "webserver"
[[factor]]
name = "file_system"
values = ["ext4", "xfs", "btrfs"]
"#;
pub(super) const BLOCK: usize = 6;
pub(super) const RUNS: usize = 4 * BLOCK;
const LONG: Duration = Duration::from_secs(3600);

/// Shared by the tests that run at the same time; it ends with the last of them.
static CLUSTER: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
/// One test at a time has the database.
static TURN: Mutex<()> = Mutex::new(());

/// Tells that this test could not run here.
#[expect(clippy::print_stderr, reason = "what was skipped is for whoever runs it")]
fn skip(reason: &str) {
    eprintln!("skipped: {reason}");
    if let Some(path) = std::env::var_os("EVENKEEL_SKIPPED") {
        let thread = thread::current();
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(file, "{}: {reason}", thread.name().unwrap_or("a test of claims")).unwrap();
    }
}

pub(super) struct Scene {
    pub(super) address: Address,
    pub(super) plan: Plan,
    pub(super) configurations: Vec<Configuration>,
    order: Vec<Planned>,
    pub(super) interrupt: Interrupt,
    // Given back before the server may be stopped.
    _turn: MutexGuard<'static, ()>,
    cluster: Arc<Cluster>,
}

impl Scene {
    /// An empty database; `None`, said aloud, where there is no PostgreSQL.
    pub(super) fn new(plan: &str) -> Option<Self> {
        let mut shared = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
        let cluster = match shared.upgrade().map_or_else(|| Cluster::start().map(Arc::new), Ok) {
            Ok(cluster) => cluster,
            Err(reason) => {
                skip(&format!("no PostgreSQL: {reason}"));
                return None;
            }
        };
        *shared = Arc::downgrade(&cluster);
        drop(shared);
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let address = Address::parse(&cluster.address()).unwrap();
        let mut client = address.connect().unwrap();
        client.batch_execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public").unwrap();
        let plan = Plan::parse(plan, Path::new("")).unwrap();
        let configurations = plan.sampled().unwrap().configurations;
        let order = schedule::order(configurations.len(), plan.workloads.len(), plan.runs, plan.seed);
        let interrupt = Interrupt::default();
        Some(Self { address, plan, configurations, order, interrupt, _turn: turn, cluster })
    }

    fn try_join(&self, name: &str, lease: Duration) -> Result<PostgresStore, StoreError> {
        PostgresStore::join(
            &self.address,
            &self.begun(),
            &Seat { machine: &machine(name), lease, interrupt: &self.interrupt },
        )
    }

    fn begun(&self) -> Begun<'_> {
        Begun { plan: &self.plan, configurations: &self.configurations, order: &self.order }
    }

    pub(super) fn join(&self, name: &str) -> PostgresStore {
        self.try_join(name, LONG).unwrap()
    }

    pub(super) fn claim(&self, store: &mut PostgresStore) -> Claim {
        store.claim(&self.plan).unwrap()
    }

    #[track_caller]
    pub(super) fn run(&self, store: &mut PostgresStore) -> Claimed {
        match self.claim(store) {
            Claim::Run(claimed) => claimed,
            other => panic!("no run: {other:?}"),
        }
    }

    pub(super) fn number(&self, query: &str) -> i64 {
        self.address.connect().unwrap().query_one(query, &[]).unwrap().get(0)
    }

    /// How many machines did the runs of a block, at most.
    fn machines_in_a_block(&self) -> i64 {
        self.number(
            "SELECT max(machines) FROM (SELECT count(DISTINCT machine_id) AS machines FROM run
             GROUP BY repeat) AS blocks",
        )
    }

    /// As if a machine had died just now.
    fn bury(&self, name: &str) {
        let bury = "UPDATE machine SET alive_until = now() WHERE name = $1";
        assert_eq!(self.address.connect().unwrap().execute(bury, &[&name]).unwrap(), 1);
    }
}

fn machine(name: &str) -> Machine {
    Machine { name: name.to_owned(), kernel: "k".to_owned(), cpus: 2, memory_bytes: 1 << 30 }
}

pub(super) fn record() -> Record {
    let mut record = Record::default();
    record.answer.duration_s = 1.0;
    record.answer.operations = 20;
    record.answer.operations_per_s = 20.0;
    record.answer.interval_s = 0.5;
    record.answer.windows = vec![12, 8];
    record.conditions = vec![("load_1m".to_owned(), 0.5), ("load_1m".to_owned(), 0.7)];
    record.message = Some("a null \0 in it".to_owned());
    record
}

#[test]
fn machines_take_whole_blocks_in_the_plans_order() {
    let Some(scene) = Scene::new(PLAN) else { return };
    let (mut one, mut other) = (scene.join("one"), scene.join("other"));
    // In turns, and yet each has a block of its own.
    for at in 0..BLOCK {
        for (store, block) in [(&mut one, 0), (&mut other, 1)] {
            let run = scene.run(store);
            assert_eq!(run.planned, scene.order[block * BLOCK + at]);
            assert_eq!(store.finish(run.id, &record()).unwrap(), Kept::Yes);
        }
    }
    // The faster one takes what is left.
    for at in 2 * BLOCK..RUNS {
        let run = scene.run(&mut one);
        assert_eq!(run.planned, scene.order[at]);
        assert_eq!(one.finish(run.id, &record()).unwrap(), Kept::Yes);
    }
    assert_eq!((scene.claim(&mut one), scene.claim(&mut other)), (Claim::Over, Claim::Over));
    assert_eq!(one.tally().unwrap(), Tally { done: RUNS as u64, ..Tally::default() });
    assert_eq!(scene.machines_in_a_block(), 1);
    assert_eq!(scene.number("SELECT count(*) FROM throughput"), 2 * RUNS as i64);
    assert_eq!(scene.number("SELECT count(*) FROM condition WHERE value = 0.7"), RUNS as i64);
    for figure in 1..=9 {
        let rows = scene.number(&format!("SELECT count(*) FROM figure_{figure}"));
        assert_eq!(rows > 0, [1, 2, 5, 6, 7].contains(&figure), "figure {figure}: {rows}");
    }
    let per_machine = "SELECT count(*) FROM figure_1 WHERE machine = 'one' AND runs = 3";
    assert_eq!(scene.number(per_machine), BLOCK as i64, "the other's single run varies from nothing");
}

/// A record with something in each table.
fn full_record() -> Record {
    let mut histogram = Histogram::<u64>::new_with_bounds(1, 1_000_000_000, 3).unwrap();
    (1..50).for_each(|at| histogram.record(at * 1000).unwrap());
    let mut blob = Vec::new();
    V2Serializer::new().serialize(&histogram, &mut blob).unwrap();
    let mut record = record();
    record.message = Some("memory was not bounded: \"none\" — \\N\t".to_owned());
    record.answer.latencies = vec![Latency {
        operation: "open".to_owned(),
        operations: 49,
        mean_s: 25e-6,
        p50_s: 25e-6,
        p99_s: 49e-6,
        p999_s: 49e-6,
        max_s: 49e-6,
        histogram: blob,
    }];
    let extent = |at: u64| Extent { physical_bytes: at << 40, length_bytes: 4096 };
    record.layout = (0..1500).map(extent).collect();
    record
}

#[test]
fn a_study_reads_the_same_from_a_server_as_from_a_file() {
    let Some(scene) = Scene::new(PLAN) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.db");
    let mut file = SqliteStore::create(&path, &scene.begun(), &machine("here")).unwrap();
    let mut server = scene.join("here");
    let record = full_record();
    let stores: [&mut dyn Store; 2] = [&mut file, &mut server];
    for store in stores {
        for at in 0..BLOCK + 2 {
            let Claim::Run(run) = store.claim(&scene.plan).unwrap() else { panic!("no run") };
            match at {
                1 => drop(store.fail(run.id, "it broke", &record.conditions).unwrap()),
                _ => drop(store.finish(run.id, &record).unwrap()),
            }
        }
    }
    let dateless = |mut study: data::Study| {
        study.created_at.clear();
        study.runs.iter_mut().for_each(|run| run.started_at = run.started_at.take().map(|_| String::new()));
        study
    };
    let (of_file, of_server) = (read::read(&path).unwrap(), read::read_postgres(&scene.address).unwrap());
    assert_eq!(of_file.created_at.len(), of_server.created_at.len());
    assert_eq!(of_file.runs[0].extents.len(), EXTENTS_MAX);
    assert_eq!(dateless(of_file), dateless(of_server));
}

#[test]
fn many_machines_at_once_take_each_run_once() {
    let Some(scene) = Scene::new(&PLAN.replace("runs = 4", "runs = 16")) else { return };
    let scene = &scene;
    let all = thread::scope(|scope| {
        let work = |number: usize| {
            // All of them at once find that the study is to be made.
            let mut store = scene.join(&format!("machine-{number}"));
            let mut taken = Vec::new();
            loop {
                match scene.claim(&mut store) {
                    Claim::Run(run) => {
                        assert_eq!(store.finish(run.id, &record()).unwrap(), Kept::Yes);
                        taken.push(run.id);
                    }
                    Claim::Wait => thread::sleep(Duration::from_millis(1)),
                    Claim::Over => break taken,
                    Claim::Unfit(why) => panic!("{why}"),
                }
            }
        };
        let machines: Vec<_> = (0..5).map(|number| scope.spawn(move || work(number))).collect();
        machines.into_iter().flat_map(|machine| machine.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(all.len(), 16 * BLOCK);
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 16 * BLOCK);
    assert_eq!(scene.machines_in_a_block(), 1);
}

#[test]
fn what_a_machine_leaves_is_taken_over_after_its_lease_and_what_it_then_brings_is_dropped() {
    let Some(scene) = Scene::new(&PLAN.replace("runs = 4", "runs = 1")) else { return };
    let (mut dying, mut heir) = (scene.join("dying"), scene.join("heir"));
    let done = scene.run(&mut dying);
    assert_eq!(dying.finish(done.id, &record()).unwrap(), Kept::Yes);
    let left = scene.run(&mut dying);
    assert_eq!(scene.claim(&mut heir), Claim::Wait, "it may still be alive");
    scene.bury("dying");
    assert_eq!(scene.run(&mut heir), left);
    assert_eq!(scene.number("SELECT count(*) FROM run WHERE state = 'running'"), 1);

    // It was only slow: what it has done meanwhile is not kept, and it takes nothing of that block any more.
    assert_eq!(dying.finish(left.id, &record()).unwrap(), Kept::TakenOver);
    assert_eq!(dying.fail(left.id, "too late", &[]).unwrap(), Kept::TakenOver);
    dying.skip(left.id, "too late").unwrap();
    dying.put_back(left.id).unwrap();
    assert_eq!(scene.claim(&mut dying), Claim::Wait);
    assert_eq!(scene.number("SELECT count(*) FROM run WHERE state = 'running'"), 1);
    assert_eq!(heir.finish(left.id, &record()).unwrap(), Kept::Yes);
    for _ in 2..BLOCK {
        let run = scene.run(&mut heir);
        assert_eq!(heir.finish(run.id, &record()).unwrap(), Kept::Yes);
    }
    assert_eq!((scene.claim(&mut heir), scene.claim(&mut dying)), (Claim::Over, Claim::Over));
    assert_eq!(scene.number("SELECT count(*) FROM throughput"), 2 * BLOCK as i64);
    let of_heir = "SELECT count(*) FROM run JOIN machine ON machine.id = machine_id WHERE name = 'heir'";
    assert_eq!(scene.number(of_heir), BLOCK as i64 - 1);
}

#[test]
fn free_blocks_come_before_those_of_the_dead() {
    let Some(scene) = Scene::new(&PLAN.replace("runs = 4", "runs = 2")) else { return };
    let (mut dead, mut heir) = (scene.join("dead"), scene.join("heir"));
    let first = scene.run(&mut dead);
    scene.bury("dead");
    for at in BLOCK..2 * BLOCK {
        let run = scene.run(&mut heir);
        assert_eq!(run.planned, scene.order[at]);
        assert_eq!(heir.finish(run.id, &record()).unwrap(), Kept::Yes);
    }
    assert_eq!(scene.run(&mut heir), first);
}

#[test]
fn runs_whose_block_was_deleted_are_named_and_not_waited_for() {
    let Some(scene) = Scene::new(PLAN) else { return };
    let mut store = scene.join("one");
    let deleted = "WITH gone AS (DELETE FROM block RETURNING 1) SELECT count(*) FROM gone";
    assert_eq!(scene.number(deleted), 4);
    let said = store.claim(&scene.plan).expect_err("nobody can ever take them").to_string();
    assert!(said.contains(&format!("{RUNS} runs without")) && said.contains("table block"), "{said}");
}

#[test]
fn a_machine_whose_heart_beats_stays_alive_for_longer_than_its_lease() {
    let Some(scene) = Scene::new(PLAN) else { return };
    let lease = Duration::from_millis(400);
    let alive = scene.try_join("alive", lease).unwrap();
    let until = || scene.number("SELECT (extract(epoch FROM alive_until) * 1000000)::bigint FROM machine");
    let (first, patience) = (until(), Instant::now());
    while until() < first + 3 * lease.as_micros() as i64 {
        assert!(patience.elapsed() < Duration::from_secs(300), "no heartbeat came");
        thread::sleep(Duration::from_millis(5));
    }
    // Whoever leaves in order is not waited for.
    drop(alive);
    assert_eq!(scene.number("SELECT count(*) FROM machine WHERE alive_until <= now()"), 1);
}

#[test]
fn one_process_at_a_time_takes_part_under_a_name_and_the_next_has_its_runs_at_once() {
    let Some(scene) = Scene::new(PLAN) else { return };
    let mut first = scene.join("here");
    let run = scene.run(&mut first);
    let refused = scene.try_join("here", LONG).err();
    assert!(matches!(refused, Some(StoreError::NameTaken(name)) if name == "here"));
    // Killed: nobody ends its part.
    let PostgresStore { client, part, .. } = &mut first;
    let old = part.clone();
    client.batch_execute("SELECT pg_advisory_unlock_all()").unwrap();
    let mut next = scene.join("here");
    assert_eq!(scene.run(&mut next), run);
    // Were it alive after all, it could do nothing.
    assert_eq!(first.part.session, old.session);
    let ended = first.finish(run.id, &record());
    assert!(matches!(ended, Err(StoreError::Replaced(name)) if name == "here"));
    assert!(matches!(first.claim(&scene.plan), Err(StoreError::Replaced(_))));
    assert_eq!(next.finish(run.id, &record()).unwrap(), Kept::Yes);
}

#[test]
fn another_plan_or_sample_is_refused() {
    let Some(mut scene) = Scene::new(PLAN) else { return };
    drop(scene.join("one"));
    scene.configurations.swap(0, 1);
    assert!(matches!(scene.try_join("one", LONG).err(), Some(StoreError::OtherSample(_))));
    scene.plan = Plan::parse(&PLAN.replace("runs = 4", "runs = 5"), Path::new("")).unwrap();
    let refused = scene.try_join("one", LONG).err();
    assert!(matches!(refused, Some(StoreError::OtherPlan(name)) if name == "shared"));
    let client = &mut scene.address.connect().unwrap();
    client
        .batch_execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE TABLE study (a INT)")
        .unwrap();
    let refused = scene.try_join("one", LONG).err().unwrap().to_string();
    assert!(refused.contains("does not exist") && !refused.contains('\n'), "{refused}");
}

#[test]
fn a_server_that_starts_anew_costs_no_run() {
    let Some(scene) = Scene::new(PLAN) else { return };
    let mut store = scene.join("patient");
    let run = scene.run(&mut store);
    scene.cluster.stop().unwrap();
    let server = &scene.cluster;
    thread::scope(|scope| {
        let back = scope.spawn(|| server.begin());
        assert_eq!(store.finish(run.id, &record()).unwrap(), Kept::Yes);
        back.join().unwrap().unwrap();
    });
    // And where the answer was lost, what was kept is kept once.
    assert_eq!(store.finish(run.id, &record()).unwrap(), Kept::Yes);
    assert_eq!(scene.number("SELECT count(*) FROM throughput"), 2);
    let others = scene.try_join("patient", LONG).err();
    assert!(matches!(others, Some(StoreError::NameTaken(_))), "its name is its own again");
    assert_eq!(scene.run(&mut store).planned, scene.order[1]);
}

#[test]
fn a_study_that_is_to_stop_does_not_wait_for_a_server_that_is_gone() {
    let Some(scene) = Scene::new(PLAN) else { return };
    let mut store = scene.join("impatient");
    let run = scene.run(&mut store);
    scene.cluster.stop().unwrap();
    scene.interrupt.ask();
    let (answered, is_answered) = mpsc::channel();
    let server = &scene.cluster;
    thread::scope(|scope| {
        // Were it waited for, it would come back.
        let back = scope.spawn(move || {
            let _whatever_came = is_answered.recv_timeout(Duration::from_secs(30));
            server.begin()
        });
        assert!(matches!(store.put_back(run.id), Err(StoreError::Postgres(_))));
        answered.send(()).unwrap();
        back.join().unwrap().unwrap();
    });
    drop(store);
    assert_eq!(scene.run(&mut scene.join("impatient")), run, "its run is its own again");
}
