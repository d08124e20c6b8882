//! Takes the runs of a study, one after the other, and keeps what comes of each.
//!
//! 1. A run is taken from a known state and leaves none behind, however it ends.
//! 2. A configuration that cannot be made or mounted is kept with its message, and its other runs are skipped. A run
//!    that fails otherwise is kept with its message, and the next one is taken.
//! 3. An interrupt puts the run under way back; what was done stays. So does a failure that may pass: a configuration
//!    that was made before and now cannot be, or a device that others hold.
//! 4. A machine that fails what others manage takes no more runs.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_host::interrupt::Interrupt;

use super::plan::space::Configuration;
use super::plan::{Plan, Workload};
use super::schedule::Planned;
use super::steps::{self, Place, Step};
use super::store::{Claim, Claimed, Kept, Record, Store, StoreError, Tally};
use super::workload::tree::seed_of;

/// How long a machine without a run waits before it asks again.
const WAIT: Duration = Duration::from_millis(500);

/// One run, with what follows from the plan.
#[derive(Debug, Clone, Copy)]
pub struct Task<'a> {
    /// Which run it is.
    pub planned: Planned,
    /// Its configuration.
    pub configuration: &'a Configuration,
    /// Its workload.
    pub workload: &'a Workload,
    /// Length of a window, in seconds.
    pub interval_s: f64,
    /// The memory that the workload may take.
    pub memory_bytes: Option<u64>,
    /// What the data set follows from: the same for all runs of the workload.
    pub data_seed: u64,
    /// What the threads do follows from this: the same for all configurations in a repeat.
    pub run_seed: u64,
}

/// Why a step was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StageError {
    /// The study is to stop.
    Interrupted,
    /// This configuration cannot be made or mounted.
    Unmountable(String),
    /// This run failed.
    Failed(String),
    /// The run could not be taken, and could be at another time.
    Passing(String),
    /// No other run would do better.
    Fatal(String),
}

/// What takes the steps.
pub trait Stage {
    /// Readies a device of the plan, and answers its node.
    ///
    /// # Errors
    ///
    /// Where it cannot be had.
    fn ready(&mut self, device: &str) -> Result<PathBuf, StageError>;

    /// The folder that file systems are mounted on.
    fn point(&self) -> &Path;

    /// Where the image of a run's configuration and workload is kept, and whether it is there.
    fn image(&self, task: &Task<'_>) -> (PathBuf, bool);

    /// Takes a step of a run.
    ///
    /// # Errors
    ///
    /// Why it could not be taken.
    fn perform(
        &mut self,
        step: &Step,
        task: &Task<'_>,
        node: &Path,
        record: &mut Record,
    ) -> Result<(), StageError>;

    /// Undoes what a run left.
    ///
    /// # Errors
    ///
    /// Where it cannot be undone.
    fn clear(&mut self) -> Result<(), StageError>;
}

/// What the reader is told meanwhile.
#[derive(Debug)]
pub struct Progress<'a> {
    /// Runs that are settled.
    pub settled: u64,
    /// Runs of the study.
    pub all: u64,
    /// The configuration under way.
    pub configuration: &'a str,
    /// The workload under way.
    pub workload: &'a str,
    /// How long the rest will take, in seconds, from the runs so far.
    pub left_s: Option<f64>,
}

/// Who is told.
pub trait Observer {
    /// A run begins.
    fn progress(&mut self, progress: &Progress<'_>);
    /// So many of all runs are settled, and what is left is with other machines.
    fn waiting(&mut self, settled: u64, all: u64);
    /// Something to know, once.
    fn note(&mut self, line: &str);
}

/// Why a study ended before its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The machine.
    #[error("{0}")]
    Stage(String),
    /// Something that may pass, or can be mended: nothing of it is kept against a configuration.
    #[error("{0}")]
    Passing(String),
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

/// Takes all runs that are planned; answers how they ended.
///
/// # Errors
///
/// Where the study could not go on; what was done is kept.
pub fn run(
    plan: &Plan,
    configurations: &[Configuration],
    store: &mut dyn Store,
    stage: &mut dyn Stage,
    observer: &mut dyn Observer,
    interrupt: &Interrupt,
) -> Result<Tally, RunError> {
    let (begun, settled_before) = (Instant::now(), store.tally()?.settled());
    let mut told = Vec::new();
    loop {
        if interrupt.is_asked() {
            return Err(RunError::Interrupted);
        }
        let tally = store.tally()?;
        let settled = tally.settled();
        let all = settled + tally.planned;
        let claimed = match store.claim(plan)? {
            Claim::Run(claimed) => claimed,
            Claim::Over => return Ok(store.tally()?),
            Claim::Unfit(why) => {
                return Err(RunError::Passing(format!("this machine takes no more runs: {why}")));
            }
            Claim::Wait => {
                observer.waiting(settled, all);
                thread::sleep(WAIT);
                continue;
            }
        };
        let task = task(plan, configurations, claimed)?;
        let since = settled.saturating_sub(settled_before);
        let each_s = (since > 0).then(|| begun.elapsed().as_secs_f64() / since as f64);
        observer.progress(&Progress {
            settled,
            all,
            configuration: &task.configuration.label,
            workload: &task.workload.name,
            left_s: each_s.map(|each_s| each_s * tally.planned as f64),
        });
        let mut record = Record::default();
        let ended = take(stage, &task, &mut record);
        let cleared = stage.clear();
        match ended.and(cleared) {
            Ok(()) => {
                let kept = store.finish(claimed.id, &record)?;
                tell_once(observer, &mut told, record.message);
                tell_of_loss(observer, kept, &task);
            }
            Err(StageError::Unmountable(why)) if store.was_made(claimed.id)? => {
                put_back(store, observer, claimed);
                let label = &task.configuration.label;
                return Err(RunError::Passing(format!(
                    "{label} was made and mounted before, and now: {why}"
                )));
            }
            Err(StageError::Unmountable(why)) => {
                store.skip(claimed.id, &why)?;
                observer.note(&format!("skipped {}: {why}", task.configuration.label));
            }
            Err(StageError::Failed(why)) => {
                let kept = store.fail(claimed.id, &why, &record.conditions)?;
                tell_of_loss(observer, kept, &task);
                observer.note(&format!("failed {} {}: {why}", task.configuration.label, task.workload.name));
            }
            Err(StageError::Interrupted) => {
                put_back(store, observer, claimed);
                return Err(RunError::Interrupted);
            }
            Err(StageError::Passing(why)) => {
                put_back(store, observer, claimed);
                return Err(RunError::Passing(why));
            }
            Err(StageError::Fatal(why)) => {
                put_back(store, observer, claimed);
                return Err(RunError::Stage(why));
            }
        }
    }
}

/// Puts a run back; where the database cannot be had, whoever opens it next does.
fn put_back(store: &mut dyn Store, observer: &mut dyn Observer, claimed: Claimed) {
    if let Err(error) = store.put_back(claimed.id) {
        observer.note(&error.to_string());
    }
}

fn tell_once(observer: &mut dyn Observer, told: &mut Vec<String>, message: Option<String>) {
    if let Some(message) = message.filter(|message| !told.contains(message)) {
        observer.note(&message);
        told.push(message);
    }
}

fn tell_of_loss(observer: &mut dyn Observer, kept: Kept, task: &Task<'_>) {
    if kept == Kept::TakenOver {
        let (configuration, workload) = (&task.configuration.label, &task.workload.name);
        observer.note(&format!(
            "another machine took {configuration} {workload} over meanwhile, since the database had not heard of this \
             one for its lease: what came of it here is dropped"
        ));
    }
}

fn task<'a>(
    plan: &'a Plan,
    configurations: &'a [Configuration],
    claimed: Claimed,
) -> Result<Task<'a>, RunError> {
    let planned = claimed.planned;
    let configuration =
        configurations.get(planned.configuration).ok_or_else(|| StoreError::OtherPlan(plan.name.clone()))?;
    let workload = &plan.workloads[planned.workload];
    Ok(Task {
        planned,
        configuration,
        workload,
        interval_s: plan.interval_s,
        memory_bytes: plan.memory_bytes(workload),
        data_seed: seed_of(plan.seed, &["data", &workload.name]),
        run_seed: seed_of(plan.seed, &["run", &workload.name, &planned.repeat.to_string()]),
    })
}

fn take(stage: &mut dyn Stage, task: &Task<'_>, record: &mut Record) -> Result<(), StageError> {
    let begun = Instant::now();
    let node = stage.ready(&task.configuration.device)?;
    let point = stage.point().to_owned();
    let image = task.configuration.remedies.restore_image.then(|| stage.image(task));
    let image = image.as_ref().map(|(path, is_there)| (path.as_path(), *is_there));
    let place = Place { node: &node, point: &point, image };
    for step in steps::of_run(task.configuration, task.workload, &place) {
        if step == Step::Workload {
            record.conditions.push(("preparation_s".to_owned(), begun.elapsed().as_secs_f64()));
        }
        stage.perform(&step, task, &node, record)?;
    }
    Ok(())
}
