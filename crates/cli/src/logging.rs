//! Events of a server as lines on standard error.
//!
//! 1. One event is one line: text that begins with time and level, JSON, or text that begins with its priority as the
//!    system's journal takes it (sd-daemon(3)). The journal is told priorities without being asked for it.
//! 2. A line that nobody takes at once is dropped: clients do not wait for it.

use std::fmt;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use evenkeel_host::standard_error;
use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{Format, Json, JsonFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

use crate::args::{LogFormatArg, LogLevelArg};
use crate::failure::Failure;
use crate::stdout::{mention, shown};

/// Whether whoever reads standard error takes each line for an event.
static TAKES_EVENTS_ONLY: AtomicBool = AtomicBool::new(false);

/// Which volume the events are about; of several, which folder of descriptions.
static VOLUME: OnceLock<String> = OnceLock::new();

/// What is said where the memory of acknowledged writes cannot be had.
const MEMORY_FAULT: &str = "ended by SIGBUS: memory that is mapped from a file could not be had, as where somebody cut short \
                            the arena of acknowledged writes; what was acknowledged and not flushed may be gone: serve the \
                            volume anew";

/// From here on events of the volume in `folder` are lines on standard error.
pub(crate) fn begin(format: LogFormatArg, level: LogLevelArg, folder: &Path) {
    let _already_begun = VOLUME.set(folder.display().to_string());
    let level = match level {
        LogLevelArg::Error => Level::ERROR,
        LogLevelArg::Warn => Level::WARN,
        LogLevelArg::Info => Level::INFO,
        LogLevelArg::Debug => Level::DEBUG,
    };
    let has_priority = format == LogFormatArg::Journald || is_journal();
    let json = (format == LogFormatArg::Json)
        .then(|| tracing_subscriber::fmt::format().json().flatten_event(true).with_target(false));
    let is_json = json.is_some();
    TAKES_EVENTS_ONLY.store(has_priority || is_json, Ordering::Relaxed);
    let _already_begun = tracing_subscriber::fmt()
        .fmt_fields(JsonFields::new())
        .event_format(Lines { json, has_priority })
        .with_writer(StandardError { is_json, has_priority })
        .with_max_level(level)
        .try_init();
    let (before, ended) = (if has_priority { "<3>" } else { "" }, MEMORY_FAULT);
    let line = match is_json {
        true => {
            json!({ "level": "ERROR", "event": "ended", "volume": volume(), "message": ended }).to_string()
        }
        false => shown(format!("{before}evenkeel: {}: {ended}", volume())),
    };
    let _it_ends_without_a_word_then = evenkeel_host::bus_error::tell(&line);
}

/// Tells how the command failed as an event, where only events are taken; false where it has to be told otherwise.
pub(crate) fn tell_end(failure: &Failure) -> bool {
    let takes_events_only = TAKES_EVENTS_ONLY.load(Ordering::Relaxed);
    if takes_events_only {
        tracing::error!(target: "evenkeel", event = "ended", volume = volume(), "{failure}");
    }
    takes_events_only
}

/// Tells why the process is about to end: as an event, where only events are taken.
pub(crate) fn tell_last_words(why: &str) {
    match TAKES_EVENTS_ONLY.load(Ordering::Relaxed) {
        true => tracing::info!(target: "evenkeel", event = "ended", volume = volume(), "{why}"),
        false => mention(&format!("evenkeel: {why}")),
    }
}

/// Which volume the events are about, as they name it.
pub(crate) fn volume() -> &'static str {
    VOLUME.get().map_or("", String::as_str)
}

/// Whether standard error goes to the system's journal, as that says of itself.
pub(crate) fn is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    let found = std::fs::metadata("/proc/self/fd/2");
    found.is_ok_and(|found| stream == format!("{}:{}", found.dev(), found.ino()))
}

struct Lines {
    json: Option<Format<Json>>,
    has_priority: bool,
}

/// As syslog(3) numbers them.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> FormatEvent<S, JsonFields> for Lines {
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let level = *event.metadata().level();
        if self.has_priority {
            write!(writer, "<{}>", priority(level))?;
        }
        if let Some(json) = &self.json {
            return json.format_event(context, writer, event);
        }
        if !self.has_priority {
            SystemTime.format_time(&mut writer)?;
            write!(writer, " {level:>5} ")?;
        }
        let mut said = Said::default();
        event.record(&mut said);
        // Of several volumes each line says which it is about.
        if !said.volume.is_empty() && said.volume != volume() {
            write!(writer, "{}: ", said.volume)?;
        }
        // Those that say the same in their first word say it once.
        match said.message.starts_with(&said.event) {
            true => writeln!(writer, "{}", said.message),
            false => writeln!(writer, "{}: {}", said.event, said.message),
        }
    }
}

/// What a person reads of an event; its message has all that the other fields have.
#[derive(Default)]
struct Said {
    volume: String,
    event: String,
    message: String,
}

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "volume" => self.volume = format!("{value:?}"),
            _ => {}
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "event" => self.event = value.to_owned(),
            "message" => self.message = value.to_owned(),
            "volume" => self.volume = value.to_owned(),
            _ => {}
        }
    }
}

/// Takes one event at a time.
#[derive(Clone, Copy)]
struct StandardError {
    is_json: bool,
    has_priority: bool,
}

impl StandardError {
    /// How many lines were dropped, as the others are written.
    fn missing(self, lines: u64) -> String {
        let (said, priority) = (standard_error::missing(lines), priority(Level::WARN));
        let before = if self.has_priority { format!("<{priority}>") } else { String::new() };
        let said = match self.is_json {
            true => {
                let mut timestamp = String::new();
                let _none_is_better_than_nothing = SystemTime.format_time(&mut Writer::new(&mut timestamp));
                let (level, event) = ("WARN", "lines-missing");
                json!({ "timestamp": timestamp, "level": level, "event": event, "count": lines, "message": said })
                    .to_string()
            }
            false => said,
        };
        before + &said
    }
}

impl<'a> MakeWriter<'a> for StandardError {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        *self
    }
}

impl Write for StandardError {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let said = shown(String::from_utf8_lossy(line).trim_end());
        let _nobody_takes_it = standard_error::say_among(&said, Duration::ZERO, |lines| self.missing(lines));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
