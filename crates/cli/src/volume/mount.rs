//! `evenkeel mount`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use evenkeel_host::conditions::memory;
use evenkeel_host::front::fuse::format::MountOptions;
use evenkeel_host::front::fuse::{FuseSetup, Transport};
use evenkeel_host::net::SocketAccess;
use evenkeel_host::program::is_root;
use evenkeel_host::service::{self, Event, Options, ScrubOptions};
use evenkeel_host::volume::description::Description;
use evenkeel_host::volume::member::Place;
use evenkeel_measure::report::format;

use super::advice::advise;
use super::serve::{
    STRAIGHT_HOME_BYTES, converted_options, cpu_latency, run_options, said_of_sites, selective,
    selective_from, told_end,
};
use super::serve_limits::check_values;
use super::{create, event_loop, recovered};
use crate::args::{HttpArgs, MountArgs, MountOptionArg, RejoinArg};
use crate::failure::Failure;
use crate::logging;
use crate::stdout::{announce, shown};

/// The shortest time after which what nobody makes durable is made durable.
const COMMIT_EVERY_MIN_S: f64 = 0.1;

/// How far the kernel reads ahead where pages come from another process or machine. Eight requests of the longest kind are
/// under way then. From a file the kernel reads ahead itself.
const READ_AHEAD_BYTES: u64 = 1 << 20;

/// What is chosen for data that nobody has synced: a tenth of what is free, between these.
const WRITE_BACK_BYTES: std::ops::RangeInclusive<u64> = 64 << 20..=1 << 30;

/// Least memory for such data.
const WRITE_BACK_MIN_BYTES: u64 = 1 << 20;

/// Memory for data that nobody has synced.
fn write_back_bytes(wanted_bytes: Option<u64>) -> Result<usize, Failure> {
    let free_bytes = memory::available_bytes();
    let bytes = match wanted_bytes {
        Some(bytes) if bytes < WRITE_BACK_MIN_BYTES => {
            return Err(Failure::Unusable(format!("--write-back {bytes}: choose 1m at least, such as 256m")));
        }
        Some(bytes) if free_bytes.is_some_and(|free_bytes| bytes > free_bytes) => {
            let (wanted, free) = (bytes as f64, free_bytes.unwrap_or_default() as f64);
            let (wanted, free) = (format::bytes_f64(wanted), format::bytes_f64(free));
            return Err(Failure::Unusable(format!(
                "--write-back {wanted}: {free} of memory are free; choose less, such as 256m"
            )));
        }
        Some(bytes) => bytes,
        None => {
            let tenth_bytes = free_bytes.unwrap_or_default() / 10;
            tenth_bytes.clamp(*WRITE_BACK_BYTES.start(), *WRITE_BACK_BYTES.end())
        }
    };
    Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
}

/// Mounts a volume until it is unmounted, or a signal comes.
pub(crate) fn run(args: &MountArgs) -> Result<(), Failure> {
    logging::begin(args.log_format, args.log_level, &args.volume);
    let (setup, options) = prepare(args)?;
    evenkeel_host::allocator::give_back_what_is_large();
    evenkeel_host::writeback::serves_writeback();
    let event_loop = event_loop(setup.backend())?;
    let at = args.mount_point.clone();
    let tell = move |event: Event<'_>| match event {
        Event::Ready { volume, metrics, http, .. } => {
            let _no_service_manager = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
            announce(recovered(volume.recovered) + &said_of_mount(&at, metrics, http));
        }
        Event::Stopping => {
            let _no_service_manager = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
        }
    };
    let handle = event_loop.handle();
    let ended = event_loop.block_on(service::run(&handle, &args.volume, setup, options, tell));
    told_end(&args.volume, ended)
}

/// Where it is mounted, and what answers over HTTP, a line each.
pub(super) fn said_of_mount(at: &Path, metrics: Option<SocketAddr>, http: Option<SocketAddr>) -> String {
    format!("ready: mounted on {}\n{}", shown(at.display()), said_of_sites(metrics, http))
}

/// Where a folder is, or will be, without links as far as it is there.
fn canonical(folder: &Path) -> PathBuf {
    let parent =
        folder.parent().map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent });
    let to_be = || Some(parent?.canonicalize().ok()?.join(folder.file_name()?));
    folder.canonicalize().ok().or_else(to_be).unwrap_or_else(|| folder.to_owned())
}

/// What is to be mounted, and how. Makes the volume first where that is asked for.
pub(super) fn prepare(args: &MountArgs) -> Result<(FuseSetup, Options), Failure> {
    let Settings { cache, write_back, commit_every_s, cpu_latency_s, transport, metrics, http } =
        Settings::of(args);
    check_values(&args.mirror, cache)?;
    if !(COMMIT_EVERY_MIN_S..=3600.0).contains(&commit_every_s) {
        return Err(Failure::Unusable("--commit-every: choose from 100ms to 1h, such as 5s".to_owned()));
    }
    let write_back_bytes = write_back_bytes(write_back)?;
    let has = |option| args.options.contains(&option);
    if let Some(size_bytes) = args.create {
        let folder = canonical(&args.volume);
        if args.mount_point.canonicalize().is_ok_and(|at| at == folder) {
            let what = "the volume's own folder cannot be mounted on; name another";
            return Err(Failure::about(&args.mount_point, what));
        }
        let source = folder.display().to_string();
        FuseSetup::check_mount_point(&args.mount_point, &source, has(MountOptionArg::NonEmpty))?;
        create::with_file_system(&args.volume, size_bytes)?;
    }
    let is_read_only = has(MountOptionArg::ReadOnly);
    if is_read_only && has(MountOptionArg::ReadWrite) {
        return Err(Failure::Unusable("-o ro,rw: choose one of the two".to_owned()));
    }
    let journaling = selective(&args.volume, None)?;
    let mut open = run_options(&args.volume, journaling, cache, &args.mirror)?;
    let mut open_converted =
        converted_options(selective_from(Some(STRAIGHT_HOME_BYTES)), cache, &args.mirror);
    for run in [&mut open, &mut open_converted.single, &mut open_converted.ring] {
        // The kernel keeps what it read of files.
        run.volume.tuning.system_keeps_long_reads = false;
    }
    let (description, _) = Description::read(&args.volume)?;
    // Where its drives keep their room, being told of free blocks would take more of the volume than it gives.
    let discards = description.members.iter().any(|member| member.sparse);
    let comes_from_exports = description.members.iter().any(|member| matches!(member.place, Place::Nbd(_)));
    let mut file_system =
        MountOptions { discards, dirty_bytes_max: write_back_bytes, ..MountOptions::default() };
    if let Some(bytes) = cache {
        file_system.cache_bytes = usize::try_from(bytes / 2).unwrap_or(usize::MAX);
    }
    let flags = args.options.iter().filter_map(|option| match option {
        MountOptionArg::Flag(flag) => Some(*flag),
        _ => None,
    });
    let source = args.volume.canonicalize().unwrap_or_else(|_| args.volume.clone());
    let setup = FuseSetup {
        mount_point: args.mount_point.clone(),
        source: source.display().to_string(),
        covers_files: has(MountOptionArg::NonEmpty),
        is_for_all: has(MountOptionArg::AllowOther) || is_root(),
        flags: flags.collect(),
        file_system,
        commit_every_ns: (commit_every_s * 1e9) as u64,
        transport,
        read_ahead_bytes: comes_from_exports.then_some(READ_AHEAD_BYTES),
    };
    let options = Options {
        clients: Vec::new(),
        access: SocketAccess { mode: None, group: None },
        metrics,
        http: http.options(),
        read_only: is_read_only,
        open,
        open_converted,
        // The kernel keeps what programs read of files.
        cache_follows_memory: false,
        cpu_latency: cpu_latency(cpu_latency_s)?,
        scrub: ScrubOptions {
            every_s: args.mirror.scrub_every.0,
            bytes_per_s: args.mirror.scrub_rate as u64,
        },
        rejoins: args.mirror.rejoin == RejoinArg::Auto,
        signals: None,
        tell_end: logging::tell_last_words,
        advise,
    };
    Ok((setup, options))
}

/// What flags and options say of the same.
struct Settings {
    cache: Option<u64>,
    write_back: Option<u64>,
    commit_every_s: f64,
    cpu_latency_s: Option<f64>,
    transport: Transport,
    metrics: Option<String>,
    http: HttpArgs,
}

impl Settings {
    /// An option counts more than a flag, and the last one most.
    fn of(args: &MountArgs) -> Self {
        let mut settings = Self {
            cache: args.cache,
            write_back: args.write_back,
            commit_every_s: args.commit_every,
            cpu_latency_s: args.cpu_latency,
            transport: args.transport.into(),
            metrics: args.metrics.clone(),
            http: args.http.clone(),
        };
        for option in &args.options {
            match option {
                MountOptionArg::Cache(bytes) => settings.cache = Some(*bytes),
                MountOptionArg::WriteBack(bytes) => settings.write_back = Some(*bytes),
                MountOptionArg::CommitEvery(seconds) => settings.commit_every_s = *seconds,
                MountOptionArg::CpuLatency(seconds) => settings.cpu_latency_s = Some(*seconds),
                MountOptionArg::Transport(it) => settings.transport = (*it).into(),
                MountOptionArg::Metrics(place) => settings.metrics = Some(place.clone()),
                MountOptionArg::Http(place) => settings.http.http = Some(place.clone()),
                _ => {}
            }
        }
        settings
    }
}
