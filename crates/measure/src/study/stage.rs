//! Where runs take place: devices, mounts and workloads of this machine.
//!
//! 1. A device is changed only while it is ours: a loop device over this study's file, or a block device of the plan's
//!    `destroy` that nobody uses.
//! 2. Whatever a run leaves (a mount, settings, a worker) is gone before the next one begins, and when this is dropped.
//! 3. A device that somebody else holds for a moment is waited for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use evenkeel_host::conditions::Before;
use evenkeel_host::interrupt::Interrupt;
use evenkeel_host::kernel_setting::{self, KernelSetting};
use evenkeel_host::loop_device::{self, LoopDevice};
use evenkeel_host::memory_bound::{self, MemoryBound};
use evenkeel_host::mounted::{self, Mounted};
use evenkeel_host::program::{Program, ProgramError};
use evenkeel_host::scratch::ScratchFile;
use evenkeel_host::{device_image, fiemap};

use super::answer::Answer;
use super::hold::{self, Holders};
use super::plan::{Kind, Plan, Workload};
use super::runner::{Stage, StageError, Task};
use super::steps::Step;
use super::store::Record;
use super::worker::Job;
use super::workload::tree::seed_of;

/// The name of the mark that the loop device's file is elsewhere.
const LOOP_MARK: &str = "loop-elsewhere";
/// How often an interrupt is looked for while a device is waited for.
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// How long mkfs may take.
const MKFS_TIME: Duration = Duration::from_secs(1800);
/// How much longer than its time a workload may take: its last operations, and the writing of its answer.
const WORKLOAD_GRACE_S: f64 = 300.0;
/// How long a data set may take.
const MAKE_DATA_TIME: Duration = Duration::from_secs(6 * 3600);
/// What other workloads than ours may take for data of their own.
const OWN_DATA_S: f64 = 4000.0;

/// This machine as a stage.
#[derive(Debug)]
pub struct HostStage {
    /// Mounted file system, settings and images go before the loop device.
    mounted: Option<Mounted>,
    settings: Vec<KernelSetting>,
    images: BTreeMap<PathBuf, ScratchFile>,
    loop_device: Option<LoopDevice>,
    /// Says that the file elsewhere is of this folder's study.
    loop_mark: Option<PathBuf>,
    loop_image: PathBuf,
    loop_bytes: u64,
    point: PathBuf,
    folder: PathBuf,
    /// The command that works as a worker.
    worker: Vec<PathBuf>,
    interrupt: Interrupt,
    bounds: u64,
}

impl HostStage {
    /// In a folder of the study's own, which is removed with it. What a process that was killed left there goes first.
    ///
    /// # Errors
    ///
    /// Where the folder cannot be made, or has anything in it that is not of a study.
    pub fn new(
        plan: &Plan,
        folder: &Path,
        worker: Vec<PathBuf>,
        interrupt: Interrupt,
    ) -> std::io::Result<Self> {
        let point = folder.join("mnt");
        let loop_image = plan.loop_image(folder);
        let loop_mark = plan.loop_folder.as_ref().map(|_| folder.join(LOOP_MARK));
        if folder.exists() {
            // What still runs keeps the mount in use.
            memory_bound::remove_leftovers(&groups(&fs::canonicalize(folder)?));
            mounted::remove_leftover(&point);
            loop_device::remove_leftover(&folder.join("loop.img"));
            // Of a study in another folder it may be in use.
            if let Some(mark) = loop_mark.as_ref().filter(|mark| mark.exists()) {
                loop_device::remove_leftover(&loop_image);
                fs::remove_file(mark)?;
            }
            for entry in fs::read_dir(folder)?.flatten() {
                let path = entry.path();
                if path.extension().is_some_and(|extension| extension == "image") {
                    fs::remove_file(path)?;
                }
            }
        }
        fs::create_dir_all(&point)?;
        Ok(Self {
            mounted: None,
            settings: Vec::new(),
            images: BTreeMap::new(),
            loop_device: None,
            loop_mark,
            loop_image,
            loop_bytes: plan.loop_bytes,
            point: fs::canonicalize(&point)?,
            folder: fs::canonicalize(folder)?,
            worker,
            interrupt,
            bounds: 0,
        })
    }

    /// Takes a step that changes the device or mounts it, when nobody else holds it; fails unless it may be changed.
    fn on_device(
        &self,
        node: &Path,
        mut step: impl FnMut() -> Result<(), StageError>,
    ) -> Result<(), StageError> {
        let mut holders = OfNode { node, interrupt: &self.interrupt };
        hold::when_free(&mut holders, node, || {
            match &self.loop_device {
                Some(device) if device.node() == node && !device.is_ours() => {
                    return Err(StageError::Fatal(format!(
                        "{} is not this study's any more",
                        node.display()
                    )));
                }
                _ => {}
            }
            step()
        })
    }

    fn program(&self, words: &[String]) -> Result<(), StageError> {
        Program::new(words, MKFS_TIME).long().run(None, &self.interrupt).map(drop).map_err(unmountable)
    }

    /// Lets the worker do a job, within a bound of memory if it gets one.
    fn work(&mut self, job: &Job, time: Duration, bound: Option<&MemoryBound>) -> Result<Answer, StageError> {
        let mut input = serde_json::to_vec(job).map_err(|error| StageError::Fatal(error.to_string()))?;
        input.push(b'\n');
        let said = Program::new(&self.worker, time).with_input(input).run(bound, &self.interrupt);
        if let Some(kills) = bound.map(MemoryBound::kills).filter(|kills| *kills > 0)
            && !self.interrupt.is_asked()
        {
            let what = if kills == 1 { "a process" } else { "processes" };
            return Err(StageError::Failed(format!(
                "the kernel killed {what} of the workload, which needs more memory than it may have; give [data] memory more"
            )));
        }
        let said = said.map_err(|error| match error {
            ProgramError::Interrupted => StageError::Interrupted,
            ProgramError::Failed(_, why) if why.starts_with("signal: ") => {
                StageError::Failed(format!("the workload was killed from outside ({why})"))
            }
            other => StageError::Failed(other.to_string()),
        })?;
        let answer: Answer = serde_json::from_slice(&said)
            .map_err(|error| StageError::Failed(format!("the workload's answer cannot be read: {error}")))?;
        match answer.failure {
            Some(failure) => Err(StageError::Failed(failure)),
            None => Ok(answer),
        }
    }

    fn make_data(&mut self, task: &Task<'_>, record: &mut Record) -> Result<(), StageError> {
        let Kind::Files(files) = &task.workload.kind else { return Ok(()) };
        let folder = self.point.join("data");
        fs::create_dir(&folder)
            .map_err(|error| StageError::Failed(format!("make the data's folder: {error}")))?;
        let job = Job::MakeData { folder, files: *files, data_seed: task.data_seed };
        let answer = self.work(&job, MAKE_DATA_TIME, None)?;
        record.conditions.push(("data_bytes".to_owned(), answer.data_bytes as f64));
        Ok(())
    }

    fn run_workload(&mut self, task: &Task<'_>, record: &mut Record) -> Result<(), StageError> {
        self.bounds += 1;
        let name = format!("{}{}", groups(&self.folder), self.bounds);
        let bound = match task.memory_bytes.map(|bytes| (bytes, MemoryBound::new(&name, bytes))) {
            None => None,
            Some((bytes, Ok(bound))) => {
                record.conditions.push(("memory_bound_bytes".to_owned(), bytes as f64));
                Some(bound)
            }
            Some((_, Err(error))) => {
                record.message =
                    Some(format!("memory was not bounded: no control group can be had here ({error})"));
                None
            }
        };
        let (job, time_s) = self.job(task);
        let before = Before::now();
        let worked = self.work(&job, Duration::from_secs_f64(time_s), bound.as_ref());
        record.conditions.extend(before.since().into_iter().map(|(name, value)| (name.to_owned(), value)));
        if let Some(peak) = bound.as_ref().and_then(MemoryBound::peak_bytes) {
            record.conditions.push(("memory_peak_bytes".to_owned(), peak as f64));
        }
        record.answer = worked?;
        Ok(())
    }

    /// The job of a workload, and how long it may take.
    fn job(&self, task: &Task<'_>) -> (Job, f64) {
        let Workload { time_s, kind, .. } = task.workload;
        let (time_s, interval_s, point) = (*time_s, task.interval_s, self.point.clone());
        match kind {
            Kind::Files(files) => {
                let (data_seed, run_seed) = (task.data_seed, task.run_seed);
                let folder = point.join("data");
                let job = Job::Files { folder, files: *files, data_seed, run_seed, time_s, interval_s };
                (job, time_s + WORKLOAD_GRACE_S)
            }
            Kind::Fio(job) => {
                let job = Job::Fio { folder: point, job: job.clone(), time_s, interval_s };
                (job, time_s + OWN_DATA_S)
            }
            Kind::Command(words) => {
                (Job::Command { folder: point, words: words.clone(), time_s }, time_s + OWN_DATA_S)
            }
        }
    }
}

/// What the names of control groups begin with of a study whose runs keep what they need in a folder.
fn groups(folder: &Path) -> String {
    format!("evenkeel-study-{:016x}-", seed_of(0, &["group", &folder.to_string_lossy()]))
}

/// Who holds a device of this machine.
struct OfNode<'a> {
    node: &'a Path,
    interrupt: &'a Interrupt,
}

impl Holders for OfNode<'_> {
    fn check(&mut self) -> io::Result<()> {
        loop_device::check_not_held(self.node)
    }

    fn pause(&mut self, time: Duration) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < time && !self.interrupt.is_asked() {
            thread::sleep(LOOK_PAUSE);
        }
        self.interrupt.is_asked()
    }
}

/// A file system that cannot be made or mounted so; where a signal ended the program, that says nothing of it.
fn unmountable(error: ProgramError) -> StageError {
    match error {
        ProgramError::Interrupted => StageError::Interrupted,
        ProgramError::Failed(_, ref why) if why.starts_with("signal: ") => {
            StageError::Passing(error.to_string())
        }
        ProgramError::Failed(..) => StageError::Unmountable(error.to_string()),
        other => StageError::Fatal(other.to_string()),
    }
}

impl Stage for HostStage {
    fn ready(&mut self, device: &str) -> Result<PathBuf, StageError> {
        if device != "loop" {
            let node = PathBuf::from(device);
            self.on_device(&node, || {
                loop_device::check_unused(&node).map_err(|error| {
                    StageError::Passing(format!("{}: in use, or unusable: {error}", node.display()))
                })
            })?;
            return Ok(node);
        }
        if self.loop_device.is_none() {
            if let Some(mark) = self.loop_mark.as_ref().filter(|_| !self.loop_image.exists()) {
                fs::write(mark, "")
                    .map_err(|error| StageError::Fatal(format!("{}: {error}", mark.display())))?;
            }
            let made = LoopDevice::over_new(&self.loop_image, self.loop_bytes, &self.interrupt);
            self.loop_device = Some(made.map_err(|error| match error {
                ProgramError::Interrupted => StageError::Interrupted,
                ProgramError::Io(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    StageError::Fatal(format!(
                        "{}: it already exists, perhaps of a study of the same name in another folder; name another \
                         folder in [loop], or remove it",
                        self.loop_image.display()
                    ))
                }
                other => StageError::Fatal(format!("{}: {other}", self.loop_image.display())),
            })?);
        }
        match &self.loop_device {
            Some(device) => Ok(device.node().to_owned()),
            None => Err(StageError::Fatal("there is no loop device".to_owned())),
        }
    }

    fn point(&self) -> &Path {
        &self.point
    }

    fn image(&self, task: &Task<'_>) -> (PathBuf, bool) {
        let name = format!("{}-{}.image", task.planned.configuration, task.workload.name);
        let path = self.folder.join(name);
        let is_there = self.images.contains_key(&path);
        (path, is_there)
    }

    fn perform(
        &mut self,
        step: &Step,
        task: &Task<'_>,
        node: &Path,
        record: &mut Record,
    ) -> Result<(), StageError> {
        let failed = |doing: &'static str| {
            move |error: std::io::Error| match error.kind() {
                std::io::ErrorKind::Interrupted => StageError::Interrupted,
                _ => StageError::Failed(format!("{doing}: {error}")),
            }
        };
        match step {
            Step::Set(path, value) => {
                let set = KernelSetting::set(path, value);
                let why = |error| StageError::Unmountable(format!("{} = {value}: {error}", path.display()));
                self.settings.push(set.map_err(why)?);
            }
            Step::Run(words) => self.on_device(node, || self.program(words))?,
            Step::Zero => self.on_device(node, || {
                device_image::zero(node, &self.interrupt).map_err(failed("write zeros"))
            })?,
            Step::SaveImage(image) => {
                let saved =
                    device_image::save(node, image, &self.interrupt).map_err(failed("save the image"))?;
                self.images.insert(image.clone(), saved);
            }
            Step::RestoreImage(image) => self.on_device(node, || {
                device_image::restore(image, node, &self.interrupt).map_err(failed("restore the image"))
            })?,
            Step::Mount(words) => {
                let mut mounted = None;
                self.on_device(node, || {
                    let words = words.iter().map(Into::into).collect();
                    let made = Mounted::new(words, &self.point, &self.interrupt);
                    mounted = Some(made.map_err(unmountable)?);
                    Ok(())
                })?;
                self.mounted = mounted;
            }
            Step::Unmount => {
                if let Some(mounted) = self.mounted.take() {
                    mounted.unmount().map_err(|error| StageError::Fatal(error.to_string()))?;
                }
            }
            Step::MakeData => self.make_data(task, record)?,
            Step::Sync => {
                let words = ["sync".into(), "--file-system".into(), self.point.clone().into_os_string()];
                let synced = Program::new(words, MKFS_TIME).run(None, &self.interrupt);
                synced.map_err(|error| match error {
                    ProgramError::Interrupted => StageError::Interrupted,
                    other => StageError::Failed(other.to_string()),
                })?;
            }
            Step::RecordLayout => {
                // What a file system does not tell is not there.
                if let Ok(extents) = fiemap::of_folder(&self.point.join("data")) {
                    record.conditions.push(("layout_extents".to_owned(), extents.len() as f64));
                    record.layout = extents;
                }
            }
            Step::DropCaches => kernel_setting::drop_caches().map_err(failed("drop caches"))?,
            Step::Workload => self.run_workload(task, record)?,
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<(), StageError> {
        let unmounted = match self.mounted.take() {
            Some(mounted) => mounted.unmount().map_err(|error| StageError::Fatal(error.to_string())),
            None => Ok(()),
        };
        // The last first: a later one may have been of the same file.
        while self.settings.pop().is_some() {}
        unmounted
    }
}

impl Drop for HostStage {
    fn drop(&mut self) {
        self.mounted = None;
        self.settings.clear();
        self.images.clear();
        self.loop_device = None;
        if let Some(mark) = &self.loop_mark {
            let _there_may_be_none = fs::remove_file(mark);
        }
        let _not_empty_is_kept = fs::remove_dir(&self.point).and_then(|()| fs::remove_dir(&self.folder));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_where_the_loop_device_s_would_be_is_named_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let plan = format!(
            "name = \"p\"\nruns = 1\ntime = \"1s\"\ninterval = \"1s\"\n[data]\nsize = \"64m\"\n[loop]\nfolder = {:?}\n
             [[workload]]\nname = \"mailserver\"\n[[factor]]\nname = \"file_system\"\nvalues = [\"ext4\"]\n",
            folder.path()
        );
        let plan = Plan::parse(&plan, Path::new("")).unwrap();
        let scratch = folder.path().join("scratch");
        let image = plan.loop_image(&scratch);
        fs::write(&image, "somebody's").unwrap();
        let mut stage = HostStage::new(&plan, &scratch, Vec::new(), Interrupt::default()).unwrap();
        let Err(StageError::Fatal(why)) = stage.ready("loop") else { panic!("it was taken") };
        assert!(why.starts_with(&image.display().to_string()) && why.contains("already exists"), "{why}");
        drop(stage);
        assert_eq!(fs::read_to_string(&image).unwrap(), "somebody's");
    }
}
