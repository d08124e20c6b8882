//! How long the sync of a small file takes beside somebody who writes or removes much in the same file system.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::append::{Appender, Appends};
use crate::neighbours::{make_many, write_file};
use crate::picture::{self, Chart};
use crate::places::Place;
use crate::rounds::{extremes, median, order};
use crate::{Args, Outcome};

/// What the neighbour does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// Nothing.
    Alone,
    /// Writes a large file and syncs nothing.
    Stream,
    /// Nothing more: what it wrote is on its way to the disk.
    Behind,
    /// Writes large files, and syncs each.
    Syncs,
    /// Removes many files.
    Removal,
}

impl Load {
    pub(crate) const ALL: [Self; 5] = [Self::Alone, Self::Stream, Self::Behind, Self::Syncs, Self::Removal];

    pub(crate) fn name(self, args: &Args) -> String {
        match self {
            Self::Alone => "alone".to_owned(),
            Self::Stream => format!("beside {} MiB, unsynced", args.stream_mib),
            Self::Behind => "behind that".to_owned(),
            Self::Syncs => "beside fsyncs of 64 MiB".to_owned(),
            Self::Removal => format!("beside rm -rf of {} files", args.removed_files),
        }
    }
}

const SYNCED_MIB: usize = 64;
const SYNCS: usize = 3;
/// How long syncs are measured behind the stream, at least.
const BEHIND: Duration = Duration::from_secs(8);

/// What one turn came to, for each load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    pub(crate) p50_s: f64,
    pub(crate) p99_s: f64,
    pub(crate) count: usize,
    /// How long the neighbour took.
    neighbour_s: f64,
}

/// Measures and tells.
pub(crate) fn measure(places: &[Place], args: &Args) -> Outcome {
    println!();
    println!("A file that is appended to and synced, beside a neighbour; {} rounds", args.rounds);
    let mut all: Vec<Vec<Vec<Measured>>> = vec![vec![Vec::new(); Load::ALL.len()]; places.len()];
    for round in 0..args.rounds {
        for at in order(places.len(), args.seed, round) {
            for (load, measured) in turn(&places[at], args)?.into_iter().enumerate() {
                all[at][load].push(measured);
            }
        }
    }
    for (load, which) in Load::ALL.into_iter().enumerate() {
        println!();
        println!(
            "{:<30} {:>9} {:>20} {:>9} {:>6} {:>8} {:>11}",
            which.name(args),
            "p50",
            "p99",
            "to alone",
            "worst",
            "syncs",
            "neighbour"
        );
        for (place, loads) in places.iter().zip(&all) {
            let mine = &loads[load];
            let of = |value: fn(&Measured) -> f64| mine.iter().map(value).collect::<Vec<f64>>();
            let ratios: Vec<f64> =
                mine.iter().zip(&loads[0]).map(|(it, alone)| it.p99_s / alone.p99_s).collect();
            let (least, most) = extremes(&of(|it| it.p99_s));
            println!(
                "  {:<28} {:>7.2}ms {:>7.2} to {:>7.2}ms {:>8.1}x {:>5.1}x {:>8} {:>10.2}s",
                place.name,
                median(&of(|it| it.p50_s)) * 1e3,
                least * 1e3,
                most * 1e3,
                median(&ratios),
                extremes(&ratios).1,
                mine.iter().map(|it| it.count).sum::<usize>(),
                median(&of(|it| it.neighbour_s)),
            );
        }
    }
    println!("to alone: its p99 to that alone in the same round, median of the rounds, and worst");
    match &args.svg {
        Some(path) => {
            let rows: Vec<_> = Load::ALL.into_iter().map(|load| load.name(args)).collect();
            let names: Vec<_> = places.iter().map(|place| place.name.as_str()).collect();
            let p99_ms = |place: usize, load: usize| {
                median(&all[place][load].iter().map(|it| it.p99_s).collect::<Vec<f64>>()) * 1e3
            };
            let about = "99th percentile of a 1 KiB append with fdatasync";
            let svg = picture::bars_ms(&Chart { about, names: &names, rows: &rows }, p99_ms);
            fs::write(path, svg).map_err(|error| format!("{}: {error}", path.display()))
        }
        None => Ok(()),
    }
}

fn turn(place: &Place, args: &Args) -> Outcome<Vec<Measured>> {
    place.begin()?;
    let many = place.folder.join("many");
    make_many(&many, args.removed_files)?;
    let mut appender = Appender::new(&place.folder.join("small"))?;
    appender.once()?;
    place.settle();
    let mut measured = Vec::new();
    let alone = appender.run_for(Duration::from_secs_f64(args.seconds))?;
    measured.push(told(&alone, args.seconds));
    let stream = || write_file(&place.folder.join("stream"), args.stream_mib, false);
    measured.push(beside(&mut appender, stream)?);
    let behind = appender.run_for(BEHIND)?;
    measured.push(told(&behind, BEHIND.as_secs_f64()));
    place.settle();
    let syncs = || {
        (0..SYNCS).try_for_each(|number| {
            write_file(&place.folder.join(format!("synced-{number}")), SYNCED_MIB, true)
        })
    };
    measured.push(beside(&mut appender, syncs)?);
    place.settle();
    let removal = || fs::remove_dir_all(&many).map_err(|error| format!("{}: {error}", many.display()));
    measured.push(beside(&mut appender, removal)?);
    drop(appender);
    place.end()?;
    Ok(measured)
}

/// Appends for as long as the neighbour takes.
fn beside(appender: &mut Appender, neighbour: impl Fn() -> Outcome + Sync) -> Outcome<Measured> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let began = Instant::now();
            let outcome = neighbour();
            is_over.store(true, Ordering::Release);
            outcome.map(|()| began.elapsed().as_secs_f64())
        });
        let appends = appender.run(1, || !is_over.load(Ordering::Acquire));
        let took_s = thread.join().unwrap_or(Err("the neighbour panicked".to_owned()))?;
        Ok(told(&appends?, took_s))
    })
}

fn told(appends: &Appends, neighbour_s: f64) -> Measured {
    Measured {
        p50_s: appends.quantile_s(0.5),
        p99_s: appends.quantile_s(0.99),
        count: appends.latencies_s.len(),
        neighbour_s,
    }
}
