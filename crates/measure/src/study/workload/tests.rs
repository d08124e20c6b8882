//! The workloads against Filebench's table: mix of operations, sizes, folders; and that nothing is lost between threads.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Mutex;

use super::engine::{self, Timing};
use super::files::Files;
use super::operation::{KINDS, Operation};
use super::payload::Payload;
use super::pool::Pool;
use super::recorder::Counts;
use super::spec::{FileWorkload, Personality};
use super::tree::{Tree, seed_of};

/// A file system in memory that knows how files must be treated: what is open is not deleted, what is there is not created.
#[derive(Debug, Default)]
struct MemoryFiles {
    inner: Mutex<Inner>,
    /// Operations after which each one fails.
    fail_after: Option<u64>,
}

#[derive(Debug, Default)]
struct Inner {
    files: BTreeMap<String, (u64, u32)>,
    folders: BTreeSet<String>,
    done: u64,
    wrong: Vec<String>,
}

impl MemoryFiles {
    fn with<T>(&self, work: impl FnOnce(&mut Inner) -> T) -> io::Result<T> {
        let mut inner = self.inner.lock().unwrap();
        inner.done += 1;
        match self.fail_after.is_some_and(|after| inner.done > after) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(work(&mut inner)),
        }
    }
}

impl Files for MemoryFiles {
    type File = String;

    fn make_folder(&self, name: &str) -> io::Result<()> {
        self.with(|inner| {
            let has_parent = name.rsplit_once('/').is_none_or(|(parent, _)| inner.folders.contains(parent));
            assert!(has_parent && inner.folders.insert(name.to_owned()), "{name}");
        })
    }

    fn create(&self, name: &str) -> io::Result<String> {
        self.with(|inner| {
            if inner.files.insert(name.to_owned(), (0, 1)).is_some() {
                inner.wrong.push(format!("{name} was there"));
            }
            name.to_owned()
        })
    }

    fn open(&self, name: &str, _writable: bool) -> io::Result<String> {
        self.with(|inner| {
            match inner.files.get_mut(name) {
                Some((_, open)) => *open += 1,
                None => inner.wrong.push(format!("{name} was not there")),
            }
            name.to_owned()
        })
    }

    fn append(&self, file: &String, bytes: &[u8]) -> io::Result<()> {
        self.with(|inner| inner.files.get_mut(file).unwrap().0 += bytes.len() as u64)
    }

    fn read_whole(&self, file: &String, _thread: usize) -> io::Result<u64> {
        self.with(|inner| inner.files[file].0)
    }

    fn fsync(&self, file: &String) -> io::Result<()> {
        self.with(|inner| assert!(inner.files.contains_key(file)))
    }

    fn close(&self, file: String) -> io::Result<()> {
        self.with(|inner| inner.files.get_mut(&file).unwrap().1 -= 1)
    }

    fn empty(&self, file: &String) -> io::Result<()> {
        self.with(|inner| inner.files.get_mut(file).unwrap().0 = 0)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.with(|inner| match inner.files.remove(name) {
            Some((_, 0)) => {}
            other => inner.wrong.push(format!("{name} was {other:?} when it was deleted")),
        })
    }

    fn stat(&self, name: &str) -> io::Result<u64> {
        self.with(|inner| match inner.files.get(name) {
            Some((bytes, _)) => *bytes,
            None => {
                inner.wrong.push(format!("{name} was not there"));
                0
            }
        })
    }
}

const TIMING: Timing = Timing { time_s: 0.25, interval_s: 0.1 };

fn ran(spec: &FileWorkload) -> (Counts, MemoryFiles) {
    let files = MemoryFiles::default();
    engine::make(spec, 1, &files).unwrap();
    let counts = engine::run(spec, 1, 2, TIMING, &files).unwrap();
    (counts, files)
}

/// How many operations of each kind a round of Filebench's list has (its manual pages of varmail.f, fileserver.f and
/// webserver.f).
fn mix(personality: Personality) -> [(Operation, u64); KINDS] {
    use Operation::*;
    let counts = match personality {
        //                      create open write read append fsync close delete stat
        Personality::Mailserver => [1, 2, 0, 2, 2, 2, 3, 1, 0],
        Personality::Fileserver => [1, 2, 1, 1, 1, 0, 3, 1, 1],
        Personality::Webserver => [0, 10, 0, 10, 1, 0, 10, 0, 0],
    };
    let kinds = [Create, Open, Write, Read, Append, Fsync, Close, Delete, Stat];
    std::array::from_fn(|at| (kinds[at], counts[at]))
}

#[test]
fn each_workload_has_the_mix_of_operations_of_its_list() {
    for (name, personality) in Personality::ALL {
        let spec = FileWorkload::of(personality);
        let (counts, files) = ran(&spec);
        let done =
            |operation: Operation| counts.latencies[operation as usize].as_ref().map_or(0, |h| h.len());
        // In a round of the list every thread ends somewhere.
        let (rounds, threads) = (done(Operation::Append) / mix(personality)[4].1, u64::from(spec.threads));
        assert!(rounds > 2 * threads, "{name}: only {rounds} rounds");
        for (operation, each) in mix(personality) {
            let expected = rounds * each;
            let off = done(operation).abs_diff(expected);
            assert!(
                off <= each.max(1) * (threads + 1),
                "{name} {operation:?}: {} of {expected}",
                done(operation)
            );
        }
        let all: u64 = Operation::ALL.into_iter().map(done).sum();
        assert_eq!(counts.windows.iter().sum::<u64>(), all, "{name}");
        assert_eq!(counts.windows.len(), 3, "{name}");
        let inner = files.inner.lock().unwrap();
        assert!(inner.wrong.is_empty(), "{name}: {:?}", &inner.wrong[..inner.wrong.len().min(5)]);
    }
}

#[test]
fn the_defaults_are_filebench_s() {
    let of = |personality| {
        let spec = FileWorkload::of(personality);
        let (files, size) = (spec.files, spec.mean_size_bytes >> 10);
        (files, size, spec.mean_dir_width, spec.threads, spec.preallocated_share, spec.append_bytes_max >> 10)
    };
    assert_eq!(of(Personality::Mailserver), (1_000, 16, 1_000_000, 16, 0.8, 16));
    assert_eq!(of(Personality::Fileserver), (10_000, 128, 20, 50, 0.8, 16));
    assert_eq!(of(Personality::Webserver), (1_000, 16, 20, 100, 1.0, 16));
    assert_eq!(Personality::named("varmail"), Some(Personality::Mailserver));
}

#[test]
fn sizes_are_gamma_distributed_with_the_mean_and_shape_of_the_table() {
    for (name, personality) in Personality::ALL {
        let mut spec = FileWorkload::of(personality);
        spec.files = 20_000;
        let tree = Tree::new(&spec, 7);
        let sizes: Vec<f64> = (0..tree.len()).map(|file| tree.size_bytes(file) as f64).collect();
        let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
        let variance = sizes.iter().map(|size| (size - mean).powi(2)).sum::<f64>() / sizes.len() as f64;
        let expected = spec.mean_size_bytes as f64;
        // Five standard errors of the mean, whose variance is mean^2 / 1.5 / n.
        let error = expected * (1.0 / 1.5 / sizes.len() as f64).sqrt();
        assert!((mean - expected).abs() < 5.0 * error, "{name}: {mean} instead of {expected}");
        let shape = mean * mean / variance;
        assert!((shape - 1.5).abs() < 0.1, "{name}: shape {shape}");
        // From SciPy: scipy.stats.gamma(1.5, scale=1/1.5).cdf([0.25, 1.0, 2.5]).
        for (at, share) in [(0.25, 0.138_615), (1.0, 0.608_375), (2.5, 0.942_442)] {
            let below =
                sizes.iter().filter(|&&size| size <= at * expected).count() as f64 / sizes.len() as f64;
            assert!((below - share).abs() < 0.015, "{name}: {below} up to {at} means instead of {share}");
        }
        let there = (0..tree.len()).filter(|&file| tree.is_preallocated(file)).count() as f64;
        assert_eq!(there / f64::from(spec.files), spec.preallocated_share, "{name}");
    }
}

#[test]
fn folders_follow_from_files_and_width() {
    let mail = Tree::new(&FileWorkload::of(Personality::Mailserver), 1);
    assert!(mail.folders().is_empty(), "one folder for all mails");

    let spec = FileWorkload::of(Personality::Fileserver);
    let tree = Tree::new(&spec, 1);
    let (mut name, mut by_folder, mut names) = (String::new(), BTreeMap::new(), BTreeSet::new());
    for file in 0..tree.len() {
        tree.name(file, &mut name);
        assert!(names.insert(name.clone()), "{name} is there twice");
        *by_folder.entry(name.rsplit_once('/').unwrap().0.to_owned()).or_insert(0_u32) += 1;
    }
    let width = f64::from(spec.files) / by_folder.len() as f64;
    assert!((14.0..26.0).contains(&width), "{width} files in a folder, by their mean");
    // Depths are drawn anew in every folder, as Filebench does: folders come between 1 and far more than the mean of
    // log(10,000) / log(20) = 3.07, which is that of the draws.
    let depths: Vec<usize> = by_folder.keys().map(|folder| folder.matches('/').count() + 1).collect();
    let (least, most) = (depths.iter().min().unwrap(), depths.iter().max().unwrap());
    assert!(*least <= 2 && (4..=32).contains(most), "depths from {least} to {most}");
    let made: BTreeSet<&String> = tree.folders().iter().collect();
    assert!(by_folder.keys().all(|folder| made.contains(folder)));
}

#[test]
fn the_same_seed_makes_the_same_data_set_and_another_does_not() {
    let spec = FileWorkload::of(Personality::Fileserver);
    let sizes = |seed| {
        let tree = Tree::new(&spec, seed);
        (0..tree.len()).map(|file| (tree.size_bytes(file), tree.is_preallocated(file))).collect::<Vec<_>>()
    };
    assert_eq!(sizes(3), sizes(3));
    assert_ne!(sizes(3), sizes(4));
    assert_ne!(seed_of(1, &["a", "b"]), seed_of(1, &["ab"]));
}

#[test]
fn a_failing_operation_ends_the_run_with_its_name() {
    let spec = FileWorkload::of(Personality::Mailserver);
    let files = MemoryFiles::default();
    engine::make(&spec, 1, &files).unwrap();
    let failing = MemoryFiles { fail_after: Some(2_000), ..MemoryFiles::default() };
    *failing.inner.lock().unwrap() = files.inner.into_inner().unwrap();
    failing.inner.lock().unwrap().done = 0;
    let long = Timing { time_s: 1e6, interval_s: 1e3 };
    let error = engine::run(&spec, 1, 2, long, &failing).unwrap_err().to_string();
    assert!(error.contains("f0000") && error.contains("no storage space"), "{error}");
}

#[test]
fn the_fewest_files_that_are_taken_keep_all_threads_busy() {
    for (_, personality) in Personality::ALL {
        let mut spec = FileWorkload::of(personality);
        spec.scale_to(1);
        spec.check().unwrap();
        let (_, files) = ran(&spec);
        assert_eq!(files.inner.into_inner().unwrap().wrong, Vec::<String>::new());
        if spec.preallocated_share < 1.0 {
            spec.files -= 1;
            assert!(spec.check().unwrap_err().contains("too few"));
        }
    }
}

#[test]
fn a_held_file_is_not_deleted_and_a_deleted_one_can_be_created() {
    let mut spec = FileWorkload::of(Personality::Mailserver);
    spec.files = 5;
    let pool = Pool::new(&Tree::new(&spec, 1));
    assert_eq!(pool.present(), 4);
    let held: Vec<u32> = (0..64).map(|draw| pool.hold(draw << 58).unwrap()).collect();
    assert!(pool.take_for_deletion(0).is_none(), "all four are held");
    held.iter().for_each(|&file| pool.release(file));
    let gone: Vec<u32> = (0..4).map(|draw| pool.take_for_deletion(draw << 62).unwrap()).collect();
    assert!(pool.hold(0).is_none() && pool.take_for_deletion(0).is_none());
    assert_eq!(gone.iter().collect::<BTreeSet<_>>().len(), 4);
    gone.iter().for_each(|&file| pool.deleted(file));
    let made: BTreeSet<u32> = (0..5).map(|draw| pool.take_absent(draw << 61).unwrap()).collect();
    assert_eq!(made.len(), 5);
    assert!(pool.take_absent(0).is_none());
    pool.created(3);
    assert_eq!(pool.hold(u64::MAX), Some(3));
}

#[test]
fn data_can_be_compressed_by_the_share_that_was_asked_for() {
    for share in [0.0, 0.25, 0.5, 1.0] {
        let payload = Payload::new(1, share);
        let bytes = payload.cut(12345, 1 << 20);
        let zeros = bytes.iter().filter(|&&byte| byte == 0).count() as f64 / bytes.len() as f64;
        // A random byte is zero once in 256.
        let expected = share + (1.0 - share) / 256.0;
        assert!((zeros - expected).abs() < 0.01, "{share}: {zeros} zeros");
    }
    let payload = Payload::new(1, 0.0);
    assert_ne!(payload.cut(1, 4096), payload.cut(2, 4096));
    assert_eq!(payload.cut(u64::MAX, 16).len(), 16);
}

#[test]
fn a_time_of_whole_intervals_has_no_window_of_a_rounding_error() {
    let windows = |time_s, interval_s| Timing { time_s, interval_s }.windows();
    assert_eq!(
        [windows(3.0, 0.1), windows(800.0, 10.0), windows(0.25, 0.1), windows(0.3, 0.1)],
        [30, 80, 3, 3]
    );
}
