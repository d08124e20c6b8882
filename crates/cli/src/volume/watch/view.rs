//! Where a watch is shown.

use std::io;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use evenkeel_host::service::status::Status;
use evenkeel_measure::report::format;

use super::{Next, figures};
use crate::args::StatusArgs;
use crate::failure::Failure;
use crate::screen::Screen;
use crate::stdout::{complain, say_to_reader};
use crate::volume::status;

/// Where it is shown, and what is to be said only once.
pub(super) struct View {
    volume: String,
    interval_s: f64,
    way: Way,
    /// Since when the server has been away.
    away: Option<Instant>,
}

enum Way {
    /// In place, on a terminal.
    Screen { screen: Screen, last: String },
    /// A line for each interval.
    Lines { has_header: bool },
    /// A document for each interval.
    Json,
}

impl View {
    pub(super) fn of(args: &StatusArgs) -> Self {
        let way = match (args.json, Screen::on_stdout()) {
            (true, _) => Way::Json,
            (false, Some(screen)) => Way::Screen { screen, last: String::new() },
            (false, None) => Way::Lines { has_header: false },
        };
        Self { volume: args.volume.display().to_string(), interval_s: args.interval, way, away: None }
    }

    /// Shows what a document says. Lines and documents are of whole intervals only.
    pub(super) fn show(&mut self, status: &Status) -> Result<Next, Failure> {
        let came_back = self.away.take().map(|since| {
            format!(
                "{}: it is served again, after {}",
                self.volume,
                format::duration(since.elapsed().as_secs_f64())
            )
        });
        let text = match &mut self.way {
            Way::Screen { screen, last } => {
                let title = format!(
                    "evenkeel status --watch, every {}; Ctrl-C ends it",
                    format::duration(self.interval_s)
                );
                *last = format!("{}\n{}", figures::table(status.recent.as_ref()), status::text(status));
                return drawn(screen, &format!("{title}\n\n{last}"));
            }
            Way::Lines { has_header } => {
                let mut text = came_back.map(|line| format!("# {line}\n")).unwrap_or_default();
                if let Some(recent) = &status.recent {
                    if !std::mem::replace(has_header, true) {
                        text.push_str(&figures::header());
                    }
                    text.push_str(&figures::line(unix_s(), recent, status));
                }
                text
            }
            Way::Json => {
                came_back.iter().for_each(|line| complain(&format!("evenkeel: {line}")));
                match status.recent {
                    Some(_) => status.to_json_line() + "\n",
                    None => String::new(),
                }
            }
        };
        Ok(if text.is_empty() || say_to_reader(&text)? { Next::On } else { Next::End })
    }

    /// Shows that the server is away, or why it does not answer.
    pub(super) fn show_away(&mut self, error: Option<&io::Error>) -> Result<Next, Failure> {
        let is_new = self.away.is_none();
        let since = *self.away.get_or_insert_with(Instant::now);
        let why = match error {
            None => "it is not being served any more".to_owned(),
            Some(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                "its server does not answer".to_owned()
            }
            Some(error) => format!("its server gives no status: {error}"),
        };
        let line = format!("{}: {why}; waiting for its server", self.volume);
        match &mut self.way {
            Way::Screen { screen, last } => {
                let ago = format::duration(since.elapsed().as_secs_f64().round());
                drawn(screen, &format!("{line} for {ago}; Ctrl-C ends it. What it said last:\n\n{last}"))
            }
            Way::Lines { .. } if is_new => {
                Ok(if say_to_reader(&format!("# {line}\n"))? { Next::On } else { Next::End })
            }
            Way::Json if is_new => {
                complain(&format!("evenkeel: {line}"));
                Ok(Next::On)
            }
            Way::Lines { .. } | Way::Json => Ok(Next::On),
        }
    }
}

/// A terminal that is gone is nobody's any more.
fn drawn(screen: &mut Screen, text: &str) -> Result<Next, Failure> {
    match screen.draw(text) {
        Ok(()) => Ok(Next::On),
        Err(_) => Ok(Next::End),
    }
}

fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
