//! Reads that never wait behind writes (paper 3): what single drives do, and what a ring of them does about it.
//!
//! ```text
//! fill       figure 2: reads alone, and writes alone until the drive is full and after
//! streams    figure 3: reads and writes at once, over a small range and over the drive
//! blocked    figure 4: the time in which a drive with a small cache answers nothing
//! steady     figure 5: a drive made for it, from writes to reads
//! lengths    figure 6: what the slowest windows get, against their length
//! turns      figures 10 to 13: drives that read and write in turns
//! bound      section 5: writes up to the bound W_sep, and beyond
//! cache      section 4.2: what of the cache two drives in turns need
//! more       section 4.3: more than three drives
//! stripes    sections 4.3 and 4.4: data and parity shards on them
//! traces     figures 14 and 15: recorded loads, where there are any
//!   bed      the load: streams over anything that takes requests, a drive or a policy over several
//!   drive    the paper's drives, by model
//!   ring     streams on the engine's ring over several drives
//!   log      what was done when, as windows, distributions and gaps
//! ```
//!
//! What the paper says in words has one reading here, the same in every figure, over windows of a second
//! ([`WINDOW_NS`]): of nine tenths of them, the least has at least [`STABLE`] of the most where throughput is predictable,
//! and at most [`UNPREDICTABLE`] of it where it is not.

mod bed;
mod blocked;
mod bound;
mod cache;
mod drive;
mod fill;
mod lengths;
mod log;
mod more;
mod ring;
mod steady;
mod streams;
mod stripes;
mod traces;
mod turns;

use super::{Chart, Claim, Comparison, FigureModule, Kind, Scale, Series, Unit};

/// Number of the paper.
const PAPER: u8 = 3;

/// Every figure of the paper that is drawn.
pub(super) const MODULES: &[FigureModule] = &[
    fill::MODULE,
    streams::MODULE,
    blocked::MODULE,
    steady::MODULE,
    lengths::MODULE,
    turns::SWITCHED,
    turns::TWO,
    turns::THREE,
    turns::STEADY_READS,
    bound::MODULE,
    cache::MODULE,
    more::MODULE,
    stripes::MODULE,
    traces::MODULE,
];

/// Over which throughput is taken.
const WINDOW_NS: u64 = bed::SECOND_NS;

/// Of the most, what the least of nine tenths of the windows has at least where throughput is predictable.
const STABLE: f64 = 0.8;

/// And at most where it is not.
const UNPREDICTABLE: f64 = 0.5;

/// What the set-ups share.
const SETUP: [&str; 4] = [
    "Requests of 256 KB unless said otherwise, 31 under way at once, over a link of 300 MB/s (SATA at 3 Gbit/s), with the \
     write cache on: no file system, no page cache.",
    "Drives by model: A is sata-2008, B is sata-2011, C is steady. A has a quarter of its size, B a thirty-second, C a \
     sixteenth, and so have ranges that are named in the paper's gigabytes; buffers, dies, channels and lengths of \
     blocks are whole. What takes the paper minutes to write so takes seconds.",
    "Throughput is that of windows of a second; of these the twentieth with the least and the twentieth with the most \
     are left out. Predictable: the least has at least 0.8 of the most. Unpredictable: it has at most half of it.",
    "Assumed: where a drive was written before, all of it holds data, beside the range as well: a raw device that was \
     never trimmed.",
];

/// What claims about blocking say of their kind.
const STOPS: &str = "That the whole drive stops to collect garbage is in the models of A and B because this paper says so \
                     (sections 3 and 4); how long and how often follows from their parts";

/// What claims about reads of drive B after writes say of their kind.
const YIELDS: &str = "That what nobody waits for gives way to reads is in the model of B because this paper says so of it \
                      (section 4)";

fn claim(words: &str, unit: Unit, holds_if: Comparison, kind: Kind, value: f64, note: &str) -> Claim {
    Claim::new(words, unit, holds_if, kind, value).note(note)
}

/// Throughput over time.
fn over_time(title: &str, meaning: &str, series: Vec<Series>) -> Chart {
    Chart {
        title: title.to_owned(),
        meaning: meaning.to_owned(),
        x_name: "time".to_owned(),
        x_unit: Unit::S,
        x_scale: Scale::Linear,
        y_name: "requests a second".to_owned(),
        y_unit: Unit::PerS,
        y_scale: Scale::Linear,
        series,
    }
}

#[cfg(test)]
mod tests;
