//! The status for Prometheus, in its text format.

use std::fmt::Write as _;

use super::events::state::StateStatus;
use super::mirror_status::{MemberStatus, MirrorStatus};
use super::scrape::Scrape;
use super::status::FileSystemStatus;
use crate::front::statistics::{CommandKind, CommandStatistics, Statistics};

/// Buckets of latencies that are told: from 2 µs to 34 s.
const BUCKETS: std::ops::RangeInclusive<usize> = 10..=34;

/// What a scrape gets.
pub(super) fn render(scrape: &Scrape) -> String {
    let document = &scrape.document;
    let mut out = String::new();
    for (name, help, value) in document.counters.each() {
        // Prometheus counts time in seconds.
        match (name.strip_suffix("_ns"), help.strip_suffix(", in ns.")) {
            (Some(name), Some(help)) => {
                let (name, help) = (format!("{name}_seconds_total"), format!("{help}, in seconds."));
                write_metric(&mut out, &name, "counter", &help, value as f64 / 1e9);
            }
            _ => write_metric(&mut out, &format!("{name}_total"), "counter", help, value as f64),
        }
    }
    let occupancy = &document.occupancy;
    let server = &document.server;
    for (name, help, value) in [
        ("connections_accepted_total", "Connections so far.", server.connections_accepted),
        (
            "connections_refused_total",
            "Connections turned away: all places were taken.",
            server.connections_refused,
        ),
        (
            "connections_evicted_total",
            "Connections ended in their handshake to make room for others.",
            server.connections_evicted,
        ),
    ] {
        write_metric(&mut out, name, "counter", help, value as f64);
    }
    for (name, help, value) in [
        ("buffer_used_bytes", "Bytes of writes that are not durable.", occupancy.buffer_used_bytes),
        ("buffer_size_bytes", "Bytes that there may be of them.", occupancy.buffer_bytes),
        ("log_used_bytes", "Bytes of the log in use.", occupancy.log_used_bytes),
        ("log_max_bytes", "Bytes of the log that commits may fill.", occupancy.log_max_bytes),
        ("log_size_bytes", "Bytes of the log.", occupancy.log_bytes),
        ("dirty_bytes", "Bytes of pages that are in the log and not home.", occupancy.dirty_bytes),
        ("pages_bytes", "Bytes of pages in memory.", occupancy.pages_bytes),
        ("pages_peak_bytes", "The most there were.", occupancy.pages_peak_bytes),
        ("table_bytes", "Bytes of the table of sums in memory.", occupancy.table_bytes),
        ("pages_max_bytes", "Bytes of pages that there may be in memory.", occupancy.pages_max_bytes),
        ("connections", "Connections now.", server.connections),
        ("requests_in_flight_bytes", "Bytes of requests not answered yet.", server.in_flight_bytes),
        ("requests_in_flight_peak_bytes", "The most there were.", server.in_flight_peak_bytes),
        ("requests_in_flight_max_bytes", "As many as there may be.", server.in_flight_max_bytes),
        (
            "losses_survived",
            "Members, and as many log devices, that may go now.",
            document.volume.losses_survived.into(),
        ),
        ("failed", "1 once the volume takes no writes any more.", u64::from(document.failure.is_some())),
    ] {
        write_metric(&mut out, name, "gauge", help, value as f64);
    }
    write_head(&mut out, "state", "gauge", "1 for the state that the volume is in, 0 for the others.");
    for name in StateStatus::NAMES {
        let value = u8::from(document.state.name == name);
        writeln!(out, "evenkeel_state{{state=\"{name}\"}} {value}").expect("as above");
    }
    write_head(&mut out, "events_total", "counter", "What an operator should hear of, by its kind.");
    for (event, count) in &scrape.event_counts {
        writeln!(out, "evenkeel_events_total{{event=\"{event}\"}} {count}").expect("as above");
    }
    write_metric(&mut out, "uptime_seconds", "gauge", "Since the volume was opened.", server.uptime_s);
    let help = "Members and log devices whose file was removed while it is in use.";
    write_metric(&mut out, "removed_files", "gauge", help, scrape.removed_files as f64);
    let help = "Members and log devices whose path leads to another file than the one in use, or to none.";
    write_metric(&mut out, "moved_files", "gauge", help, scrape.moved_files as f64);
    let help = "For how long commits have been waiting for room in the log; 0 where they do not.";
    write_metric(&mut out, "commits_wait_seconds", "gauge", help, scrape.commits_wait_s);
    let help = "What half of the durable writes to the log take at most, of the size there were most of lately; alone.";
    let log_write_s = document.log_cost.map_or(f64::NAN, |cost| cost.latency_s);
    write_metric(&mut out, "log_write_seconds", "gauge", help, log_write_s);
    if let Some(file_system) = &document.file_system {
        write_file_system(&mut out, file_system);
    }
    if let Some(mirror) = &document.mirror {
        write_members(&mut out, mirror);
    }
    write_requests(&mut out, &scrape.statistics);
    out
}

/// How full a mounted file system is, and what it does; how long its fsyncs take is told of all requests.
fn write_file_system(out: &mut String, it: &FileSystemStatus) {
    for (name, kind, help, value) in [
        ("size_bytes", "gauge", "Bytes of blocks of the file system, without its tables.", it.size_bytes),
        ("free_bytes", "gauge", "Bytes of free ones.", it.free_bytes),
        ("available_bytes", "gauge", "Bytes of those of them that anybody may take.", it.available_bytes),
        ("inodes", "gauge", "Inodes of the file system.", it.inodes),
        ("free_inodes", "gauge", "Free ones.", it.free_inodes),
        ("dirty_bytes", "gauge", "Bytes of data of files that are not committed.", it.dirty_bytes),
        ("known_files", "gauge", "Files in memory.", it.known_files),
        ("fsyncs_total", "counter", "Calls of fsync and fdatasync answered.", it.fsyncs),
        ("commits_total", "counter", "Commits of the file system.", it.commits),
        ("data_bytes_total", "counter", "Bytes of data that they carried.", it.data_bytes),
        ("metadata_bytes_total", "counter", "Bytes of metadata that they carried.", it.metadata_bytes),
        (
            "written_bytes_total",
            "counter",
            "Bytes of data that were written to their blocks before a commit.",
            it.written_bytes,
        ),
    ] {
        write_metric(out, &format!("file_system_{name}"), kind, help, value as f64);
    }
}

/// What a mirror's members and log devices do.
fn write_members(out: &mut String, mirror: &MirrorStatus) {
    let number = |truth: bool| f64::from(u8::from(truth));
    type Of<T> = fn(&T, &dyn Fn(bool) -> f64) -> f64;
    let of_members: [(&str, &str, &str, Of<MemberStatus>); 14] = [
        ("member_in_sync", "gauge", "1 where it holds everything.", |it, number| {
            number(it.standing == "in-sync")
        }),
        ("member_reading", "gauge", "1 where it only reads now.", |it, number| {
            number(it.standing == "in-sync" && it.role == "reading")
        }),
        ("member_slow", "gauge", "1 where it was much slower than the others for a minute.", |it, number| {
            number(it.slow)
        }),
        ("member_queued_bytes", "gauge", "Bytes that wait for its turn.", |it, _| it.queued_bytes as f64),
        ("member_rebuild_done_bytes", "gauge", "Bytes that a rebuild has copied to it.", |it, _| {
            it.rebuild_done_bytes.unwrap_or(0) as f64
        }),
        (
            "member_rebuild_size_bytes",
            "gauge",
            "Bytes that it is to copy; 0 where none is under way.",
            |it, _| it.rebuild_size_bytes.unwrap_or(0) as f64,
        ),
        (
            "member_rebuild_damaged_pages",
            "gauge",
            "Pages that no member held as they should be when it was rebuilt.",
            |it, _| it.rebuild_damaged_pages as f64,
        ),
        ("member_away_seconds", "gauge", "Since it was lost; 0 where it takes part.", |it, _| {
            it.away_s.unwrap_or(0.0)
        }),
        (
            "member_lacks_bytes",
            "gauge",
            "Bytes of the regions that it lacks at most, where it is away and need not be rebuilt whole.",
            |it, _| if it.standing == "in-sync" { 0.0 } else { it.lacks_bytes.unwrap_or(0) as f64 },
        ),
        ("member_copied_bytes_total", "counter", "Bytes that rebuilds copied to it.", |it, _| {
            it.copied_bytes as f64
        }),
        ("member_read_bytes_total", "counter", "Bytes read from it.", |it, _| it.read_bytes as f64),
        ("member_written_bytes_total", "counter", "Bytes written to it.", |it, _| it.written_bytes as f64),
        ("member_turns_total", "counter", "Turns of writing that it had.", |it, _| it.turns as f64),
        (
            "member_drain_bytes_per_second",
            "gauge",
            "Bytes that it took in a second in which it had something to write, lately.",
            |it, _| it.drain_bytes_per_s as f64,
        ),
    ];
    for (name, kind, help, value) in of_members {
        write_head(out, name, kind, help);
        for (place, member) in mirror.members.iter().enumerate() {
            let value = value(member, &number);
            writeln!(out, "evenkeel_{name}{{member=\"{place}\"}} {value}").expect("as above");
        }
    }
    write_head(out, "member_info", "gauge", "Always 1: where it is, by its place.");
    for (place, member) in mirror.members.iter().enumerate() {
        let path = label(&member.path);
        writeln!(out, "evenkeel_member_info{{member=\"{place}\",path=\"{path}\"}} 1").expect("as above");
    }
    write_head(out, "log_device_info", "gauge", "Always 1: where it is, by its place.");
    for (place, log) in mirror.logs.iter().enumerate() {
        let path = label(&log.path);
        writeln!(out, "evenkeel_log_device_info{{log=\"{place}\",path=\"{path}\"}} 1").expect("as above");
    }
    write_head(out, "log_device_in_sync", "gauge", "1 where it holds everything.");
    for (place, log) in mirror.logs.iter().enumerate() {
        let value = number(log.standing == "in-sync");
        writeln!(out, "evenkeel_log_device_in_sync{{log=\"{place}\"}} {value}").expect("as above");
    }
    let scrub = &mirror.scrub;
    for (name, kind, help, value) in [
        ("scrub_copies_total", "counter", "Copies of pages that scrubs looked at.", scrub.copies_checked),
        ("scrub_mended_total", "counter", "Copies that were wrong, and were repaired.", scrub.mended_copies),
        ("scrub_damaged_pages", "gauge", "Pages of which no copy was right.", scrub.damaged_pages),
    ] {
        write_metric(out, name, kind, help, value as f64);
    }
}

/// The value of a label, as the format has it.
fn label(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

fn write_head(out: &mut String, name: &str, kind: &str, help: &str) {
    writeln!(out, "# HELP evenkeel_{name} {help}\n# TYPE evenkeel_{name} {kind}")
        .expect("a string takes all");
}

fn write_metric(out: &mut String, name: &str, kind: &str, help: &str, value: f64) {
    write_head(out, name, kind, help);
    writeln!(out, "evenkeel_{name} {value}").expect("as above");
}

/// What clients asked for: the same lines from the first scrape on, whatever they ask for.
fn write_requests(out: &mut String, statistics: &Statistics) {
    for (name, help, of_kind) in [
        ("requests", "Requests answered.", (|of| of.requests) as fn(&CommandStatistics) -> u64),
        ("request_errors", "Requests answered with an error.", |of| of.errors),
    ] {
        write_head(out, &format!("{name}_total"), "counter", help);
        for kind in CommandKind::ALL {
            let (command, value) = (kind.name(), of_kind(statistics.of(kind)));
            writeln!(out, "evenkeel_{name}_total{{command=\"{command}\"}} {value}").expect("as above");
        }
    }
    let help = "From a request's last byte to its reply's first, of requests that were not refused.";
    write_head(out, "request_seconds", "histogram", help);
    for kind in CommandKind::ALL {
        let (command, of) = (kind.name(), statistics.of(kind));
        let name = format!("evenkeel_request_seconds_bucket{{command=\"{command}\"");
        for bucket in BUCKETS {
            let below: u64 = of.latency[..=bucket].iter().sum();
            let bound_s = (2_u64 << bucket) as f64 / 1e9;
            writeln!(out, "{name},le=\"{bound_s}\"}} {below}").expect("as above");
        }
        let (timed, sum_s) = (of.timed(), of.latency_sum_ns as f64 / 1e9);
        writeln!(
            out,
            "{name},le=\"+Inf\"}} {timed}\n\
             evenkeel_request_seconds_sum{{command=\"{command}\"}} {sum_s}\n\
             evenkeel_request_seconds_count{{command=\"{command}\"}} {timed}"
        )
        .expect("as above");
    }
}
