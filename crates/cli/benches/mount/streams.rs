//! Many files, each appended to and synced by a thread of its own.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::append::{Appender, Appends, BYTES};
use crate::places::Place;
use crate::rounds::{extremes, median, order};
use crate::{Args, Outcome};

/// What one turn came to.
#[derive(Debug, Clone, Copy)]
struct Turn {
    per_s: f64,
    p50_s: f64,
    p99_s: f64,
    /// Bytes to the disk for each that was appended, when all of it is home.
    bytes_per_byte: f64,
}

/// Measures and tells.
pub(crate) fn measure(places: &[Place], args: &Args) -> Outcome {
    println!("Appends of {BYTES} bytes, each with an fdatasync, a file each; {} rounds", args.rounds);
    for &streams in &args.streams {
        let mut turns: Vec<Vec<Turn>> = vec![Vec::new(); places.len()];
        for round in 0..args.rounds {
            for at in order(places.len(), args.seed, round) {
                turns[at].push(turn(&places[at], streams, args.seconds)?);
            }
        }
        println!();
        println!(
            "{streams:>5} files     {:>22} {:>8} {:>8} {:>14} {:>8}",
            "per second", "p50", "p99", "bytes per byte", "ratio"
        );
        for (place, mine) in places.iter().zip(&turns) {
            let of = |value: fn(&Turn) -> f64| mine.iter().map(value).collect::<Vec<f64>>();
            let (least, most) = extremes(&of(|turn| turn.per_s));
            let ratios: Vec<f64> =
                turns[0].iter().zip(mine).map(|(ours, theirs)| ours.per_s / theirs.per_s).collect();
            println!(
                "{:<15} {least:>10.0} to {most:>8.0} {:>6.2}ms {:>6.2}ms {:>14.2} {:>8.2}",
                place.name,
                median(&of(|turn| turn.p50_s)) * 1e3,
                median(&of(|turn| turn.p99_s)) * 1e3,
                median(&of(|turn| turn.bytes_per_byte)),
                median(&ratios),
            );
        }
    }
    println!("ratio: appends a second of {} to those of the other, median of the rounds", places[0].name);
    Ok(())
}

fn turn(place: &Place, streams: usize, seconds: f64) -> Outcome<Turn> {
    place.begin()?;
    let mut appenders = Vec::with_capacity(streams);
    for number in 0..streams {
        let mut appender = Appender::new(&place.folder.join(number.to_string()))?;
        appender.once()?;
        appenders.push(appender);
    }
    let before = place.written_bytes();
    let start = Barrier::new(streams);
    let began = Instant::now();
    let all: Vec<Outcome<Appends>> = thread::scope(|scope| {
        let start = &start;
        let run = move |appender: &mut Appender| {
            start.wait();
            appender.run_for(Duration::from_secs_f64(seconds))
        };
        let threads: Vec<_> =
            appenders.iter_mut().map(|appender| scope.spawn(move || run(appender))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(Err("a thread panicked".to_owned())))
            .collect()
    });
    let took_s = began.elapsed().as_secs_f64();
    let mut appends = Appends::default();
    for one in all {
        appends.latencies_s.extend(one?.latencies_s);
    }
    place.settle();
    let written = place.written_bytes() - before;
    drop(appenders);
    place.end()?;
    let count = appends.latencies_s.len() as f64;
    Ok(Turn {
        per_s: count / took_s,
        p50_s: appends.quantile_s(0.5),
        p99_s: appends.quantile_s(0.99),
        bytes_per_byte: written as f64 / (count * BYTES as f64),
    })
}
