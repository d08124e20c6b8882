//! Sections 4.3 and 4.4: data and parity shards over three drives and more, of which as many read as a read needs.

use evenkeel_engine::format::stripes::Stripes;
use evenkeel_engine::ring::Policy;

use super::super::mirrors::bed::Plan;
use super::super::mirrors::made::Made;
use super::super::mirrors::stage::Stage;
use super::super::mirrors::trace::Played;
use super::super::{
    Chart, Claim, Comparison, Figure, FigureModule, Halted, Kind, Scale, Series, Settings, Table, Unit, Work,
};
use super::{PAPER, YIELDS, claim, over_time};
use crate::report::format;

/// The figure.
pub(super) const MODULE: FigureModule = FigureModule {
    name: "rails-stripes",
    paper: PAPER,
    place: "sections 4.3 and 4.4",
    title: "Erasure-coded volumes on drives of model B, in turns and mixed",
    setup: &[
        "K data shards and M parity shards of 64 KiB on N = K + M drives by model (sata-2011, filled and overwritten twice), so \
         that q = N / K; a volume of 512 MiB that the engine keeps on them, full, its log on drives that are steady.",
        "A load that is made up like that of TPC-C: reads and durable writes of 8 KiB, scattered. It is played so fast that its \
         writes are a share of W_sep = w (N - N / q) / N, where w is what all drives together take home of these writes alone.",
        "A read whose drive writes is computed from K others. Each change of a row reads what it does not write of it, and writes \
         its parity: all of that is in what is measured.",
        "A read is blocked for what it takes beyond ten times the median of reads without writes; the time counts in which \
         any is.",
    ],
    run,
};

/// K and M: the paper's q = 3/2 by rising N, and others at eight drives or fewer.
const SHAPES: [(usize, usize); 5] = [(2, 1), (4, 2), (8, 4), (2, 2), (6, 2)];

/// Model B.
const PRESET: &str = "sata-2011";

const SHARD_BYTES: u64 = 64 << 10;

/// Of W_sep, what writes are beside which reads are looked at,
const BESIDE: f64 = 0.7;

/// and what they are where it is looked how many come home.
const BEYOND: f64 = 1.15;

/// What came of one shape.
struct Point {
    stripes: Stripes,
    /// Bytes a second that all drives take home, mixed and without reads.
    w: f64,
    w_sep: f64,
    alone: Played,
    turns: Played,
    mixed: Played,
    beyond: Played,
}

impl Point {
    /// What a read takes at a quantile, over what the same reads take without writes.
    fn over_alone(&self, played: &Played, share: f64) -> f64 {
        played.reads.quantile_s(share) / self.alone.reads.quantile_s(share)
    }

    fn name(&self) -> String {
        format!("{}+{}", self.stripes.data(), self.stripes.parity())
    }

    fn q(&self) -> f64 {
        self.stripes.members() as f64 / self.stripes.data() as f64
    }
}

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let shapes = settings.pick(&SHAPES[..], &SHAPES[..1]);
    let points = work.each(shapes, |&shape| point(shape, settings, work))?;
    let is_charted = |point: &&Point| 2 * point.stripes.members() == 3 * point.stripes.data();
    let line = |name: &str, played: fn(&Point) -> &Played| Series {
        name: name.to_owned(),
        points: points
            .iter()
            .filter(is_charted)
            .map(|point| (point.stripes.members() as f64, point.over_alone(played(point), 0.999)))
            .collect(),
    };
    let chart = Chart {
        x_name: "drives".to_owned(),
        x_unit: Unit::Times,
        y_name: "of reads without writes".to_owned(),
        y_unit: Unit::Times,
        y_scale: Scale::Log,
        ..over_time(
            "Reads beside writes, q = 3/2",
            "what 99.9 % of the reads take at most, over the same reads without writes",
            vec![line("in turns", |point| &point.turns), line("mixed", |point| &point.mixed)],
        )
    };
    Ok(Figure {
        charts: vec![chart],
        tables: vec![table(&points)],
        claims: points.iter().flat_map(claims).collect(),
        ..Figure::default()
    })
}

fn point((data, parity): (usize, usize), settings: &Settings, work: &Work<'_>) -> Result<Point, Halted> {
    let unavailable = || Halted::Unavailable("there are no such stripes".to_owned());
    let stripes = Stripes::new(data, parity, SHARD_BYTES).ok_or_else(unavailable)?;
    let volume_bytes = settings.pick(512 << 20, 64 << 20);
    let requests = Made::Tpcc.requests(volume_bytes, settings.seed);
    let own_bytes_per_s = requests.write_bytes_per_s();
    let stage = Stage::on(Plan::striped(PRESET, stripes, volume_bytes, settings.seed), requests)?;
    let w = stage.write_rate(Policy::Mixed, settings.pick(20, 2))?;
    let w_sep = w * stage.plan().separated_share();
    let play = |policy, share: f64, reads_only| {
        if work.is_stopped() {
            return Err(Halted::Stopped);
        }
        let seconds = if reads_only { 0 } else { settings.pick(40, 4) };
        stage.play(policy, share * w_sep / own_bytes_per_s, settings.pick(20_000, 2_000), seconds, reads_only)
    };
    Ok(Point {
        stripes,
        w,
        w_sep,
        alone: play(Policy::Turns, BESIDE, true)?,
        turns: play(Policy::Turns, BESIDE, false)?,
        mixed: play(Policy::Mixed, BESIDE, false)?,
        beyond: play(Policy::Turns, BEYOND, false)?,
    })
}

fn table(points: &[Point]) -> Table {
    let row = |point: &Point| {
        let reads = |played: &Played| Unit::Times.show(point.over_alone(played, 0.999));
        let slow_write = |played: &Played| format::seconds(played.writes.quantile_s(0.99));
        vec![
            point.name(),
            point.stripes.members().to_string(),
            format!("{:.2}", point.q()),
            format::rate(point.w),
            format::rate(point.w_sep),
            format::rate(point.beyond.home_bytes_per_s()),
            reads(&point.turns),
            reads(&point.mixed),
            format::percent(point.turns.blocked_share()),
            format::percent(point.mixed.blocked_share()),
            slow_write(&point.turns),
            slow_write(&point.mixed),
        ]
    };
    let header = [
        "K+M",
        "N",
        "q",
        "w",
        "W_sep",
        "home in turns",
        "reads in turns",
        "mixed",
        "blocked in turns",
        "mixed",
        "writes in turns",
        "mixed",
    ];
    Table {
        title: format!(
            "Reads at 99.9 % over those without writes, and writes at 99 %, at {BESIDE} W_sep; what comes home at {BEYOND} W_sep"
        ),
        header: header.map(str::to_owned).to_vec(),
        rows: points.iter().map(row).collect(),
    }
}

fn claims(point: &Point) -> [Claim; 3] {
    let name = point.name();
    let of = |words: &str| format!("{words} ({name})");
    let claims = [
        claim(
            &of("(evenkeel's own) of 1,000 reads beside writes, computed ones among them, one takes longer than of 1,000 without, \
                 by 15 % at the most"),
            Unit::Times,
            Comparison::Within(0.7, 1.15),
            Kind::Calibrated,
            point.over_alone(&point.turns, 0.999),
            YIELDS,
        ),
        claim(
            &of("With Rails, reads are virtually unaffected by writes - they are blocked for less than 1% of the time"),
            Unit::Share,
            Comparison::Within(0.0, 0.01),
            Kind::Calibrated,
            point.turns.blocked_share(),
            &format!("without any writes {}", format::percent(point.alone.blocked_share())),
        )
        .paper_value(0.01),
        claim(
            &of("W_sep = w (N - N / q) / q"),
            Unit::Times,
            Comparison::Within(0.9, 1.1),
            Kind::Calibrated,
            point.beyond.home_bytes_per_s() / point.w_sep,
            "what comes home in turns where more comes, over W_sep",
        )
        .paper_value(1.0),
    ];
    match [&point.alone, &point.turns].iter().any(|played| played.is_overrun) {
        true => claims.map(|claim| claim.never("more came than was served, and the run was ended")),
        false => claims,
    }
}
