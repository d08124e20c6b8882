//! The paper's drives, by model and scaled.

use evenkeel_sim::model::flash::Flash;
use evenkeel_sim::model::flash::shape::Shape;
use evenkeel_sim::model::presets;
use evenkeel_sim::model::{Operation, SECTOR_BYTES};

use super::super::Settings;
use super::bed::{Bed, Order, REQUEST_BYTES, SECOND_NS, Stream};

/// Which of the paper's drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drive {
    /// Intel X25-E, 65 GB, 16 MB of cache.
    A,
    /// Intel 510, 250 GB, 128 MB of cache.
    B,
    /// Intel DC S3700, 400 GB, 512 MB of cache.
    C,
}

/// The paper's connector: SATA at 3 Gbit/s.
const LINK_BYTES_PER_S: u64 = 300_000_000;

/// How often a drive with a past was overwritten at random.
const OVERWRITES: f64 = 2.0;

impl Drive {
    fn preset(self) -> &'static presets::Preset {
        let name = match self {
            Self::A => "sata-2008",
            Self::B => "sata-2011",
            Self::C => "steady",
        };
        presets::find(name).expect("a preset of that name")
    }

    /// Of its size it has this part: at least as much as its blocks need to keep their length.
    fn part(self, settings: &Settings) -> u64 {
        let full = match self {
            Self::A => 4,
            Self::B => 32,
            Self::C => 16,
        };
        settings.pick(full, full * 8)
    }

    /// What is so many gigabytes of the paper's drive, scaled.
    pub(super) fn scaled(self, gigabytes: u64, settings: &Settings) -> u64 {
        gigabytes * 1_000_000_000 / self.part(settings) / SECTOR_BYTES * SECTOR_BYTES
    }

    /// The drive, never written.
    pub(super) fn fresh(self, settings: &Settings) -> Flash {
        let preset = self.preset();
        let size_bytes = self.scaled(preset.size_bytes() / 1_000_000_000, settings);
        let mut shape = preset.shape(size_bytes).expect("a size that it can have");
        shape.link_bytes_per_s = shape.link_bytes_per_s.min(LINK_BYTES_PER_S);
        Flash::new(shape)
    }

    /// As [`Self::overwritten`], of a model whose background work does not give way to reads.
    pub(super) fn without_yielding(self, bytes: u64, settings: &Settings) -> Flash {
        let shape = self.fresh(settings).shape().clone();
        let mut flash = Flash::new(Shape { yields_to_reads_ns: None, ..shape });
        flash.precondition_first(bytes, OVERWRITES, settings.seed);
        flash
    }

    /// Bytes that one such drive takes, or gives, in each second when it does nothing else: two streams over its first
    /// gigabytes, one in order and one at random, for so long that no buffer shows.
    pub(super) fn alone(self, operation: Operation, gigabytes: u64, settings: &Settings) -> Vec<f64> {
        let range_bytes = self.scaled(gigabytes, settings);
        let stream = |order| Stream::new(operation, order, range_bytes, 1.0);
        let streams = [stream(Order::Sequential), stream(Order::Random)];
        let mut bed = Bed::new(self.overwritten(range_bytes, settings), &streams, settings.seed);
        bed.run_for(settings.pick(60, 8) * SECOND_NS);
        let log = bed.run_for(settings.pick(240, 16) * SECOND_NS);
        let bytes = |per_s: f64| per_s * REQUEST_BYTES as f64;
        log.windows(&[0, 1], SECOND_NS).into_iter().map(bytes).collect()
    }

    /// The drive after it was filled in order.
    pub(super) fn filled(self, settings: &Settings) -> Flash {
        self.overwritten(0, settings)
    }

    /// The drive after it was filled in order, and its first `bytes` overwritten at random until that changes nothing any
    /// more.
    pub(super) fn overwritten(self, bytes: u64, settings: &Settings) -> Flash {
        let mut flash = self.fresh(settings);
        flash.precondition_first(bytes, OVERWRITES, settings.seed);
        flash
    }
}
