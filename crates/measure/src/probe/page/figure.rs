//! The three figures that are charted, and what of a point belongs to each.

use crate::probe::report::{Model, Point, ProbeReport};
use crate::report::format;

use crate::report::charts::axes::shown;

/// What a chart shows against the buffer size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Figure {
    /// User bytes made durable per second.
    Throughput,
    /// Mean time of one synchronous write.
    Latency,
    /// Throughput over latency.
    Ratio,
}

impl Figure {
    /// Every figure, in the order of the page.
    pub(crate) const ALL: [Self; 3] = [Self::Throughput, Self::Latency, Self::Ratio];

    /// The heading of its chart.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Throughput => "Throughput",
            Self::Latency => "Latency",
            Self::Ratio => "Throughput over latency",
        }
    }

    /// What it is, in one line.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::Throughput => "user bytes made durable per second",
            Self::Latency => "time of one synchronous write",
            Self::Ratio => "MB/s for each ms of latency; the peak is the best trade",
        }
    }

    /// The label of a tick.
    pub(super) fn tick(self, value: f64) -> String {
        match self {
            Self::Throughput => format::rate(value),
            Self::Latency => format::seconds(value),
            Self::Ratio => format::number(value / format::RATIO_UNIT),
        }
    }

    fn mean(self, point: &Point) -> f64 {
        match self {
            Self::Throughput => point.throughput_bytes_per_s.mean,
            Self::Latency => point.latency_s.mean,
            Self::Ratio => point.ratio,
        }
    }

    fn ci95(self, point: &Point) -> Option<[f64; 2]> {
        match self {
            Self::Throughput => point.throughput_bytes_per_s.ci95,
            Self::Latency => point.latency_s.ci95,
            Self::Ratio => point.ratio_ci95,
        }
    }

    /// What the fitted line says for a buffer with this many writers: each writer has a latency of
    /// l + x/B, and all of them add to the throughput.
    pub(super) fn modelled(self, model: &Model, writers: u32, buffer_bytes: f64) -> f64 {
        let latency = model.fixed_latency_s + buffer_bytes / model.bandwidth_bytes_per_s;
        let throughput = buffer_bytes / latency * f64::from(writers.max(1));
        match self {
            Self::Throughput => throughput,
            Self::Latency => latency,
            Self::Ratio => throughput / latency,
        }
    }
}

/// One measured figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Dot {
    pub(super) buffer_bytes: f64,
    pub(super) value: f64,
    pub(super) ci95: Option<[f64; 2]>,
    /// Median and 99th percentile, where the figure has them.
    pub(super) band: Option<[f64; 2]>,
}

impl Dot {
    /// The values that the axis must reach. An interval from very few runs can be wider than the chart is
    /// useful; beyond a factor of five it is cut off.
    pub(super) fn extent(&self) -> impl Iterator<Item = f64> {
        let value = self.value;
        let ci95 = self.ci95.into_iter().flatten().map(move |end| end.clamp(value / 5.0, value * 5.0));
        [value].into_iter().chain(ci95).chain(self.band.into_iter().flatten())
    }
}

/// What of a report has a place on the chart of a figure.
pub(super) fn dots(report: &ProbeReport, figure: Figure) -> Vec<Dot> {
    let whole = |ends: &[f64; 2]| ends.iter().all(|end| end.is_finite()) && ends[0] <= ends[1];
    let dot = |point: &Point| {
        let latency = &point.latency_s;
        let band = (figure == Figure::Latency).then(|| Some([latency.p50?, latency.p99?])).flatten();
        Dot {
            buffer_bytes: point.buffer_bytes as f64,
            value: figure.mean(point),
            ci95: figure.ci95(point).filter(whole),
            band: band.filter(whole).filter(|ends| ends.iter().copied().all(shown)),
        }
    };
    report.points.iter().map(dot).filter(|dot| shown(dot.buffer_bytes) && shown(dot.value)).collect()
}
