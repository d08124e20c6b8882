//! What the workload engine costs beside system calls: each workload over files that do nothing, with 1, 16 and 100
//! threads. The time of one operation on one processor.

#![allow(clippy::print_stdout)]

use std::io;
use std::thread::available_parallelism;

use evenkeel_host::cpu::CpuTime;
use evenkeel_measure::study::workload::engine::{self, Timing};
use evenkeel_measure::study::workload::files::Files;
use evenkeel_measure::study::workload::spec::{FileWorkload, Personality};

/// Files that are always there and take no time.
struct NoFiles;

impl Files for NoFiles {
    type File = ();

    fn make_folder(&self, _name: &str) -> io::Result<()> {
        Ok(())
    }

    fn create(&self, _name: &str) -> io::Result<()> {
        Ok(())
    }

    fn open(&self, _name: &str, _writable: bool) -> io::Result<()> {
        Ok(())
    }

    fn append(&self, (): &(), _bytes: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn read_whole(&self, (): &(), _thread: usize) -> io::Result<u64> {
        Ok(0)
    }

    fn fsync(&self, (): &()) -> io::Result<()> {
        Ok(())
    }

    fn close(&self, (): ()) -> io::Result<()> {
        Ok(())
    }

    fn empty(&self, (): &()) -> io::Result<()> {
        Ok(())
    }

    fn delete(&self, _name: &str) -> io::Result<()> {
        Ok(())
    }

    fn stat(&self, _name: &str) -> io::Result<u64> {
        Ok(0)
    }
}

fn main() {
    let processors = available_parallelism().map_or(1, usize::from);
    let timing = Timing { time_s: 2.0, interval_s: 0.1 };
    println!("workload    threads  operations/s  us of a processor for each");
    for (name, personality) in Personality::ALL {
        for threads in [1, 16, 100] {
            let mut spec = FileWorkload::of(personality);
            (spec.threads, spec.files) = (threads, 10_000);
            let before = CpuTime::now();
            let counts = engine::run(&spec, 1, 2, timing, &NoFiles).expect("nothing can fail");
            let operations = counts.windows.iter().sum::<u64>() as f64;
            let used = before.and_then(|before| Ok(CpuTime::now()? - before));
            // With others on the machine only the time in user mode is this program's alone.
            let own_us = used.map_or(f64::NAN, |used| used.own_user_s * 1e6 / operations);
            let busy_us = timing.time_s * 1e6 * processors.min(threads as usize) as f64 / operations;
            println!(
                "{name:10}  {threads:7}  {:12.0}  {own_us:.2} in user mode, at most {busy_us:.2}",
                operations / timing.time_s
            );
        }
    }
}
