//! The disk without any server: what a durable write and a flush take in a file of the folder.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use evenkeel_engine::device::{Device, Durability, FlushScope};
use evenkeel_engine::env::Env;
use evenkeel_host::drive::{DriveOptions, FileDrive, Fill};
use evenkeel_host::event_loop::{Backend, EventLoop};
use hdrhistogram::Histogram;

use crate::Outcome;
use crate::comparison::Spread;
use crate::load::Random;

const FILE_BYTES: u64 = 256 << 20;
const PAGE: u64 = 4096;

#[derive(Debug, Clone, Copy)]
enum What {
    DurableWrites {
        depth: usize,
    },
    /// With nothing written since the last one.
    Flushes,
}

/// Prints a table of rates and latencies.
pub(crate) fn measure(folder: &Path, rounds: usize, seconds: f64) -> Outcome {
    let event_loop = EventLoop::new(Backend::Auto).map_err(|error| format!("no event loop: {error}"))?;
    let env = event_loop.handle();
    let path = folder.join("disk");
    let drive = event_loop
        .block_on(FileDrive::create(
            &env,
            &path,
            FILE_BYTES,
            Fill::Written,
            DriveOptions::default(),
            |_, _| (),
        ))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    let all = [
        ("durable writes of 4 KiB, 1 deep", What::DurableWrites { depth: 1 }),
        ("durable writes of 4 KiB, 32 deep", What::DurableWrites { depth: 32 }),
        ("flushes alone", What::Flushes),
    ];
    println!("\n### disk: past the page cache: {}\n", drive.is_direct());
    println!("| | rate /s | least to most | p50 us | p99 us |");
    println!("|---|---:|---:|---:|---:|");
    let mut runs: Vec<Vec<[f64; 3]>> = vec![Vec::new(); all.len()];
    for _ in 0..rounds {
        for ((_, what), runs) in all.iter().zip(&mut runs) {
            runs.push(event_loop.block_on(run(&env, &drive, *what, seconds))?);
        }
    }
    for ((name, _), runs) in all.iter().zip(&runs) {
        let column = |place: usize| Spread::of(runs.iter().map(|run| run[place]));
        let rate = column(0);
        let (p50, p99) = (column(1).median, column(2).median);
        println!(
            "| {name} | {:.0} | {:.0} to {:.0} | {p50:.0} | {p99:.0} |",
            rate.median, rate.least, rate.most
        );
    }
    drop(drive);
    std::fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Rate a second, median and 99th percentile in microseconds.
async fn run(env: &impl Env, drive: &FileDrive, what: What, seconds: f64) -> Outcome<[f64; 3]> {
    let histogram =
        Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).expect("bounds that are in order");
    let latency_ns = Rc::new(RefCell::new(histogram));
    let (failure, workers) = (Rc::new(RefCell::new(None)), Rc::new(Cell::new(0)));
    let began = Instant::now();
    let depth = match what {
        What::DurableWrites { depth } => depth,
        What::Flushes => 1,
    };
    for worker in 0..depth {
        workers.set(workers.get() + 1);
        let (drive, latency_ns) = (drive.clone(), Rc::clone(&latency_ns));
        let (failure, workers) = (Rc::clone(&failure), Rc::clone(&workers));
        let mut random = Random::new(worker as u64);
        env.spawn(async move {
            let bytes = vec![random.next() as u8; PAGE as usize];
            while began.elapsed().as_secs_f64() < seconds {
                let at = Instant::now();
                let done = match what {
                    What::Flushes => drive.flush(FlushScope::Whole).await,
                    What::DurableWrites { .. } => {
                        let offset = random.next() % (FILE_BYTES / PAGE) * PAGE;
                        drive.write(offset, &bytes, Durability::Durable).await
                    }
                };
                if let Err(error) = done {
                    failure.borrow_mut().get_or_insert(error.to_string());
                    break;
                }
                latency_ns.borrow_mut().saturating_record(at.elapsed().as_nanos() as u64);
            }
            workers.set(workers.get() - 1);
        });
    }
    while workers.get() > 0 {
        env.sleep(1_000_000).await;
    }
    if let Some(failure) = failure.take() {
        return Err(failure);
    }
    let latency_ns = latency_ns.borrow();
    let us = |quantile| latency_ns.value_at_quantile(quantile) as f64 * 1e-3;
    Ok([latency_ns.len() as f64 / began.elapsed().as_secs_f64(), us(0.5), us(0.99)])
}
