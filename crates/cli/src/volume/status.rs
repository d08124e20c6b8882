//! `evenkeel status`.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use evenkeel_host::service::events::state::{Reason, StateStatus};
use evenkeel_host::service::status::{ConversionStatus, LogCost, Status, WaiterStatus};
use evenkeel_host::volume::description::Description;
use evenkeel_host::volume::rescue::{Deprived, deprived_process};
use evenkeel_host::volume::{STATUS_SOCKET, has_waiting_writes, is_in_use, user_of};
use evenkeel_measure::report::format;

use super::status_mirror::{missing, of_mirror};
use super::{deprived, quoted, tune, watch};
use crate::args::StatusArgs;
use crate::failure::Failure;
use crate::stdout::{say, shown};
use crate::table::lay_out;

/// Of those that waited most, how many are shown.
const WAITERS_SHOWN: usize = 3;

/// Asks the volume's server, and prints its answer.
pub(crate) fn run(args: &StatusArgs) -> Result<(), Failure> {
    let (description, _) = Description::read(&args.volume).map_err(|error| match deprived(&error) {
        Some(line) => Failure::No(line),
        None => error.into(),
    })?;
    if args.watch {
        return watch::run(args, &description);
    }
    let status = Status::ask(&args.volume).map_err(|error| unanswered(&args.volume, &description, &error))?;
    say(&if args.json { status.to_json() } else { text(&status) })?;
    if let Some(reason) = &status.failure {
        return Err(Failure::No(format!("{}: it failed: {reason}", args.volume.display())));
    }
    if let Some(missing) = status.mirror.as_ref().and_then(|mirror| missing(&args.volume, mirror)) {
        return Err(Failure::No(missing));
    }
    let is_bad = matches!(status.state.name.as_str(), "damaged" | "degraded");
    match state(&status.state).into_iter().next().filter(|_| is_bad) {
        Some(worst) => Err(Failure::No(format!("{}: {worst}", args.volume.display()))),
        None => Ok(()),
    }
}

/// Why there is no status, and what to do.
pub(super) fn unanswered(volume: &Path, description: &Description, error: &io::Error) -> Failure {
    let shown_volume = volume.display();
    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
        return Failure::No(format!("{shown_volume}: its server does not answer; look whether it hangs"));
    }
    if !is_unserved(error) {
        return Failure::about(volume, format!("its server gives no status: {error}"));
    }
    if is_in_use(volume) {
        let process = user_of(volume);
        if let Some(found) = process.and_then(|process| deprived_process(process, volume)) {
            let Deprived { process, command } = found;
            return Failure::No(format!(
                "{shown_volume}: files of it were removed while process {process} serves it, and are lost when that ends: \
                 put all of them back, and then serve the volume anew: `{command}`"
            ));
        }
        let by = process.map(|process| format!(" by process {process}")).unwrap_or_default();
        return Failure::No(format!(
            "{shown_volume}: it is in use{by}, and nothing tells its state: its server is starting, or was started with \
             --salvage and said then what is damaged; or its socket {STATUS_SOCKET} was removed: stop it with SIGTERM \
             and serve the volume anew; or `check` or another command has it"
        ));
    }
    let waiting = match has_waiting_writes(volume, description) {
        Ok(true) => "; writes that were acknowledged wait in memory for the next start".to_owned(),
        Ok(false) => String::new(),
        Err(error) => format!("; {}", shown(error)),
    };
    Failure::No(format!(
        "{shown_volume}: it is not being served{waiting}; start it as before, with `evenkeel serve {0}`, or where it holds \
         files with `evenkeel mount {0} DIR`",
        quoted(volume)
    ))
}

/// Nobody listens, or a process that was just killed did.
pub(super) fn is_unserved(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, NotFound, UnexpectedEof};
    matches!(error.kind(), NotFound | ConnectionRefused | ConnectionReset | BrokenPipe | UnexpectedEof)
}

/// What is wrong, a line each, the worst first.
fn state(state: &StateStatus) -> Vec<String> {
    let told = |reason: &Reason| {
        let Reason { state, subject, what, ago_s, why } = reason;
        let why = why.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
        shown(format!("{state}: {subject} {what} {} ago{why}", format::duration(*ago_s)))
    };
    match state.reasons.is_empty() {
        true => vec![state.name.clone()],
        false => state.reasons.iter().map(told).collect(),
    }
}

/// What a durable write to the log takes.
fn log_cost(cost: &LogCost) -> String {
    let (latency, bytes) = (format::seconds(cost.latency_s), format::bytes_f64(cost.record_bytes as f64));
    let model = match (cost.fixed_s, cost.bytes_per_s, cost.batch_bytes) {
        (Some(fixed_s), Some(bytes_per_s), Some(batch_bytes)) => format!(
            "; l {}, B {}, l x B {}",
            format::seconds(fixed_s),
            format::rate(bytes_per_s),
            format::bytes_f64(batch_bytes)
        ),
        _ => String::new(),
    };
    format!("{latency} for a durable write of {bytes}{model}")
}

/// How far a conversion is.
fn converting(ConversionStatus { doing, done_bytes, all_bytes }: &ConversionStatus) -> String {
    // A stage of one step has nothing to measure.
    if *all_bytes <= 1 {
        return doing.clone();
    }
    let (done, all) = (*done_bytes as f64, *all_bytes as f64);
    let share = format::percent(done / all);
    format!("{doing}: {} of {} ({share})", format::bytes_f64(done), format::bytes_f64(all))
}

/// What `status` prints.
pub(super) fn text(status: &Status) -> String {
    let (volume, server, counters) = (&status.volume, &status.server, &status.counters);
    let mut text = format!(
        "{} of {}, layout {}, survives the loss of {}{}\n",
        shown(&volume.path),
        format::bytes(volume.size_bytes),
        volume.layout,
        format::counted(volume.losses_survived.into(), "member"),
        match &status.mirror {
            None => "",
            Some(mirror) if mirror.logs.is_empty() => " together with a power cut: its log is on them",
            Some(_) => " and as many log devices",
        }
    );
    let mut line =
        |name: &str, value: String| writeln!(text, "  {name:<10} {value}").expect("a string takes all");
    line(
        "served",
        format!(
            "for {} by process {} through {}, {}{}",
            format::duration(server.uptime_s),
            server.pid,
            server.backend,
            format::counted(server.connections, "connection"),
            if server.read_only { ", read-only" } else { "" }
        ),
    );
    for (number, said) in state(&status.state).into_iter().enumerate() {
        line(if number == 0 { "state" } else { "" }, said);
    }
    if let Some(conversion) = &status.conversion {
        line("converting", converting(conversion));
    }
    if let Some(tuned) = &status.tuned {
        line("tuned", shown(tune::said(tuned)));
    }
    let occupancy = &status.occupancy;
    let in_log = format!(", {} in all", format::bytes(occupancy.log_bytes));
    for (name, used, all, more) in [
        ("buffer", occupancy.buffer_used_bytes, occupancy.buffer_bytes, ""),
        ("log", occupancy.log_used_bytes, occupancy.log_max_bytes, in_log.as_str()),
        ("dirty", occupancy.dirty_bytes, occupancy.dirty_max_bytes, ""),
    ] {
        let share = format::percent(used as f64 / all.max(1) as f64);
        line(
            name,
            format!(
                "{} of {} ({share}){more}",
                format::bytes_f64(used as f64),
                format::bytes_f64(all as f64)
            ),
        );
    }
    let per_user = |bytes: u64| format::number(bytes as f64 / counters.user_bytes.max(1) as f64);
    if counters.user_bytes > 0 {
        line(
            "written",
            format!(
                "{} by clients; for each byte {} to the log, {} home",
                format::bytes_f64(counters.user_bytes as f64),
                per_user(counters.log_bytes),
                per_user(counters.home_bytes + counters.table_bytes)
            ),
        );
    }
    if counters.commits > 0 {
        let batch = counters.committed_units as f64 / counters.commits as f64;
        line(
            "commits",
            format!(
                "{} with {} writes each, {}",
                format::count(counters.commits),
                format::number(batch),
                format::counted(counters.checkpoints, "checkpoint")
            ),
        );
    }
    if let Some(cost) = &status.log_cost {
        line("log takes", log_cost(cost));
    }
    if let Some(it) = &status.file_system {
        line(
            "files",
            format!(
                "{} of {} free, and {} of {} inodes",
                format::bytes_f64(it.free_bytes as f64),
                format::bytes_f64(it.size_bytes as f64),
                format::count(it.free_inodes),
                format::count(it.inodes)
            ),
        );
        let (count, latency) = (it.fsyncs.max(1) as f64, &it.fsync_latency_s);
        let text = format!(
            "{}, {} a second lately; 99 % below {}; {} of data and {} of metadata written for each",
            format::count(it.fsyncs),
            format::number(it.fsyncs_per_s),
            format::seconds(latency.p99),
            format::bytes_f64((it.data_bytes + it.written_bytes) as f64 / count),
            format::bytes_f64(it.metadata_bytes as f64 / count)
        );
        line("fsyncs", if it.fsyncs > 0 { text } else { "none so far".to_owned() });
        let waiter = |it: &WaiterStatus| {
            let program = it.program.as_deref().map_or_else(|| "gone by now".to_owned(), shown);
            format!(
                "{program} ({}) {} in {}",
                it.thread,
                format::seconds(it.waited_s),
                format::count(it.fsyncs)
            )
        };
        if !it.waiters.is_empty() {
            let most: Vec<String> = it.waiters.iter().take(WAITERS_SHOWN).map(waiter).collect();
            line("waited most", most.join(", "));
        }
    }
    if let Some(reason) = &status.failure {
        line("FAILED", shown(reason));
    }
    if let Some(mirror) = &status.mirror {
        text.push_str(&of_mirror(mirror));
    }
    let rows: Vec<[String; 6]> = status
        .requests
        .iter()
        .map(|kind| {
            let latency = &kind.latency_s;
            [
                kind.kind.replace('_', " "),
                format::count(kind.requests),
                format::count(kind.errors),
                format::seconds(latency.mean),
                format::seconds(latency.p50),
                format::seconds(latency.p99),
            ]
        })
        .collect();
    if !rows.is_empty() {
        text.push_str(&lay_out(
            ["requests", "answered", "errors", "mean", "half below", "99 % below"],
            &rows,
        ));
    }
    text
}
