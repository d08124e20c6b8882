//! How long the volume takes to open after the power failed.

use evenkeel_engine::env::Env;

use super::bed::{Bed, SETUP};
use super::streams::{self, Load, Rhythm, SECOND_NS};
use super::{Mode, PAPER, Sweep};
use crate::report::format;
use crate::reproduce::{
    Chart, Claim, Comparison, Figure, FigureModule, Halted, Kind, Scale, Settings, Table, Unit, Work,
};

pub(super) const MODULE: FigureModule = FigureModule {
    name: "okeanos-recovery",
    paper: PAPER,
    place: "follow-up paper",
    title: "Recovery time against the number of writes in the journal",
    setup: &[
        SETUP[0],
        SETUP[1],
        SETUP[2],
        SETUP[3],
        SETUP[4],
        "100 streams append requests of 1 KB, each durable before the next of its stream; then the power fails, before \
         anything has gone home: up to as many as the journal holds in data mode until a checkpoint begins. What is timed is the opening of the volume: the journal is read, the pages are made whole \
         and taken home. The disk spins already.",
        "The slides do not show recovery; the number is that of the authors' follow-up (ACM Transactions on Storage 9, \
         2013), whose load they do not name.",
    ],
    run,
};

const STREAMS: u64 = 100;
const REQUEST_BYTES: u64 = 1024;
/// What the follow-up's abstract says: recovery time decreases by up to this.
const PAPER_SHARE: f64 = 0.22;

/// What one point measures.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    pub(super) recovery_ns: u64,
    pub(super) journal_bytes: u64,
    pub(super) records: u64,
}

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let requests = settings.pick(vec![0, 5, 20, 40, 60, 80, 100, 120], vec![0, 5, 40]);
    let modes = [Mode::Data, Mode::Wasteless];
    let sweep = Sweep::run(work, &modes, &requests, |mode, requests| point(settings, work, mode, requests))?;
    let less = |requests| {
        let ns = |mode| sweep.at(mode, requests).recovery_ns as f64;
        1.0 - ns(Mode::Wasteless) / ns(Mode::Data)
    };
    let most = requests.iter().copied().max_by(|&one, &other| less(one).total_cmp(&less(other)));
    let most = most.expect("there are points");
    let beyond_empty = |mode| (sweep.at(mode, most).recovery_ns - sweep.at(mode, 0).recovery_ns) as f64;
    let claims = vec![
        Claim::new(
            "decreases recovery time [against data journaling] up to 22%",
            Unit::Share,
            Comparison::AtLeast(PAPER_SHARE),
            Kind::Predicted,
            less(most),
        )
        .paper_value(PAPER_SHARE)
        .note(format!(
            "By how much wasteless recovers sooner than data, the most of the sweep: after {} writes of 1 KB. What \
             remains with few writes in the journal takes as long in both modes: 64 MiB of it behind its end, read to tell \
             that end from damage (half a second of this disk, and a promise of this engine that the paper's kernel does not \
             make), and taking the pages of 100 files home.",
            format::count(most * STREAMS)
        )),
        Claim::new(
            "decreases recovery time [against data journaling] up to 22%",
            Unit::Share,
            Comparison::AtLeast(PAPER_SHARE),
            Kind::Predicted,
            1.0 - beyond_empty(Mode::Wasteless) / beyond_empty(Mode::Data),
        )
        .paper_value(PAPER_SHARE)
        .note(
            "The same of the time beyond that of an empty journal: without looking for what may follow its end, which the \
             paper's kernel does not do.",
        ),
    ];
    let chart = Chart {
        title: "Recovery time".to_owned(),
        meaning: "until the volume is open after a power failure".to_owned(),
        x_name: "writes in the journal".to_owned(),
        x_unit: Unit::Count,
        x_scale: Scale::Linear,
        y_name: "recovery".to_owned(),
        y_unit: Unit::S,
        y_scale: Scale::Linear,
        series: sweep.series(|requests| (requests * STREAMS) as f64, |point| point.recovery_ns as f64 / 1e9),
    };
    let row = |&requests: &u64| {
        let (data, wasteless) = (sweep.at(Mode::Data, requests), sweep.at(Mode::Wasteless, requests));
        vec![
            format::count(requests * STREAMS),
            format::bytes_f64(data.journal_bytes as f64),
            format::bytes_f64(wasteless.journal_bytes as f64),
            format::count(data.records),
            format::count(wasteless.records),
            format::seconds(data.recovery_ns as f64 / 1e9),
            format::seconds(wasteless.recovery_ns as f64 / 1e9),
            format::percent(less(requests)),
        ]
    };
    let header = [
        "writes",
        "journal, data",
        "journal, wasteless",
        "records, data",
        "records, wasteless",
        "recovery, data",
        "recovery, wasteless",
        "less by",
    ];
    let table = Table {
        title: "Recovery".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: requests.iter().map(row).collect(),
    };
    Ok(Figure { charts: vec![chart], tables: vec![table], claims, ..Figure::default() })
}

pub(super) fn point(
    settings: &Settings,
    work: &Work<'_>,
    mode: Mode,
    requests_max: u64,
) -> Result<Point, Halted> {
    let load = Load {
        streams: STREAMS,
        request_bytes: REQUEST_BYTES,
        rhythm: Rhythm::After(0),
        until_ns: 3600 * SECOND_NS,
        requests_max,
    };
    let bed = Bed::new(work, settings.seed)?;
    let journal_bytes = bed.live(work, mode, async |site| {
        if requests_max == 0 {
            return 0;
        }
        let outcome = streams::write(&site, load).await;
        // The disk is idle when the power fails: nothing is torn that nobody was told of.
        site.env().sleep(SECOND_NS).await;
        outcome.traffic.journal_bytes
    })?;
    let (recovery_ns, counted) = bed.recovery_ns(work, mode)?;
    Ok(Point { recovery_ns, journal_bytes, records: counted.replayed_records })
}
