//! Figure 1, mounted: four threads write, one of them with fsyncs, over ever larger buffers.

use std::cell::Cell;
use std::rc::Rc;

use evenkeel_engine::env::Env;

use super::super::super::{Figure, FigureModule, Halted, Settings, Work};
use super::super::buffer::{FILE_PAGES, Fsyncs, OTHER_FILES, Point, SYNC_PAGES, THREADS, figure, sweep};
use super::super::host::{MIB, board};
use super::site::{File, Site};
use super::{LINES, SETUP, Way};

/// Figure 1.
pub(super) const MODULE: FigureModule = FigureModule {
    name: "range-flush-mounted-buffer",
    paper: 4,
    place: "figure 1, mounted",
    title: "evenkeel mount: throughput and tail latency against the size of the last buffer",
    setup: &[
        "Four threads write 1 MB each at 4 KB granularity, one of them with an fsync every 100 KB: a run, as the paper has \
         it. Five runs for each point, one after the other on the same drive.",
        SETUP[0],
        SETUP[1],
        SETUP[2],
        SETUP[3],
        "Assumed: the buffer is full of what other programs wrote to files of theirs when a run begins, as in \
         range-flush-buffer.",
        "Throughput is that of a run: 4 MB over the time until its last thread is done. The tail is the 99th percentile of \
         an fsync with the data it writes out.",
    ],
    run,
};

/// Bytes of the drive's own buffer.
pub(super) const DRIVE_BUFFER_BYTES: u64 = 512 * MIB;

/// Runs of four threads over such a buffer.
pub(super) fn point(buffer_bytes: u64, way: Way, runs: u32, seed: u64) -> Point {
    let mut site = Site::new(board(DRIVE_BUFFER_BYTES), buffer_bytes, way, seed);
    let files = site.files.clone();
    let made = async {
        let mut made = Vec::new();
        for name in 0..(THREADS + OTHER_FILES) as u64 {
            made.push(files.create(name).await);
        }
        files.sync_all().await;
        made
    };
    let made = site.executor.block_on(made).expect("files are made");
    let (files, others) = made.split_at(THREADS);
    let mut others = others.iter().cycle();
    let mut fsyncs = Fsyncs::default();
    for _ in 0..runs {
        fill_buffer(&mut site, buffer_bytes, &mut others);
        let (fsyncs_s, ns) = one_run(&mut site, files);
        fsyncs.add(&fsyncs_s, ns);
    }
    fsyncs.point(runs)
}

/// Lets other programs write until the buffer is as good as full.
fn fill_buffer<'a>(site: &mut Site, buffer_bytes: u64, others: &mut impl Iterator<Item = &'a File>) {
    let files = site.files.clone();
    let filled = async {
        while files.dirty_bytes().await < buffer_bytes * 98 / 100 {
            let &file = others.next().expect("they come again and again");
            files.truncate(file).await;
            files.write(file, 0, FILE_PAGES.into()).await;
        }
    };
    site.executor.block_on(filled).expect("the files are written");
}

/// Each file written once, page by page, all at once, the first with fsyncs; answers what these took, and all of it.
fn one_run(site: &mut Site, files: &[File]) -> (Vec<f64>, u64) {
    let [synced, others @ ..] = files else { unreachable!("there are four files") };
    let (synced, began_ns, done) = (*synced, site.env.now_ns(), Rc::new(Cell::new(0)));
    for &file in others {
        let (files, done) = (site.files.clone(), Rc::clone(&done));
        site.env.spawn(async move {
            files.truncate(file).await;
            for page in 0..FILE_PAGES {
                files.write(file, page.into(), 1).await;
            }
            done.set(done.get() + 1);
        });
    }
    let (files, env, others) = (site.files.clone(), site.env.clone(), others.len());
    let run = async move {
        let mut fsyncs_s = Vec::new();
        files.truncate(synced).await;
        for page in 0..FILE_PAGES {
            files.write(synced, page.into(), 1).await;
            if (page + 1) % SYNC_PAGES == 0 {
                let from_ns = env.now_ns();
                files.sync(synced).await;
                fsyncs_s.push((env.now_ns() - from_ns) as f64 / 1e9);
            }
        }
        while done.get() < others {
            env.sleep(10_000).await;
        }
        (fsyncs_s, env.now_ns() - began_ns)
    };
    site.executor.block_on(run).expect("the threads come to their ends")
}

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let buffers: Vec<u64> = (5..=settings.pick(9, 7)).map(|power| MIB << power).collect();
    let by_way = sweep(settings, work, &LINES, &buffers, point)?;
    let notes = vec![
        "The mount writes out by itself what it does not keep in memory, and flushes it: so little of it is in the drive's \
         buffer that what the drive's RFLUSH spares is small beside what the mount's does."
            .to_owned(),
    ];
    Ok(Figure { notes, ..figure(&LINES, &buffers, &by_way) })
}
