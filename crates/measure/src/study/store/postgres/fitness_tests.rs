//! Fleets with a sick machine in them: it skips nothing for good that others can make.

use std::path::{Path, PathBuf};
use std::thread;

use super::PostgresStore;
use super::tests::{BLOCK, PLAN, RUNS, Scene, record};
use crate::study::runner::{self, Observer, Progress, RunError, Stage, StageError, Task};
use crate::study::steps::Step;
use crate::study::store::{Claim, Claimed, Kept, Record, Store, Tally};

/// A machine on which some programs are broken, and every other step succeeds at once.
#[derive(Default)]
struct Machine {
    point: PathBuf,
    /// What the name of a broken program begins with.
    broken: Option<&'static str>,
    tried: usize,
}

impl Stage for Machine {
    fn ready(&mut self, _device: &str) -> Result<PathBuf, StageError> {
        Ok("/dev/loopN".into())
    }

    fn point(&self) -> &Path {
        &self.point
    }

    fn image(&self, _task: &Task<'_>) -> (PathBuf, bool) {
        (PathBuf::new(), false)
    }

    fn perform(
        &mut self,
        step: &Step,
        _task: &Task<'_>,
        _node: &Path,
        kept: &mut Record,
    ) -> Result<(), StageError> {
        match (step, self.broken) {
            (Step::Run(words), Some(broken)) if words[0].starts_with(broken) => {
                self.tried += 1;
                Err(StageError::Unmountable(format!("{} failed: cannot load libuuid", words[0])))
            }
            (Step::Workload, _) => {
                kept.answer = record().answer;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn clear(&mut self) -> Result<(), StageError> {
        Ok(())
    }
}

struct Silent;

impl Observer for Silent {
    fn progress(&mut self, _progress: &Progress<'_>) {}
    fn waiting(&mut self, _settled: u64, _all: u64) {}
    fn note(&mut self, _line: &str) {}
}

fn work(scene: &Scene, name: &str, machine: &mut Machine) -> Result<Tally, RunError> {
    let mut store = scene.join(name);
    runner::run(&scene.plan, &scene.configurations, &mut store, machine, &mut Silent, &scene.interrupt)
}

fn done_by(scene: &Scene, name: &str) -> i64 {
    scene.number(&format!(
        "SELECT count(*) FROM run JOIN machine ON machine.id = machine_id WHERE state = 'done' AND name = '{name}'"
    ))
}

const ALL_DONE: Tally = Tally { done: RUNS as u64, planned: 0, skipped: 0, failed: 0 };

#[track_caller]
fn is_unfit(ended: Result<Tally, RunError>, words: &str) {
    match ended {
        Err(RunError::Passing(why)) => {
            assert!(why.starts_with("this machine takes no more runs: ") && why.contains(words), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_machine_that_can_make_nothing_takes_one_block_and_costs_no_run() {
    let Some(scene) = Scene::new(PLAN) else { return };
    let mut sick = Machine { broken: Some("mkfs."), ..Machine::default() };
    is_unfit(work(&scene, "sick", &mut sick), "it could make and mount nothing (mkfs.");
    assert_eq!(sick.tried, 3, "each configuration once");
    assert_eq!(scene.number("SELECT count(*) FROM run WHERE state <> 'planned'"), 0);
    assert_eq!(work(&scene, "well", &mut Machine::default()).unwrap(), ALL_DONE);
    assert_eq!(done_by(&scene, "well"), RUNS as i64);
}

#[test]
fn a_machine_that_fails_what_the_other_makes_stops_and_what_it_skipped_is_done() {
    // Whichever comes first, or both at once.
    for order in 0..3 {
        let Some(scene) = Scene::new(PLAN) else { return };
        let mut sick = Machine { broken: Some("mkfs.xfs"), ..Machine::default() };
        let ended = match order {
            0 => {
                // Alone, it takes the skips for the configuration's, and is through before anybody knows better.
                let alone = work(&scene, "sick", &mut sick).unwrap();
                assert_eq!((alone.skipped, alone.planned), (RUNS as u64 / 3, 0));
                work(&scene, "well", &mut Machine::default())
            }
            1 => {
                let mut well = scene.join("well");
                for _ in 0..BLOCK {
                    let run = scene.run(&mut well);
                    assert_eq!(well.finish(run.id, &record()).unwrap(), Kept::Yes);
                }
                is_unfit(work(&scene, "sick", &mut sick), "other machines make xfs, and this one does not");
                assert_eq!(sick.tried, 1);
                drop(well);
                work(&scene, "well", &mut Machine::default())
            }
            _ => thread::scope(|scope| {
                let both = scope.spawn(|| work(&scene, "well", &mut Machine::default()));
                let _unfit_or_over = work(&scene, "sick", &mut sick);
                both.join().unwrap()
            }),
        };
        assert_eq!(ended.unwrap(), ALL_DONE, "order {order}");
        let xfs_by_sick = "SELECT count(*) FROM run JOIN configuration ON configuration.id = configuration_id
                           JOIN machine ON machine.id = machine_id WHERE label = 'xfs' AND name = 'sick'";
        assert_eq!(scene.number(xfs_by_sick), 0);
        // Mended, it takes part again: there is nothing left to do.
        assert_eq!(work(&scene, "sick", &mut Machine::default()).unwrap(), ALL_DONE);
    }
}

#[test]
fn a_machine_that_is_told_so_in_the_middle_of_its_block_leaves_the_rest_to_others() {
    let Some(scene) = Scene::new(&PLAN.replace("runs = 4", "runs = 2")) else { return };
    let (mut poor, mut rich) = (scene.join("poor"), scene.join("rich"));
    let bad = scene.run(&mut poor);
    poor.skip(bad.id, "unknown filesystem type").unwrap();
    let is_bad = |run: &Claimed| run.planned.configuration == bad.planned.configuration;
    let next = scene.run(&mut poor);
    assert!(!is_bad(&next), "tried again");
    let take = |store: &mut PostgresStore, runs: usize| -> Vec<Claimed> {
        let one = |_| {
            let run = scene.run(store);
            assert_eq!(store.finish(run.id, &record()).unwrap(), Kept::Yes);
            run
        };
        (0..runs).map(one).collect()
    };
    assert_eq!(take(&mut rich, BLOCK).iter().filter(|run| is_bad(run)).count(), 2);
    // What it has under way is kept, and the rest of its block is taken once it knows.
    assert_eq!(scene.claim(&mut rich), Claim::Wait);
    assert_eq!(poor.finish(next.id, &record()).unwrap(), Kept::Yes);
    let Claim::Unfit(why) = scene.claim(&mut poor) else { panic!("it goes on") };
    assert!(why.contains("(unknown filesystem type)"), "{why}");
    assert_eq!(take(&mut rich, BLOCK - 1).iter().filter(|run| is_bad(run)).count(), 2);
    assert_eq!(scene.claim(&mut rich), Claim::Over);
    assert_eq!(poor.tally().unwrap().done, 2 * BLOCK as u64);
}

#[test]
fn what_no_machine_makes_is_tried_once_on_each_and_skipped_for_good() {
    let Some(scene) = Scene::new(PLAN) else { return };
    for name in ["one", "other"] {
        let mut machine = Machine { broken: Some("mkfs.btrfs"), ..Machine::default() };
        let tally = work(&scene, name, &mut machine).unwrap();
        assert_eq!(machine.tried, 1, "{name}");
        assert_eq!((tally.done, tally.skipped), (2 * RUNS as u64 / 3, RUNS as u64 / 3), "{name}");
    }
    // A database that an earlier version began has no list of the unfit.
    scene.address.connect().unwrap().batch_execute("DROP TABLE unfit").unwrap();
    let mut store = scene.join("one");
    store.retry().unwrap();
    assert_eq!(store.tally().unwrap().skipped, 0);
}
