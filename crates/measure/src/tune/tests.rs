//! Searches over settings whose figures are known, and over drives that are simulated.

use evenkeel_host::interrupt::Interrupt;

use super::bench::{Bench, Halted};
use super::line::Sample;
use super::load::{Load, Run};
use super::model_bench::ModelBench;
use super::search::Search;
use super::*;

const DEFAULT: Candidate = Candidate { batch_max_bytes: 256 << 10, threshold_bytes: Some(256 << 10) };

/// A bench without drives: what a trial comes to follows from its settings, and noise.
struct Known<F> {
    of: F,
    noise: u64,
    share: f64,
}

impl<F: FnMut(Candidate) -> (u64, u64)> Bench for Known<F> {
    fn line(&mut self) -> Result<Vec<Sample>, Halted> {
        Ok(Vec::new())
    }

    fn trial(&mut self, candidate: Candidate, _: &Load, _: f64) -> Result<Run, Halted> {
        let (bytes, latency_ns) = (self.of)(candidate);
        self.noise =
            self.noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let chance = (self.noise >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
        let mut run = Run { bytes, took_ns: 1_000_000_000, ..Run::default() };
        let latency_ns = (latency_ns as f64 * (1.0 + 2.0 * self.share * chance)) as u64;
        (0..50).for_each(|_| run.small.add(latency_ns));
        Ok(run)
    }
}

fn search(goals: Goals) -> Search {
    Search {
        goals,
        default: DEFAULT,
        threshold_min_bytes: Some(16 << 10),
        load: Load::Mixture,
        trial_s: 1.0,
        rounds: 5,
    }
}

/// A fifth more bytes at this batch, and all alike otherwise.
fn better_at(batch: u64) -> impl FnMut(Candidate) -> (u64, u64) {
    move |it| (if it.batch_max_bytes == batch { 1_200_000 } else { 1_000_000 }, 1_000_000)
}

#[test]
fn what_is_clearly_better_is_chosen() {
    let mut bench = Known { of: better_at(64 << 10), noise: 1, share: 0.02 };
    let found = search(Goals::default()).run(&mut bench, &mut |_| ()).unwrap();
    assert_eq!(found.chosen, Candidate { batch_max_bytes: 64 << 10, ..DEFAULT });
    let beside = found.beside_default.unwrap();
    assert!(beside.wins && beside.ratios.len() == search::ROUNDS);
}

#[test]
fn where_all_are_alike_the_default_stays() {
    // As often as chance may have it: less than 4 % of the searches, and those that win by a twentieth are fewer still.
    let mut changed = 0;
    for seed in 0..200 {
        let mut bench = Known { of: |_| (1_000_000, 1_000_000), noise: seed, share: 0.1 };
        let found = search(Goals::default()).run(&mut bench, &mut |_| ()).unwrap();
        changed += u32::from(found.chosen != DEFAULT);
    }
    assert!(changed <= 8, "{changed} of 200");
}

#[test]
fn a_bound_of_latency_takes_what_keeps_it_and_writes_most() {
    // The larger the batch the more is written, and the longer it takes.
    let of = |it: Candidate| (1_000_000 + it.batch_max_bytes, 100_000 + it.batch_max_bytes);
    let chosen = |latency_max_s| {
        let goals = Goals { latency_max_s: Some(latency_max_s), ..Goals::default() };
        let mut bench = Known { of, noise: 3, share: 0.0 };
        search(goals).run(&mut bench, &mut |_| ()).unwrap().chosen.batch_max_bytes
    };
    assert_eq!(chosen(0.000_2), 64 << 10);
    assert_eq!(chosen(0.01), 1 << 20);
    assert_eq!(chosen(0.000_01), 32 << 10, "none keeps it: the shortest comes closest");
}

#[test]
fn a_bound_of_throughput_takes_what_keeps_it_and_is_quickest() {
    let of = |it: Candidate| (1_000_000 + it.batch_max_bytes, 100_000 + it.batch_max_bytes);
    let chosen = |throughput: f64| {
        let goals = Goals { throughput_min_bytes_per_s: Some(throughput), ..Goals::default() };
        let mut bench = Known { of, noise: 3, share: 0.0 };
        search(goals).run(&mut bench, &mut |_| ()).unwrap().chosen.batch_max_bytes
    };
    assert_eq!(chosen(1_100_000.0), 128 << 10);
    assert_eq!(chosen(9_000_000.0), 1 << 20, "none keeps it: the most comes closest");
}

#[test]
fn no_threshold_below_the_largest_atomic_write_is_tried() {
    let mut tried = Vec::new();
    let of = |it: Candidate| {
        tried.push(it.threshold_bytes);
        (1_000_000, 1_000_000)
    };
    let mut bench = Known { of, noise: 1, share: 0.0 };
    let search = Search { threshold_min_bytes: Some(128 << 10), ..search(Goals::default()) };
    let found = search.run(&mut bench, &mut |_| ()).unwrap();
    search.sweep(&mut bench, &found, &mut |_| ()).unwrap();
    assert!(tried.iter().flatten().all(|&bytes| bytes >= 128 << 10), "{tried:?}");
    assert!(tried.contains(&None) && tried.contains(&Some(128 << 10)));
}

#[test]
fn a_search_tells_how_far_it_is_and_ends_when_it_is_stopped() {
    let mut bench = Known { of: better_at(64 << 10), noise: 1, share: 0.0 };
    let mut told = Vec::new();
    search(Goals::default()).run(&mut bench, &mut |progress| told.push(progress)).unwrap();
    assert!(told.windows(2).all(|pair| pair[0].done + 1 == pair[1].done && pair[0].all <= pair[1].all));
    let last = told.last().unwrap();
    assert!(last.done <= last.all && last.all <= last.done + 2 * search::ROUNDS + 5, "{last:?}");

    struct Stopped;
    impl Bench for Stopped {
        fn line(&mut self) -> Result<Vec<Sample>, Halted> {
            Ok(Vec::new())
        }
        fn trial(&mut self, _: Candidate, _: &Load, _: f64) -> Result<Run, Halted> {
            Err(Halted::Stopped)
        }
    }
    assert_eq!(search(Goals::default()).run(&mut Stopped, &mut |_| ()).unwrap_err(), Halted::Stopped);
}

#[test]
fn trials_on_a_simulated_drive_are_the_same_each_time() {
    let run = || {
        let mut bench = ModelBench::new("nvme-mlc", 7, Interrupt::default()).unwrap();
        let run = bench.trial(DEFAULT, &Load::Mixture, 0.05).unwrap();
        (run.bytes, run.took_ns, run.small.count(), bench.line().unwrap())
    };
    let (bytes, took_ns, small, samples) = run();
    assert!(bytes > 0 && took_ns >= 50_000_000 && small > 0);
    // A larger durable write takes longer.
    let mean = |len: u64| {
        let of: Vec<u64> = samples.iter().filter(|it| it.bytes == len).map(|it| it.took_ns).collect();
        of.iter().sum::<u64>() / of.len() as u64
    };
    assert!(mean(1 << 20) > mean(4 << 10));
    assert_eq!(run(), (bytes, took_ns, small, samples));
}

#[test]
fn an_unknown_drive_is_refused_by_its_name() {
    let Err(Halted::Unavailable(why)) = ModelBench::new("nosuch", 1, Interrupt::default()) else {
        panic!("there is none")
    };
    assert!(why.contains("nosuch") && why.contains("--list"), "{why}");
}

#[test]
fn simulated_drives_keep_turns_of_a_second() {
    for (name, least) in [("sata-2008", 0.6), ("sas-15k", 0.9)] {
        let mut bench = ModelBench::new(name, 1, Interrupt::default()).unwrap();
        let turns = bench.turns(20_000_000_000).unwrap();
        let second = turns.windows.iter().find(|it| it.window_s == 1.0).unwrap();
        assert!(turns.turn_s == 1.0 && turns.windows.len() == 5 && second.share > least, "{name}: {turns:?}");
        let shorter = turns.windows[0];
        assert!(shorter.share <= second.share + 0.02, "{name}: {turns:?}");
    }
}
