//! Section 4.2: how large the cache must be in front of two drives that take turns.
//!
//! Writes come at the bound of section 5, w / 2, where w is what one drive writes in a second when it does nothing else.

use evenkeel_sim::model::Operation;

use super::super::{
    Chart, Claim, Comparison, Figure, FigureModule, Halted, Kind, Scale, Series, Settings, Table, Unit, Work,
};
use super::bed::REQUEST_BYTES;
use super::drive::Drive;
use super::log::{evenness, mean};
use super::ring::{self, Load, Ran, Until};
use super::turns::{RING, load};
use super::{PAPER, SETUP, STABLE, WINDOW_NS, claim, over_time};

/// The figure.
pub(super) const MODULE: FigureModule = FigureModule {
    name: "rails-cache",
    paper: PAPER,
    place: "section 4.2",
    title: "Two drives of model B: writes at the bound w / 2 against the size of the cache",
    setup: &[
        SETUP[0],
        SETUP[1],
        SETUP[2],
        RING,
        "Writes come at w / 2, reads as fast as possible; the cache is one to four times T w. A write leaves the cache when \
         both drives have it.",
        "Figures are of four minutes, after four turns of 10 s. What the cache holds is looked at ten times a second.",
    ],
    run,
};

/// Sizes of the cache, in T w.
const SIZES: [f64; 5] = [1.0, 1.5, 2.0, 3.0, 4.0];
/// The paper's.
const TWICE: usize = 2;

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let alone = work.each(&[()], |()| Ok(Drive::B.alone(Operation::Write, 200, settings)))?;
    let w = mean(&alone[0]);
    let until = Until::Seconds(settings.pick(240, 16));
    let of = |size: f64| {
        let load = load(Drive::B, 2, w, until, settings);
        let cache_bytes = (size * load.turn_s as f64 * w) as u64;
        Load { writes_per_s: Some(w / REQUEST_BYTES as f64 / 2.0), cache_bytes, ..load }
    };
    let loads = SIZES.map(of);
    let ran = work.each(&loads, |&load| ring::run(load, settings))?;
    let turn_w = loads[0].turn_s as f64 * w;
    let accepted = |ran: &Ran| mean(&ran.log.windows(&ring::ACCEPTED, WINDOW_NS)) * REQUEST_BYTES as f64 / w;
    let line = |name: &str, value: &dyn Fn(&Ran) -> f64| Series {
        name: name.to_owned(),
        points: SIZES.into_iter().zip(ran.iter().map(value)).collect(),
    };
    let against = |chart: Chart| Chart {
        x_name: "size of the cache, in T w".to_owned(),
        x_unit: Unit::Times,
        x_scale: Scale::Linear,
        ..chart
    };
    let charts = vec![
        against(Chart {
            y_name: "of w".to_owned(),
            y_unit: Unit::Times,
            ..over_time(
                "Writes accepted",
                "of what one drive writes alone",
                vec![line("accepted", &accepted)],
            )
        }),
        against(Chart {
            y_name: "in T w".to_owned(),
            y_unit: Unit::Times,
            ..over_time(
                "What the cache holds",
                "at most and on average",
                vec![
                    line("most", &|ran| ran.cached_bytes_max as f64 / turn_w),
                    line("mean", &|ran| ran.cached_bytes_mean / turn_w),
                ],
            )
        }),
    ];
    let row = |(size, ran): (f64, &Ran)| {
        vec![
            Unit::Times.show(size),
            Unit::Share.show(accepted(ran) * 2.0),
            Unit::Share.show(evenness(&ran.log.windows(&ring::ACCEPTED, WINDOW_NS))),
            Unit::Times.show(ran.cached_bytes_max as f64 / turn_w),
            Unit::Times.show(ran.cached_bytes_mean / turn_w),
        ]
    };
    let header = ["cache, in T w", "accepted of w / 2", "evenness", "held at most, in T w", "on average"];
    let table = Table {
        title: "By the size of the cache".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: SIZES.into_iter().zip(&ran).map(row).collect(),
    };
    let claims = claims(&ran, turn_w, &accepted);
    let mut figure = Figure { charts, tables: vec![table], claims, ..Figure::default() };
    figure.draw_paper("Writes accepted", "w / 2 with 2 T w", &[(2.0, 0.5)]);
    figure.draw_paper("What the cache holds", "2 T w at most", &[(4.0, 2.0)]);
    figure.draw_paper("What the cache holds", "3/2 T w on average", &[(4.0, 1.5)]);
    Ok(figure)
}

fn claims(ran: &[Ran], turn_w: f64, accepted: &dyn Fn(&Ran) -> f64) -> Vec<Claim> {
    let (once, twice) = (&ran[0], &ran[TWICE]);
    let even = evenness(&twice.log.windows(&ring::ACCEPTED, WINDOW_NS));
    vec![
        twice.judged(
            claim(
                "we ensure that the rate at which writes are accepted is w/2, i.e., half the write throughput of a drive",
                Unit::Times,
                Comparison::Within(0.49, 0.51),
                Kind::Calibrated,
                accepted(twice),
                "writes accepted with a cache of 2 T w, over what one drive writes alone; w / 2 come",
            )
            .paper_value(0.5),
        ),
        twice.judged(claim(
            "by default, the user perceives write performance as perfectly stable and half that of a drive dedicated to writes",
            Unit::Times,
            Comparison::Within(STABLE, 1.0),
            Kind::Calibrated,
            even,
            "writes accepted with a cache of 2 T w: least over most of nine tenths of the windows",
        )),
        ran[ran.len() - 1].judged(
            claim(
                "the cache size has to be at least 2T x w",
                Unit::Times,
                Comparison::Within(1.5, 2.1),
                Kind::Calibrated,
                ran[ran.len() - 1].cached_bytes_max as f64 / turn_w,
                "what a cache with room for 4 T w holds at most, in T w: no more than 2, and near it",
            )
            .paper_value(2.0),
        ),
        ran[ran.len() - 1].judged(
            claim(
                "We may lower that value to an average of 3/2 x T x w by removing from memory a write that is performed to both \
                 drives",
                Unit::Times,
                Comparison::Within(1.0, 1.6),
                Kind::Calibrated,
                ran[ran.len() - 1].cached_bytes_mean / turn_w,
                "what a cache with room for 4 T w holds on average, in T w",
            )
            .paper_value(1.5),
        ),
        once.judged(
            claim(
                "the cache factor can become w x T by sacrificing up to half the read throughput if the syncing drive retrieves \
                 the required data from [the other] instead of the cache",
                Unit::Times,
                Comparison::Within(0.49, 0.51),
                Kind::Calibrated,
                accepted(once),
                "writes accepted with a cache of T w, over w. The engine never reads one drive to write the other: it takes \
                 the drives' data from memory alone",
            )
            .paper_value(0.5),
        ),
    ]
}
