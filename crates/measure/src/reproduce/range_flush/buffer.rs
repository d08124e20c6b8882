//! Figure 1: four threads write, one of them with fsyncs, over drives with ever larger buffers.

use std::cell::Cell;
use std::rc::Rc;

use evenkeel_engine::env::Env;
use evenkeel_sim::file_system::{File, PAGE_BYTES};

use super::super::{
    Chart, Claim, Comparison, Figure, FigureModule, Halted, Kind, Scale, Series, Settings, Table, Unit, Work,
};
use super::Lines;
use super::host::{BOARD, Host, LINES, MIB, Way, board, setup};

/// Figure 1.
pub(super) const MODULE: FigureModule = FigureModule {
    name: "range-flush-buffer",
    paper: 4,
    place: "figure 1",
    title: "Throughput and tail latency against the size of the drive's buffer",
    setup: &[
        "Four threads write 1 MB each at 4 KB granularity, one of them with an fsync every 100 KB: a run, as the paper has \
         it. Five runs for each point, one after the other on the same drive.",
        "The drive is the paper's board by model (open-channel, never written), its buffer 32 MB to 2 GB.",
        BOARD,
        "Assumed: the buffer is full of what other programs wrote when a run begins. It writes nothing back before it is full \
         or flushed, so that this is its usual state; the 4 MB of a run would fill none of these buffers. The paper speaks of \
         a \"varying amount of writes across the runs\".",
        "Assumed: a file system structured as a log, as the paper's, so that rewriting takes new places; a page cache of \
         256 MB of dirty pages, written out by 32 requests of 128 KB at a time; 1 us to copy a page.",
        "Throughput is that of a run: 4 MB over the time until its last thread is done. The tail is the 99th percentile of \
         an fsync with the data it writes out.",
    ],
    run,
};

pub(super) const THREADS: usize = 4;
pub(super) const FILE_PAGES: u32 = 256;
pub(super) const SYNC_PAGES: u32 = 25;
/// Files that other programs write between the runs: more than the page cache has room for.
pub(super) const OTHER_FILES: usize = 512;

/// What one point shows.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point {
    /// Of each fsync of all runs, ascending.
    fsyncs_s: Vec<f64>,
    /// Of each first one of a run, and of those that follow it, ascending.
    first_s: Vec<f64>,
    later_s: Vec<f64>,
    pub(super) throughput_bytes_per_s: f64,
}

impl Point {
    pub(super) fn tail_s(&self) -> f64 {
        at_share(&self.fsyncs_s, 0.99)
    }
}

/// Fsyncs of the runs so far.
#[derive(Debug, Default)]
pub(super) struct Fsyncs {
    first_s: Vec<f64>,
    later_s: Vec<f64>,
    took_ns: u64,
}

impl Fsyncs {
    /// With those of a run, and how long it took.
    pub(super) fn add(&mut self, fsyncs_s: &[f64], took_ns: u64) {
        self.first_s.push(fsyncs_s[0]);
        self.later_s.extend_from_slice(&fsyncs_s[1..]);
        self.took_ns += took_ns;
    }

    /// What so many runs show.
    pub(super) fn point(self, runs: u32) -> Point {
        let Self { mut first_s, mut later_s, took_ns } = self;
        let mut fsyncs_s = [&first_s[..], &later_s].concat();
        [&mut fsyncs_s, &mut first_s, &mut later_s].into_iter().for_each(|all| all.sort_by(f64::total_cmp));
        let bytes = u64::from(runs) * THREADS as u64 * u64::from(FILE_PAGES) * PAGE_BYTES;
        let throughput_bytes_per_s = bytes as f64 * 1e9 / took_ns as f64;
        Point { fsyncs_s, first_s, later_s, throughput_bytes_per_s }
    }
}

fn at_share(ascending: &[f64], share: f64) -> f64 {
    ascending[(share * (ascending.len() - 1) as f64).ceil() as usize]
}

/// Runs of four threads on a drive with such a buffer.
pub(super) fn point(buffer_bytes: u64, way: Way, runs: u32, seed: u64) -> Point {
    let files_max = (OTHER_FILES + THREADS) as u32;
    let mut host = Host::new(board(buffer_bytes), setup(way, files_max), seed);
    let others: Vec<File> = (0..OTHER_FILES).map(|_| host.file_system.create()).collect();
    let files: Vec<File> = (0..THREADS).map(|_| host.file_system.create()).collect();
    let mut fsyncs = Fsyncs::default();
    for _ in 0..runs {
        host.fill_buffer_with(&others, FILE_PAGES);
        let (fsyncs_s, ns) = one_run(&mut host, &files);
        fsyncs.add(&fsyncs_s, ns);
    }
    fsyncs.point(runs)
}

/// Each file written once, page by page, all at once, the first with fsyncs; answers what these took, and all of it.
fn one_run(host: &mut Host, files: &[File]) -> (Vec<f64>, u64) {
    let [synced, others @ ..] = files else { unreachable!("there are four files") };
    let (synced, began_ns, done) = (*synced, host.env.now_ns(), Rc::new(Cell::new(0)));
    for &file in others {
        let (file_system, done) = (host.file_system.clone(), Rc::clone(&done));
        host.env.spawn(async move {
            file_system.replace(file);
            for page in 0..FILE_PAGES {
                file_system.write(file, page, 1).await;
            }
            done.set(done.get() + 1);
        });
    }
    let (file_system, env, others) = (host.file_system.clone(), host.env.clone(), others.len());
    let run = async move {
        let mut fsyncs_s = Vec::new();
        for page in 0..FILE_PAGES {
            file_system.write_at_once(synced, page, 1).await;
            if (page + 1) % SYNC_PAGES == 0 {
                let from_ns = env.now_ns();
                file_system.fsync(synced).await;
                fsyncs_s.push((env.now_ns() - from_ns) as f64 / 1e9);
            }
        }
        while done.get() < others {
            env.sleep(10_000).await;
        }
        (fsyncs_s, env.now_ns() - began_ns)
    };
    host.executor.block_on(run).expect("the threads come to their ends")
}

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let buffers: Vec<u64> = (5..=settings.pick(11, 7)).map(|power| MIB << power).collect();
    let by_way = sweep(settings, work, &LINES, &buffers, point)?;
    let notes = vec![
        "On the paper's board the first FLUSH of a run clears the buffer, and those that follow find little in it, however \
         large it is. So with loads that go on and on its size makes no difference, as range-flush-pair shows. Where other \
         requests go beside a flush (the variant), they fill the buffer again meanwhile."
            .to_owned(),
        "The paper's figure 1 shows FLUSH alone; RFLUSH stands beside it and is not judged by it.".to_owned(),
    ];
    Ok(Figure { notes, ..figure(&LINES, &buffers, &by_way) })
}

/// Points for each way, of each buffer: from its bytes, the way, the number of runs and the seed.
pub(super) fn sweep<W: Copy + Sync>(
    settings: &Settings,
    work: &Work<'_>,
    lines: &Lines<'_, W>,
    buffers: &[u64],
    point: impl Fn(u64, W, u32, u64) -> Point + Sync,
) -> Result<Vec<Vec<Point>>, Halted> {
    let runs = settings.pick(5, 2);
    let points: Vec<(u64, W)> =
        lines.ways.iter().flat_map(|&(way, _)| buffers.iter().map(move |&bytes| (bytes, way))).collect();
    let results = work.each(&points, |&(bytes, way)| Ok(point(bytes, way, runs, settings.seed)))?;
    Ok(results.chunks(buffers.len()).map(<[Point]>::to_vec).collect())
}

/// Charts, table and claims of these points.
pub(super) fn figure<W>(lines: &Lines<'_, W>, buffers: &[u64], by_way: &[Vec<Point>]) -> Figure {
    let chart = |title: &str, meaning: &str, y_name: &str, y_unit, value: fn(&Point) -> f64| {
        let line = |((_, name), points): (&(W, &str), &Vec<Point>)| Series {
            name: (*name).to_owned(),
            points: buffers.iter().zip(points).map(|(&bytes, point)| (bytes as f64, value(point))).collect(),
        };
        Chart {
            title: title.to_owned(),
            meaning: meaning.to_owned(),
            x_name: lines.buffer_name.to_owned(),
            x_unit: Unit::Bytes,
            x_scale: Scale::Log,
            y_name: y_name.to_owned(),
            y_unit,
            y_scale: Scale::Log,
            series: lines.ways.iter().zip(by_way).map(line).collect(),
        }
    };
    let charts = vec![
        chart("Throughput", "of all four threads", "throughput", Unit::BytesPerS, |point| {
            point.throughput_bytes_per_s
        }),
        chart("Tail latency", "99 % of the fsyncs took no longer", "fsync", Unit::S, Point::tail_s),
    ];
    let row = |((_, name), points): (&(W, &str), &Vec<Point>)| {
        let (smallest, largest) = (&points[0], &points[points.len() - 1]);
        let shown = |fsyncs_s: &[f64]| Unit::S.show(at_share(fsyncs_s, 0.5));
        let cells = [smallest, largest].map(|point| [shown(&point.first_s), shown(&point.later_s)]);
        [&[(*name).to_owned()][..], &cells.concat()].concat()
    };
    let table = Table {
        title: "Fsyncs of a run, medians: the first, and those that follow".to_owned(),
        header: [
            "fsync by",
            "first, smallest buffer",
            "those that follow",
            "first, largest buffer",
            "those that follow",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: lines.ways.iter().zip(by_way).map(row).collect(),
    };
    Figure { claims: claims(buffers, by_way), charts, tables: vec![table], ..Figure::default() }
}

/// The last point's value over the first one's.
fn change(points: &[Point], value: fn(&Point) -> f64) -> f64 {
    let ends = points.first().zip(points.last());
    ends.map_or(f64::NAN, |(first, last)| value(last) / value(first))
}

fn claims(buffers: &[u64], by_way: &[Vec<Point>]) -> Vec<Claim> {
    let Some(flush) = by_way.first() else { return Vec::new() };
    // What takes the time is in the buffer: nothing can change by more than the buffer does.
    let grows = buffers[buffers.len() - 1] as f64 / buffers[0] as f64;
    let claim = |words: &str, holds_if, value, note: &str| {
        Claim::new(words, Unit::Times, holds_if, Kind::Predicted, value).note(note)
    };
    vec![
        claim(
            "the flushing limits performance significantly as a buffer size increases",
            Comparison::Within(1.0 / grows, 0.5),
            change(flush, |point| point.throughput_bytes_per_s),
            "FLUSH: throughput of the four threads, largest buffer over smallest; at least as much as the smallest is of the \
             largest",
        ),
        claim(
            "it also causes long tail latency in response time due to the varying amount of writes across the runs",
            Comparison::Within(2.0, grows),
            change(flush, Point::tail_s),
            "FLUSH: 99th percentile of fsyncs, largest buffer over smallest; at most as much as the buffers differ",
        ),
    ]
}
