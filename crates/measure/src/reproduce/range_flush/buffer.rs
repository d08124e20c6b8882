//! Figure 1: four threads write, one of them with fsyncs, over drives with ever larger buffers.

use evenkeel_engine::env::Env;
use evenkeel_sim::file_system::{Barrier, PAGE_BYTES};

use super::super::{
    Chart, Claim, Comparison, Figure, FigureModule, Halted, Kind, Scale, Series, Settings, Unit, Work,
};
use super::host::{BARRIERS, Host, MIB, board, setup};

/// Figure 1.
pub(super) const MODULE: FigureModule = FigureModule {
    name: "range-flush-buffer",
    paper: 4,
    place: "figure 1",
    title: "Throughput and tail latency against the size of the drive's buffer",
    setup: &[
        "Four threads write 1 MB each at 4 KB granularity, again and again, one of them with an fsync every 100 KB.",
        "The drive is the paper's board by model (open-channel, never written), its buffer 32 MB to 2 GB.",
        "Assumed: figures are taken once the other three threads have filled the buffer and a first fsync is done. In a \
         new drive 4 MB would fill none of these buffers, and they would make no difference.",
        "Assumed: a file system structured as a log, as the paper's, so that rewriting takes new places; a page cache of \
         256 MB of dirty pages, written out by 32 requests of 128 KB at a time; 1 us to copy a page.",
        "Throughput is that of the thread with fsyncs; that of all four stands beside it. The tail is the 99th \
         percentile of an fsync with the data it writes out.",
        "FLUSH goes beside other requests, as over NVMe; a variant holds them back, as over SATA.",
    ],
    run,
};

const FILE_PAGES: u32 = 256;
const SYNC_PAGES: u32 = 25;
/// Files that each thread without fsync has: what it writes is out of the cache before it comes to a file again.
const FILES: u32 = 512;
const SYNCS_MIN: usize = 6;

/// What one point shows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point {
    /// Of each fsync, ascending.
    pub(super) fsyncs_s: Vec<f64>,
    /// What the thread with fsyncs wrote.
    pub(super) synced_bytes_per_s: f64,
    /// What all four wrote.
    pub(super) all_bytes_per_s: f64,
}

impl Point {
    pub(super) fn tail_s(&self) -> f64 {
        let last = self.fsyncs_s.len() - 1;
        self.fsyncs_s[(0.99 * last as f64).ceil() as usize]
    }
}

/// Four threads on a drive with such a buffer; the one with fsyncs for `at_least_ns` and for some fsyncs.
pub(super) fn point(buffer_bytes: u64, barrier: Barrier, at_least_ns: u64, seed: u64) -> Point {
    let mut host = Host::new(board(buffer_bytes), setup(barrier, 3 * FILES + 1), seed);
    for _ in 0..3 {
        let file_system = host.file_system.clone();
        let files: Vec<_> = (0..FILES).map(|_| file_system.create()).collect();
        host.env.spawn(async move {
            for &file in files.iter().cycle() {
                file_system.replace(file);
                for page in 0..FILE_PAGES {
                    file_system.write(file, page, 1).await;
                }
            }
        });
    }
    host.fill_buffer();
    let (file_system, env) = (host.file_system.clone(), host.env.clone());
    let synced = async move {
        let file = file_system.create();
        let mut page = 0;
        let mut fsyncs_s: Vec<f64> = Vec::new();
        let mut begun = None;
        loop {
            for _ in 0..SYNC_PAGES {
                file_system.write_at_once(file, page, 1).await;
                page = (page + 1) % FILE_PAGES;
            }
            let from_ns = env.now_ns();
            file_system.fsync(file).await;
            // The first one met a buffer that no flush had seen.
            let Some((begun_ns, bytes_before)) = begun else {
                begun = Some((env.now_ns(), file_system.written_bytes()));
                continue;
            };
            fsyncs_s.push((env.now_ns() - from_ns) as f64 / 1e9);
            let took_ns = env.now_ns() - begun_ns;
            if fsyncs_s.len() >= SYNCS_MIN && took_ns >= at_least_ns {
                return (fsyncs_s, took_ns as f64 / 1e9, file_system.written_bytes() - bytes_before);
            }
        }
    };
    let (mut fsyncs_s, took_s, all_bytes) = host.executor.block_on(synced).expect("the threads go on");
    fsyncs_s.sort_by(f64::total_cmp);
    let synced_bytes = fsyncs_s.len() as u64 * u64::from(SYNC_PAGES) * PAGE_BYTES;
    Point {
        synced_bytes_per_s: synced_bytes as f64 / took_s,
        all_bytes_per_s: all_bytes as f64 / took_s,
        fsyncs_s,
    }
}

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let largest = settings.pick(11, 7);
    let buffers: Vec<u64> = (5..=largest).map(|power| MIB << power).collect();
    let at_least_ns = settings.pick(1_000_000_000, 100_000_000);
    let points: Vec<(u64, Barrier)> = BARRIERS
        .iter()
        .flat_map(|&(barrier, _)| buffers.iter().map(move |&bytes| (bytes, barrier)))
        .collect();
    let results =
        work.each(&points, |&(bytes, barrier)| Ok(point(bytes, barrier, at_least_ns, settings.seed)))?;
    let by_barrier: Vec<&[Point]> = results.chunks(buffers.len()).collect();
    Ok(figure(&buffers, &by_barrier))
}

fn figure(buffers: &[u64], by_barrier: &[&[Point]]) -> Figure {
    let chart = |title: &str, meaning: &str, y_name: &str, y_unit, value: fn(&Point) -> f64| {
        let line = |((_, name), points): (&(Barrier, &str), &&[Point])| Series {
            name: (*name).to_owned(),
            points: buffers.iter().zip(*points).map(|(&bytes, point)| (bytes as f64, value(point))).collect(),
        };
        Chart {
            title: title.to_owned(),
            meaning: meaning.to_owned(),
            x_name: "buffer of the drive".to_owned(),
            x_unit: Unit::Bytes,
            x_scale: Scale::Log,
            y_name: y_name.to_owned(),
            y_unit,
            y_scale: Scale::Log,
            series: BARRIERS.iter().zip(by_barrier).map(line).collect(),
        }
    };
    let charts = vec![
        chart("Throughput", "of the thread with fsyncs", "throughput", Unit::BytesPerS, |point| {
            point.synced_bytes_per_s
        }),
        chart("Tail latency", "99 % of its fsyncs took no longer", "fsync", Unit::S, Point::tail_s),
        chart("All four threads", "what reached the drive", "throughput", Unit::BytesPerS, |point| {
            point.all_bytes_per_s
        }),
    ];
    Figure { claims: claims(by_barrier), charts, ..Figure::default() }
}

/// The last point's value over the first one's.
fn change(points: &[Point], value: fn(&Point) -> f64) -> f64 {
    let ends = points.first().zip(points.last());
    ends.map_or(f64::NAN, |(first, last)| value(last) / value(first))
}

/// As much as a line may move over the whole sweep and still be called flat.
const FLAT: Comparison = Comparison::Within(0.8, 1.25);

fn claims(by_barrier: &[&[Point]]) -> Vec<Claim> {
    let [flush, _, range] = by_barrier else { return Vec::new() };
    let words = "the flushing limits performance significantly as a buffer size increases";
    let tail = "it also causes long tail latency in response time";
    let flat = "range flush: flush the associated data only, eliminating avoidable writes";
    let throughput = |point: &Point| point.synced_bytes_per_s;
    let claim = |words: &str, holds_if, value, note: &str| {
        Claim::new(words, Unit::Times, holds_if, Kind::Predicted, value).note(note)
    };
    vec![
        claim(
            words,
            Comparison::AtMost(0.5),
            change(flush, throughput),
            "FLUSH: throughput of the thread with fsyncs, largest buffer over smallest",
        ),
        claim(
            words,
            Comparison::AtMost(0.8),
            change(flush, |point| point.all_bytes_per_s),
            "FLUSH: throughput of all four threads, largest buffer over smallest. The model's cells are as busy \
             with flushes as with write-back, so that flushes cost the threads without fsync nothing",
        ),
        claim(
            tail,
            Comparison::AtLeast(2.0),
            change(flush, Point::tail_s),
            "FLUSH: 99th percentile of fsyncs, largest buffer over smallest",
        ),
        claim(
            flat,
            FLAT,
            change(range, throughput),
            "RFLUSH: throughput of the thread with fsyncs, largest buffer over smallest: it stays flat",
        ),
        claim(
            flat,
            FLAT,
            change(range, Point::tail_s),
            "RFLUSH: 99th percentile of fsyncs, largest buffer over smallest: it stays flat",
        ),
    ]
}
