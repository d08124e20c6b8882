//! What a power cut leaves of files that were synced.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::pending;
use std::rc::Rc;

use evenkeel_engine::env::Env;
use evenkeel_sim::executor::Halt;
use evenkeel_sim::file_system::{
    Barrier, File, FileSystem, FlushQueueing, Metadata, PAGE_BYTES, Setup, nodes,
};
use evenkeel_sim::model::flash::Flash;
use evenkeel_sim::model::presets;
use evenkeel_sim::random::Random;

use super::super::{Claim, Comparison, Figure, FigureModule, Halted, Kind, Settings, Table, Unit, Work};
use super::host::{Host, MIB};

/// Power cuts.
pub(super) const MODULE: FigureModule = FigureModule {
    name: "range-flush-cuts",
    paper: 4,
    place: "text",
    title: "Power cuts after fsyncs by range flush",
    setup: &[
        "Four threads write a file each, up to 16 pages at a time at random places of 64; two of them sync their file \
         after each, the others never do. The paper's board by model, scaled to 64 MB, with a buffer of 8 MB.",
        "The power is cut right after each fsync in turn, and at random times; each cut in a run of its own.",
        "After each cut every file's node is looked up, and each page that it names, byte by byte.",
        "The same is done with two mistakes planted: the node is not flushed with the data; the data is not flushed \
         before the node.",
    ],
    run,
};

const DRIVE_BYTES: u64 = 64 * MIB;
const BUFFER_BYTES: u64 = 8 * MIB;
const FILE_PAGES: u64 = 64;
const WRITE_PAGES_MAX: u64 = 16;
const SYNCED_FILES: usize = 2;
const FILES: usize = 4;

/// When the power is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// As soon as so many fsyncs are done.
    AfterFsyncs(u64),
    /// At a time.
    At(u64),
}

/// What cuts left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Damage {
    pub(super) cuts: u64,
    /// Fsyncs that were done before them.
    pub(super) fsyncs: u64,
    /// Files that were not found as their last fsync had left them, or newer.
    pub(super) files_lost: u64,
    /// Pages that nodes name and that are not there.
    pub(super) pages_missing: u64,
}

impl Damage {
    fn and(self, other: Self) -> Self {
        Self {
            cuts: self.cuts + other.cuts,
            fsyncs: self.fsyncs + other.fsyncs,
            files_lost: self.files_lost + other.files_lost,
            pages_missing: self.pages_missing + other.pages_missing,
        }
    }
}

fn setup(barrier: Barrier, metadata: Metadata) -> Setup {
    Setup {
        barrier,
        queueing: FlushQueueing::Alone,
        metadata,
        inodes_max: FILES as u32,
        background_pages: 16,
        dirty_pages_max: 64,
        copy_page_ns: 1_000,
        flushers: 4,
        keeps_contents: true,
    }
}

fn drive() -> Flash {
    let preset = presets::find("open-channel").expect("a preset of that name");
    let mut shape = preset.shape(DRIVE_BYTES).expect("a size that it can have");
    shape.buffer_bytes = BUFFER_BYTES;
    let mut flash = Flash::new(shape);
    flash.keep_contents();
    flash
}

/// The files' nodes by the last fsync that was done, and how many were.
type Synced = Rc<RefCell<(u64, BTreeMap<File, u32>)>>;

async fn write(file_system: FileSystem, file: File, mut random: Random, fsynced: Option<impl Fn(File, u32)>) {
    // The log is never written twice: this ends before it is full.
    let writes_max = DRIVE_BYTES / PAGE_BYTES / FILES as u64 / WRITE_PAGES_MAX - 1;
    for _ in 0..writes_max {
        let pages = 1 + random.below(WRITE_PAGES_MAX);
        let first = random.below(FILE_PAGES - pages + 1);
        file_system.write(file, first as u32, pages as u32).await;
        if let Some(fsynced) = &fsynced {
            fsynced(file, file_system.fsync(file).await);
        }
    }
}

/// A life that ends with a cut, and what is found after it.
pub(super) fn cut(barrier: Barrier, metadata: Metadata, cut: Cut, seed: u64) -> Damage {
    let mut host = Host::new(drive(), setup(barrier, metadata), seed);
    let mut random = Random::new(seed);
    let synced = Synced::default();
    let files: Vec<File> = (0..FILES).map(|_| host.file_system.create()).collect();
    for (number, &file) in files.iter().enumerate() {
        let (synced, stop) = (Rc::clone(&synced), host.env.stop());
        let fsynced = move |file, version| {
            let mut synced = synced.borrow_mut();
            synced.0 += 1;
            synced.1.insert(file, version);
            if cut == Cut::AfterFsyncs(synced.0) {
                stop.raise();
            }
        };
        let fsynced = (number < SYNCED_FILES).then_some(fsynced);
        host.env.spawn(write(host.file_system.clone(), file, random.fork(), fsynced));
    }
    match cut {
        Cut::At(ns) => host.run_for(ns),
        Cut::AfterFsyncs(_) => {
            let ended = host.executor.block_on(pending::<()>());
            assert!(matches!(ended, Err(Halt::Stopped { .. })), "the files are synced so often: {ended:?}");
        }
    }
    let Host { executor, drive, .. } = host;
    drop(executor);
    drive.borrow_mut().power_cut(&mut random);
    let synced = synced.borrow();
    let mut damage = Damage { cuts: 1, fsyncs: synced.0, ..Damage::default() };
    for &file in &files {
        let found = nodes::find(&*drive.borrow(), file);
        damage.files_lost += u64::from(synced.1.get(&file).is_some_and(|&version| found.version < version));
        damage.pages_missing += u64::from(found.pages_missing);
    }
    damage
}

/// Cuts after each of the first fsyncs, and as many at random times among them.
pub(super) fn cuts(barrier: Barrier, metadata: Metadata, fsyncs: u64, seed: u64) -> Damage {
    /// About what a fsync takes here.
    const FSYNC_NS: u64 = 2_000_000;
    let mut random = Random::new(seed);
    let after_each = (1..=fsyncs).map(Cut::AfterFsyncs);
    let at_random = (0..fsyncs).map(|_| Cut::At(1 + random.below(fsyncs * FSYNC_NS)));
    let all: Vec<Cut> = after_each.chain(at_random).collect();
    all.into_iter()
        .zip(seed..)
        .map(|(at, seed)| cut(barrier, metadata, at, seed))
        .fold(Damage::default(), Damage::and)
}

const CASES: [(&str, Barrier, Metadata); 4] = [
    ("RFLUSH, node with the data", Barrier::RangeFlush, Metadata::InTandem),
    ("FLUSH, node with the data", Barrier::Flush, Metadata::InTandem),
    ("RFLUSH, node left behind (planted)", Barrier::RangeFlush, Metadata::LeftBehind),
    ("RFLUSH, node ahead of the data (planted)", Barrier::RangeFlush, Metadata::Ahead),
];

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let fsyncs = settings.pick(100, 20);
    let damage =
        work.each(&CASES, |&(_, barrier, metadata)| Ok(cuts(barrier, metadata, fsyncs, settings.seed)))?;
    let row = |((name, ..), damage): (&(&str, Barrier, Metadata), &Damage)| {
        let figures = [damage.cuts, damage.fsyncs, damage.files_lost, damage.pages_missing];
        std::iter::once((*name).to_owned()).chain(figures.map(|figure| figure.to_string())).collect()
    };
    let table = Table {
        title: "Found after power cuts".to_owned(),
        header: ["fsync by", "cuts", "fsyncs before them", "files older than synced", "pages missing"]
            .map(str::to_owned)
            .to_vec(),
        rows: CASES.iter().zip(&damage).map(row).collect(),
    };
    Ok(Figure { tables: vec![table], claims: claims(&damage), ..Figure::default() })
}

fn claims(damage: &[Damage]) -> Vec<Claim> {
    let [range, _, left_behind, ahead] = damage else { return Vec::new() };
    let harmed = |damage: &Damage| (damage.files_lost + damage.pages_missing) as f64;
    let claim = |words: &str, holds_if, value, note: String| {
        Claim::new(words, Unit::Count, holds_if, Kind::Predicted, value).note(note)
    };
    let otherwise = "otherwise the system will end up with corruption in a crash";
    vec![
        claim(
            "we ensure that the storage flushes the associated metadata in a tandem",
            Comparison::AtMost(0.0),
            harmed(range),
            format!("files older than synced and pages missing after {} power cuts", range.cuts),
        ),
        claim(
            otherwise,
            Comparison::AtLeast(1.0),
            harmed(left_behind),
            format!("the same after {} cuts, nodes not flushed with the data", left_behind.cuts),
        ),
        claim(
            otherwise,
            Comparison::AtLeast(1.0),
            harmed(ahead),
            format!("the same after {} cuts, data not flushed before its node", ahead.cuts),
        ),
    ]
}
