//! Small files made, appended to, read and deleted: transactions a second against the size of a request.

use evenkeel_engine::env::Env;

use super::super::postmark::{FILES, Point, extent, figure};
use super::super::{Mode, PAPER, Sweep};
use super::site::{self, Site};
use super::{MODES, SETUP};
use crate::reproduce::{Figure, FigureModule, Halted, Settings, Work};

pub(super) const MODULE: FigureModule = FigureModule {
    name: "okeanos-files-postmark",
    paper: PAPER,
    place: "slide 12, left, on files",
    title: "Postmark, on files: transactions a second against request size",
    setup: &[
        SETUP[0],
        SETUP[1],
        SETUP[2],
        SETUP[3],
        "Postmark's own defaults, one thread: 500 files in one folder, then 500 transactions, each a creation or a deletion, \
         then a read or an append. Creations and appends write one request and sync the file; a deletion is durable with \
         the next of them. Files begin with one request. The slide names none of this but the request size.",
    ],
    run,
};

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let (sizes, transactions) = extent(settings);
    let sweep = Sweep::run(work, &MODES, &sizes, |mode, request_bytes| {
        point(settings, work, mode, request_bytes, transactions)
    })?;
    Ok(figure(&sweep))
}

pub(super) fn point(
    settings: &Settings,
    work: &Work<'_>,
    mode: Mode,
    request_bytes: u64,
    transactions: u64,
) -> Result<Point, Halted> {
    site::live(work, mode, settings.seed, async |site| postmark(&site, request_bytes, transactions).await)
}

async fn postmark(site: &Site, request_bytes: u64, transactions: u64) -> Point {
    let mut random = site.random();
    let (mut files, mut next_name) = (Vec::new(), 0);
    let mut make = async |random: &mut _| {
        let name = next_name;
        next_name += 1;
        let file = site.create(name).await;
        site.append(random, &file, request_bytes).await;
        (name, file)
    };
    // The pool of files is there before the clock runs.
    for _ in 0..FILES {
        files.push(make(&mut random).await);
    }
    site.settle().await;
    let began_ns = site.env().now_ns();
    for _ in 0..transactions {
        if random.coin() {
            files.push(make(&mut random).await);
        } else if files.len() > 1 {
            let (name, file) = files.swap_remove(random.index(files.len()));
            site.delete(name, &file).await;
        }
        let (_, file) = &files[random.index(files.len())];
        if random.coin() {
            site.read(file).await;
        } else {
            site.append(&mut random, file, request_bytes).await;
        }
    }
    Point { transactions, took_ns: site.env().now_ns() - began_ns }
}
