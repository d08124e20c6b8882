//! What a watch shows, as text: a pure function of documents.

use evenkeel_host::service::recent::{Activity, Recent};
use evenkeel_host::service::status::Status;
use evenkeel_measure::report::format;

use crate::table::lay_out;

/// Each column of a line, and how wide it is.
const COLUMNS: [(&str, usize); 11] = [
    ("UTC", 8),
    ("reads/s", 9),
    ("99%below", 8),
    ("writes/s", 9),
    ("99%below", 8),
    ("fsyncs/s", 9),
    ("99%below", 8),
    ("commits/s", 9),
    ("batch", 6),
    ("log", 6),
    ("state", 0),
];

/// What stands above lines.
pub(super) fn header() -> String {
    row(COLUMNS.map(|(name, _)| name.to_owned()))
}

/// One interval in a line.
pub(super) fn line(unix_s: u64, recent: &Recent, status: &Status) -> String {
    let Recent { reads, writes, syncs, .. } = recent;
    let second = unix_s % 86_400;
    let occupancy = &status.occupancy;
    row([
        format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60),
        per_s(reads.per_s),
        below(reads.p99_s),
        per_s(writes.per_s),
        below(writes.p99_s),
        per_s(syncs.per_s),
        below(syncs.p99_s),
        per_s(recent.commits_per_s),
        recent.writes_per_commit.map_or_else(none, format::number),
        format::percent(occupancy.log_used_bytes as f64 / occupancy.log_max_bytes.max(1) as f64),
        status.state.name.clone(),
    ])
}

fn row(cells: [String; COLUMNS.len()]) -> String {
    let padded = cells.iter().zip(COLUMNS).map(|(cell, (_, width))| format!("{cell:>width$}"));
    padded.collect::<Vec<_>>().join("  ") + "\n"
}

/// One interval as a table.
pub(super) fn table(recent: Option<&Recent>) -> String {
    // What is not known yet takes the room of what will be.
    let Some(recent) = recent else {
        return format!("The first interval is not over yet.{}", "\n".repeat(6));
    };
    let activity = |name: &str, it: &Activity| {
        [
            name.to_owned(),
            per_s(it.per_s),
            format!("{}/s", format::bytes_f64(it.bytes_per_s)),
            per_s(it.errors_per_s),
            below(it.p50_s),
            below(it.p99_s),
            below(it.p999_s),
        ]
    };
    let rows = [
        activity("reads", &recent.reads),
        activity("writes", &recent.writes),
        activity("fsyncs", &recent.syncs),
    ];
    let over = format!("in {}", format::seconds(recent.over_s));
    let header = [&over, "a second", "bytes", "errors/s", "half below", "99 % below", "99.9 % below"];
    let table = lay_out(header, &rows);
    let batch = recent
        .writes_per_commit
        .map_or_else(String::new, |writes| format!(" with {} writes each", format::number(writes)));
    format!(
        "{table}{} commits a second{batch}, {} checkpoints; {}/s to the log, {}/s home\n\
         latencies are bounds, each a power of two of nanoseconds: the truth may be half as long\n",
        per_s(recent.commits_per_s),
        per_s(recent.checkpoints_per_s),
        format::bytes_f64(recent.log_bytes_per_s),
        format::bytes_f64(recent.home_bytes_per_s),
    )
}

fn per_s(rate: f64) -> String {
    if rate < 10.0 { format::number_short(rate) } else { format::count(rate.round() as u64) }
}

fn below(bound_s: Option<f64>) -> String {
    bound_s.map_or_else(none, format::seconds)
}

/// Where there is no figure.
fn none() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recent() -> Recent {
        let reads =
            Activity { per_s: 12_345.4, bytes_per_s: 4096.0, p99_s: Some(131_072e-9), ..Activity::default() };
        Recent {
            over_s: 1.0,
            reads,
            writes: Activity::default(),
            syncs: Activity { per_s: 0.5, ..Activity::default() },
            commits_per_s: 40.0,
            writes_per_commit: Some(8.25),
            checkpoints_per_s: 0.0,
            log_bytes_per_s: 8192.0,
            home_bytes_per_s: 0.0,
        }
    }

    #[test]
    fn rates_are_whole_where_they_are_large_and_what_was_not_measured_is_no_zero() {
        let table = super::table(Some(&recent()));
        let cells = |name: &str| {
            let line = table.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
            line.split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(cells("reads"), ["reads", "12,345", "4 KiB/s", "0", "-", "131 us", "-"]);
        assert_eq!(cells("fsyncs"), ["fsyncs", "0.5", "0 B/s", "0", "-", "-", "-"]);
        assert!(
            table.contains("40 commits a second with 8.25 writes each, 0 checkpoints; 8 KiB/s to the log"),
            "{table}"
        );
    }

    #[test]
    fn what_is_not_known_yet_takes_the_room_of_what_will_be() {
        assert_eq!(super::table(None).lines().count(), table(Some(&recent())).lines().count());
    }

    #[test]
    fn the_cells_of_a_line_stand_under_their_names() {
        let text = r#"{ "schema": "", "volume": { "path": "", "id": "", "layout": "", "size_bytes": 1, "atomic_max_bytes": 1,
            "home": "", "log": "", "losses_survived": 0 }, "server": { "pid": 1, "uptime_s": 1, "backend": "",
            "read_only": false, "connections": 0, "connections_accepted": 0, "connections_refused": 0, "in_flight_bytes": 0,
            "in_flight_peak_bytes": 0, "in_flight_max_bytes": 0 }, "state": { "name": "slow", "reasons": [] },
            "failure": null, "chosen": { "journaling": "", "threshold_bytes": null, "batch_max_bytes": 1,
            "commits_in_flight_max": 1, "cache_bytes": 1, "durable_way": "" }, "occupancy": { "buffer_used_bytes": 0,
            "buffer_bytes": 1, "log_used_bytes": 30, "log_max_bytes": 100, "log_bytes": 200, "dirty_bytes": 0,
            "dirty_max_bytes": 1, "pages_bytes": 0, "pages_peak_bytes": 0, "table_bytes": 0, "pages_max_bytes": 1 },
            "counters": {}, "requests": [] }"#;
        let (header, line) =
            (header(), line(86_400 + 3_723, &recent(), &serde_json::from_str(text).unwrap()));
        for (name, cell) in [
            ("UTC", "01:02:03"),
            ("reads/s", "12,345"),
            ("99%below", "131 us"),
            ("fsyncs/s", "0.5"),
            ("batch", "8.25"),
            ("log", "30 %"),
        ] {
            let end_of = |text: &str, what: &str| text.find(what).map(|at| at + what.len());
            assert_eq!(end_of(&header, name), end_of(&line, cell), "{name}\n{header}{line}");
        }
        assert_eq!(header.find("state"), line.find("slow"));
    }
}
