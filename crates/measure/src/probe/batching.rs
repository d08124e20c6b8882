//! A recommended buffer in terms of the user's records: how many fit, how long they wait.

use super::group_commit;
use super::point_at;
use super::report::{Batching, Model, Point, Recommendation};
use super::settings::Settings;

/// `None` without a record size or a recommended buffer, and where a record does not fit the buffer.
///
/// Two ways of batching are answered. Filling: a batch of n records is written when it is full; at rate r
/// it takes n/r to fill, and a record waits (n - 1) / (2 r) on average. Group commit: what arrives during
/// one write is the next write's batch; where a write of x bytes takes l + x/B, the batch settles at
/// n = r (l + n d / B) records of d bytes, so n = r l / (1 - r d / B), and at least one.
pub(super) fn in_records(
    settings: &Settings,
    chosen: &Recommendation,
    points: &[Point],
    model: Option<&Model>,
) -> Option<Batching> {
    let records = settings.records?;
    let buffer_bytes = chosen.buffer_bytes?;
    let point = point_at(points, buffer_bytes)?;
    let records_per_batch = buffer_bytes / records.record_bytes;
    if records_per_batch == 0 {
        return None;
    }
    let rate = records.arrival_rate_per_s;
    // The records are shared among the writers, each of which fills batches of its own.
    let writer_rate = rate.map(|rate| rate / f64::from(settings.writers));
    let mean_wait_s = writer_rate.map(|rate| (records_per_batch - 1) as f64 / (2.0 * rate));
    // Each write carries whole records only.
    let carried_bytes_per_s = point.throughput_bytes_per_s.mean
        * (records_per_batch * records.record_bytes) as f64
        / buffer_bytes as f64;
    let group_commit_records = writer_rate.zip(model).and_then(|(rate, model)| {
        let load = rate * records.record_bytes as f64 / model.bandwidth_bytes_per_s;
        (load < 1.0).then(|| (rate * model.fixed_latency_s / (1.0 - load)).max(1.0))
    });
    Some(Batching {
        record_bytes: records.record_bytes,
        records_per_batch,
        arrival_rate_per_s: rate,
        fill_time_s: writer_rate.map(|rate| records_per_batch as f64 / rate),
        mean_wait_s,
        mean_durable_s: mean_wait_s.map(|wait_s| wait_s + point.latency_s.mean),
        utilisation: rate.map(|rate| rate * records.record_bytes as f64 / carried_bytes_per_s),
        group_commit_records,
        group_commit_durable_s: group_commit::durable_s(point, &records, settings.writers),
    })
}
