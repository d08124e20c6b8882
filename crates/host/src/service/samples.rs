//! Status documents for tests.

use super::latencies::{Latency, Requests};
use super::scrape::Scrape;
use super::status::Status;
use crate::front::statistics::Statistics;

/// A volume that was just opened, and that nobody asked for anything.
pub(super) fn status() -> Status {
    let text = r#"{
        "schema": "evenkeel.status/1",
        "volume": { "path": "disk", "id": "17", "layout": "single", "size_bytes": 33554432, "atomic_max_bytes": 16384,
            "home": "home", "log": "log", "losses_survived": 0 },
        "server": { "pid": 4711, "uptime_s": 1.0, "backend": "threads", "read_only": false, "connections": 0,
            "connections_accepted": 0, "connections_refused": 0, "in_flight_bytes": 0, "in_flight_peak_bytes": 0,
            "in_flight_max_bytes": 0 },
        "failure": null,
        "chosen": { "journaling": "wasteless", "threshold_bytes": null, "batch_max_bytes": 1048576,
            "commits_in_flight_max": 4, "cache_bytes": 4096, "durable_way": "dsync" },
        "occupancy": { "buffer_used_bytes": 0, "buffer_bytes": 1024, "log_used_bytes": 0, "log_max_bytes": 1024,
            "log_bytes": 2048, "dirty_bytes": 0, "dirty_max_bytes": 1024, "pages_bytes": 0, "pages_peak_bytes": 0,
            "table_bytes": 0, "pages_max_bytes": 1024 },
        "counters": {},
        "requests": []
    }"#;
    serde_json::from_str(text).unwrap()
}

/// So many requests of this kind in each bucket, of 4 KiB each.
pub(super) fn requests(kind: &str, latency_counts: &[u64]) -> Requests {
    let requests = latency_counts.iter().fold(0_u64, |sum, count| sum.saturating_add(*count));
    Requests {
        kind: kind.to_owned(),
        requests,
        errors: 0,
        bytes: requests.saturating_mul(4096),
        latency_s: Latency { mean: 0.0, p50: 0.0, p99: 0.0, p999: 0.0 },
        latency_counts: latency_counts.to_vec(),
    }
}

/// A moment of that volume.
pub(super) fn scrape() -> Scrape {
    Scrape {
        document: status(),
        statistics: Statistics::default(),
        event_counts: Vec::new(),
        removed_files: 0,
        moved_files: 0,
        commits_wait_s: 0.0,
    }
}
