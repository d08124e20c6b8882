//! Figures 14 and 15: recorded loads on two drives.
//!
//! Traces are not part of this program: each one with reads and writes in the folder that the caller names is played.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};

use evenkeel_engine::ring::Policy;

use super::super::mirrors::reads::WINDOW_NS;
use super::super::mirrors::stage::{Stage, VOLUME_BYTES};
use super::super::mirrors::trace::{Played, Requests};
use super::super::{
    Chart, Comparison, Figure, FigureModule, Halted, Kind, Scale, Series, Settings, Table, Unit, Work,
};
use super::{PAPER, claim};
use crate::report::format;

/// The figure.
pub(super) const MODULE: FigureModule = FigureModule {
    name: "rails-traces",
    paper: PAPER,
    place: "figures 14 and 15",
    title: "Recorded loads on two drives of model B, mixed and in turns",
    setup: &[
        "Each trace in the folder that --traces names: its requests at their times, over and over, each round at another \
         place, on a volume of 512 MiB that the engine keeps on two drives by model (sata-2011, scaled to 1 GiB, filled and \
         overwritten twice), its log on two that are steady. Every write is durable.",
        "Times are divided by what makes plain replication (mixed) block reads for about a quarter of the time, as the paper \
         found of its trace: so the first claim is calibrated. The paper does not say how it played its traces.",
        "A read is blocked for what it takes beyond ten times the median of reads without writes; the time counts in which \
         any is.",
    ],
    run,
};

/// Members, as in the paper.
const MEMBERS: usize = 2;

/// Model B.
const PRESET: &str = "sata-2011";

/// Quantiles that the table has.
const QUANTILES: [f64; 4] = [0.5, 0.99, 0.999, 0.9999];

/// Points of a curve of waits: one minus each of these, three a decade.
const LONGER: [f64; 13] = [0.5, 0.2, 0.1, 5e-2, 2e-2, 1e-2, 5e-3, 2e-3, 1e-3, 5e-4, 2e-4, 1e-4, 5e-5];

/// The twenty seconds of figure 15, as windows.
const SHOWN_WINDOWS: usize = 200;

/// What came of one trace.
struct Point {
    name: String,
    speed: f64,
    alone: Played,
    turns: Played,
    mixed: Played,
}

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let Some(folder) = work.traces() else {
        let why = "traces are not part of this program: --traces names a folder with some";
        return Err(Halted::Unavailable(why.to_owned()));
    };
    let files = files_in(folder)?;
    let points = work.each(&files, |file| point(file, settings, work))?;
    let (mut figure, mut played) = (Figure::default(), 0);
    for (file, point) in files.iter().zip(points) {
        match point {
            Some(point) => {
                played += 1;
                add(&mut figure, &point);
            }
            None => figure.notes.push(format!("{} has no reads, no writes, or is no trace.", name_of(file))),
        }
    }
    match played {
        0 => Err(Halted::Unavailable(format!("{} holds no trace with reads and writes", folder.display()))),
        _ => Ok(figure),
    }
}

fn files_in(folder: &Path) -> Result<Vec<PathBuf>, Halted> {
    let unreadable =
        |error: std::io::Error| Halted::Unavailable(format!("cannot read {}: {error}", folder.display()));
    let entries = fs::read_dir(folder).map_err(unreadable)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>();
    let mut files = paths.map_err(unreadable)?;
    files.retain(|path| path.is_file());
    files.sort();
    Ok(files)
}

fn name_of(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn point(file: &Path, settings: &Settings, work: &Work<'_>) -> Result<Option<Point>, Halted> {
    // A folder of traces may hold more than traces.
    let Ok(requests) = Requests::read(file, VOLUME_BYTES) else { return Ok(None) };
    let (reads, writes) = requests.counts();
    if reads == 0 || writes == 0 {
        return Ok(None);
    }
    let stage = Stage::new(PRESET, MEMBERS, requests, VOLUME_BYTES, settings.seed)?;
    let reads = settings.pick(200_000, 20_000);
    let speed = stage.speed(settings.pick(100_000, 20_000), work, |_, _| {})?;
    let play = |policy, reads_only| {
        if work.is_stopped() {
            return Err(Halted::Stopped);
        }
        stage.play(policy, speed, reads, 0, reads_only)
    };
    Ok(Some(Point {
        name: name_of(file),
        speed,
        alone: play(Policy::Turns, true)?,
        turns: play(Policy::Turns, false)?,
        mixed: play(Policy::Mixed, false)?,
    }))
}

fn add(figure: &mut Figure, point: &Point) {
    let Point { name, speed, alone, turns, mixed } = point;
    let about = format!("{name}, {} times as fast as recorded", format::number_short(*speed));
    figure.charts.push(over_time(name, turns, mixed));
    figure.charts.push(waits(name, [("reads alone", alone), ("in turns", turns), ("mixed", mixed)]));
    figure.tables.push(table(&about, [("reads alone", alone), ("in turns", turns), ("mixed", mixed)]));
    let over = |share: f64| turns.reads.quantile_s(share) / alone.reads.quantile_s(share);
    let of = |words: &str| format!("{words} ({name})");
    let blocked_alone = format::percent(alone.blocked_share());
    let slower = |words: &str, share: f64, most: f64| {
        claim(&of(words), Unit::Times, Comparison::Within(0.9, most), Kind::Calibrated, over(share), &about)
    };
    let claims = [
        claim(
            &of("about 25% of the time reads are blocked due to the write operations"),
            Unit::Share,
            Comparison::about(0.25),
            Kind::Calibrated,
            mixed.blocked_share(),
            &about,
        )
        .paper_value(0.25),
        claim(
            &of("With Rails, reads are virtually unaffected by writes - they are blocked for less than 1% of the time"),
            Unit::Share,
            Comparison::Within(0.0, 0.01),
            Kind::Calibrated,
            turns.blocked_share(),
            &format!(
                "{about}; without any writes {blocked_alone}, as two drives are few for its bursts. {}",
                super::YIELDS
            ),
        )
        .paper_value(0.01),
        slower(
            "(evenkeel's own) of 1,000 reads beside writes one takes longer than of 1,000 without, by 8 % at the most",
            0.999,
            1.08,
        ),
        slower(
            "(evenkeel's own) of 10,000 reads beside writes one takes longer than of 10,000 without, by half at the most",
            0.9999,
            1.5,
        ),
    ];
    let over_run = [alone, turns, mixed].map(|played| played.is_overrun);
    figure.claims.extend(claims.into_iter().map(|claim| match over_run.contains(&true) {
        true => claim.never("in a run more came than was served, and it was ended"),
        false => claim,
    }));
}

fn over_time(name: &str, turns: &Played, mixed: &Played) -> Chart {
    // Of the pieces of the run, that in which reads wait longest for plain replication.
    let pieces = mixed.reads.longest_ns().chunks(SHOWN_WINDOWS).map(|piece| piece.iter().sum::<u64>());
    let worst = pieces.enumerate().max_by_key(|&(place, sum)| (sum, Reverse(place)));
    let first = worst.map_or(0, |(place, _)| place * SHOWN_WINDOWS);
    let series = [("mixed", mixed), ("in turns", turns)].into_iter().map(|(name, played)| {
        let windows = played.reads.longest_ns();
        let shown = windows.iter().skip(first).take(SHOWN_WINDOWS).enumerate();
        let point = |(window, &ns): (usize, &u64)| (window as f64 * WINDOW_NS as f64 / 1e9, ns as f64 / 1e9);
        Series { name: name.to_owned(), points: shown.filter(|(_, ns)| **ns > 0).map(point).collect() }
    });
    Chart {
        title: format!("{name}: the longest read of each tenth of a second"),
        meaning: "those twenty seconds in which plain replication makes reads wait longest".to_owned(),
        x_name: "time".to_owned(),
        x_unit: Unit::S,
        x_scale: Scale::Linear,
        y_name: "longest read".to_owned(),
        y_unit: Unit::S,
        y_scale: Scale::Log,
        series: series.collect(),
    }
}

fn waits(name: &str, played: [(&str, &Played); 3]) -> Chart {
    let series = played.map(|(name, played)| Series {
        name: name.to_owned(),
        points: LONGER.map(|share| (played.reads.quantile_s(1.0 - share), share)).into(),
    });
    Chart {
        title: format!("{name}: reads by how long they took"),
        meaning: "of all reads, those that took longer".to_owned(),
        x_name: "read".to_owned(),
        x_unit: Unit::S,
        x_scale: Scale::Log,
        y_name: "took longer".to_owned(),
        y_unit: Unit::Share,
        y_scale: Scale::Log,
        series: series.into(),
    }
}

fn table(about: &str, played: [(&str, &Played); 3]) -> Table {
    let row = |(name, played): (&str, &Played)| {
        let waits = QUANTILES.map(|share| format::seconds(played.reads.quantile_s(share)));
        let written_per_s = played.written_bytes as f64 / (played.took_ns as f64 / 1e9);
        let blocked = match played.is_overrun {
            true => "more comes than is served".to_owned(),
            false => format::percent(played.blocked_share()),
        };
        let name = name.to_owned();
        [&[name][..], &waits, &[blocked, format::rate(written_per_s)]].concat()
    };
    let header = ["", "half of all reads below", "99 %", "99.9 %", "99.99 %", "blocked", "written"];
    Table {
        title: about.to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: played.map(row).to_vec(),
    }
}
