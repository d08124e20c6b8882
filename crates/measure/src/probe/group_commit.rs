//! The buffer with which group commit makes records durable soonest.
//!
//! Under group commit, what arrives while a write is under way joins the next one. With writes of a buffer of x bytes that
//! take T, and records arriving at rate r, a record that finds a write under way waits half of it and then takes part in
//! one: T (1 + min(1, r T) / 2) on average. That holds as long as what arrives during a write fits into the next. T
//! grows with x; so the smallest buffer that has the room, with a reserve for what arrives in bursts, is soonest.

use super::recommend::{Ties, typical};
use super::report::{Point, RunData};
use super::settings::Records;
use super::{apart, point_at};

/// Share of a buffer that what arrives during a write may fill.
const LOAD_MAX: f64 = 0.8;

/// From a record's arrival to its being durable, on average, in seconds, with `writers` that share the records; `None`
/// without a rate, and where this buffer cannot keep up.
pub(super) fn durable_s(point: &Point, records: &Records, writers: u32) -> Option<f64> {
    let rate = records.arrival_rate_per_s? / f64::from(writers);
    let room = (point.buffer_bytes / records.record_bytes) as f64;
    let (_, write_s) = typical(point);
    let arriving = rate * write_s;
    (arriving <= LOAD_MAX * room).then(|| write_s * (1.0 + arriving.min(1.0) / 2.0))
}

/// The point to use, and those that cannot be told from the best; `None` where no buffer keeps up.
pub(super) fn choose<'a>(
    points: &'a [Point],
    records: &Records,
    writers: u32,
    level: f64,
) -> Option<(&'a Point, Ties)> {
    let time = |point: &Point| durable_s(point, records, writers).unwrap_or(f64::INFINITY);
    let able: Vec<Point> = points.iter().filter(|point| time(point).is_finite()).cloned().collect();
    let best = (0..able.len()).min_by(|&a, &b| time(&able[a]).total_cmp(&time(&able[b])))?;
    let speed = |run: &RunData| run.latency_s.max(1e-12).recip();
    let below = apart::shown_below(&able, best, speed, level);
    let (chosen, ties) = Ties::of(&able, best, &below, |point| time(&able[best]) / time(point));
    Some((point_at(points, able[chosen].buffer_bytes)?, ties))
}

#[cfg(test)]
mod tests {
    use evenkeel_host::interrupt::Interrupt;

    use crate::probe::report::Rule;
    use crate::probe::settings::{Records, Settings};
    use crate::probe::tests::{PLAIN, VirtualStack, probe_of};

    /// Mean time to durability of records that arrive at even distances, under group commit with a buffer.
    fn simulated_s(fixed_s: f64, bandwidth: f64, buffer_bytes: u64, records: &Records) -> f64 {
        let rate = records.arrival_rate_per_s.unwrap();
        let write_s = fixed_s + buffer_bytes as f64 / bandwidth;
        let room = (buffer_bytes / records.record_bytes) as usize;
        let (mut waited_s, mut free_s) = (0.0, 0.0_f64);
        let arrivals: Vec<f64> = (0..20_000).map(|number| f64::from(number) / rate).collect();
        let mut next = 0;
        while next < arrivals.len() {
            let start_s = free_s.max(arrivals[next]);
            let batch =
                arrivals[next..].iter().take(room).take_while(|&&arrived_s| arrived_s <= start_s).count();
            free_s = start_s + write_s;
            waited_s += arrivals[next..next + batch].iter().map(|arrived_s| free_s - arrived_s).sum::<f64>();
            next += batch;
        }
        waited_s / arrivals.len() as f64
    }

    #[test]
    fn the_buffer_chosen_is_the_soonest_that_a_simulation_finds() {
        for (fixed_s, record_bytes, rate) in
            [(400e-6, 512, 20_000.0), (400e-6, 1024, 250_000.0), (8e-3, 256, 5_000.0), (50e-6, 4096, 100.0)]
        {
            let records = Records { record_bytes, arrival_rate_per_s: Some(rate) };
            let settings = Settings { records: Some(records), ..Settings::paper(PLAIN) };
            let mut stack = VirtualStack::new(fixed_s, 1e9);
            let report = probe_of(&settings, &mut stack, &Interrupt::default());
            let recommendation = report.recommendation.unwrap();
            assert_eq!(recommendation.rule, Rule::GroupCommit);
            let of = |size: u64| simulated_s(fixed_s, 1e9, size, &records);
            let soonest_s = settings.buffer_sizes.iter().map(|&size| of(size)).fold(f64::INFINITY, f64::min);
            let chosen_s = of(recommendation.buffer_bytes.unwrap());
            assert!(
                chosen_s < 1.1 * soonest_s,
                "{chosen_s} s, where {soonest_s} can be had: {recommendation:?}"
            );
            // What is said of it is what it is.
            let said_s = report.batching.unwrap().group_commit_durable_s.unwrap();
            assert!((said_s / chosen_s - 1.0).abs() < 0.1, "{said_s} said, {chosen_s} simulated");
        }
    }

    #[test]
    fn records_that_no_buffer_keeps_up_with_are_said_to_be_so() {
        let records = Records { record_bytes: 1024, arrival_rate_per_s: Some(2e6) };
        let settings = Settings { records: Some(records), ..Settings::paper(PLAIN) };
        let report = probe_of(&settings, &mut VirtualStack::new(400e-6, 1e9), &Interrupt::default());
        let recommendation = report.recommendation.unwrap();
        assert_eq!(recommendation.rule, Rule::BestRatio);
        assert!(recommendation.reason.ends_with("no measured buffer keeps up with 2000000 records/s"));
    }
}
