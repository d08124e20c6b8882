//! Parallel checkpointing onto files: throughput against the number of threads.

use super::super::mpi_io::{extent, figure, load};
use super::super::streams::{self, Outcome};
use super::super::{Mode, PAPER, Sweep};
use super::site::{self, Streams};
use super::{MODES, SETUP};
use crate::reproduce::{Figure, FigureModule, Halted, Settings, Work};

pub(super) const MODULE: FigureModule = FigureModule {
    name: "okeanos-files-mpi-io",
    paper: PAPER,
    place: "slide 12, right, on files",
    title: "MPI-IO over PVFS2, on files: checkpointing with 1 KB writes against threads per client",
    setup: &[
        SETUP[0],
        SETUP[1],
        SETUP[2],
        SETUP[3],
        "From the paper: 13 clients, one data server, writes of 1 KB. Assumed: a file for each thread, which appends and syncs \
         without a pause but 200 us for the network; 60 s are counted.",
    ],
    run,
};

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let (threads, seconds) = extent(settings);
    let sweep =
        Sweep::run(work, &MODES, &threads, |mode, threads| point(settings, work, mode, threads, seconds))?;
    Ok(figure(&sweep))
}

pub(super) fn point(
    settings: &Settings,
    work: &Work<'_>,
    mode: Mode,
    threads: u64,
    seconds: u64,
) -> Result<Outcome, Halted> {
    let load = load(threads, seconds);
    site::live(work, mode, settings.seed, async |site| {
        let streams = Streams::new(&site, load.streams).await;
        streams::run(&streams, load).await
    })
}
