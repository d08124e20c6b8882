//! What may be typed of replays.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use evenkeel_measure::replay::Writes;
use evenkeel_trace::Format;
use evenkeel_trace::placement::Fit;

use crate::units;

/// Replay a recorded block trace, and measure how the target bears it
///
/// Sends the trace's requests at the moments at which they were recorded, whatever becomes of those before them, and
/// counts each one's latency from the moment it was due: a target that stalls shows it in every request of that time.
/// The trace is read to its end first; nothing is written where a line of it is malformed. Formats are told apart by
/// what the file holds: SPC, MSR Cambridge's CSV, vscsi of versions 1 and 2, `time_ns device lba_sectors size_sectors
/// op` and `time_ms device offset_bytes size_bytes op`.
#[derive(Debug, ClapArgs)]
#[command(after_help = REPLAY_EXAMPLES)]
pub(crate) struct ReplayArgs {
    /// The trace
    pub(crate) trace: PathBuf,

    /// A volume's folder, the URI of an NBD export, a block device or a file; a file that does not exist is made, written
    /// once, and removed at the end. Or sim:MODEL[,size=SIZE][,precondition[=TIMES]|,load=FILE|,fresh], a drive of
    /// `evenkeel drive --list`, in virtual time
    pub(crate) target: OsString,

    /// How fast: 1x as recorded, 2x, 0.5x, or max, as fast as possible
    #[arg(long, value_name = "SPEED", value_parser = parse_speed, default_value = "1x")]
    pub(crate) speed: Speed,

    /// Requests under way at once, with --speed max [default: 32]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) depth: Option<u32>,

    /// Stop after this time, such as 60s: requests that are due later are left out
    #[arg(long, value_name = "TIME", value_parser = units::seconds)]
    pub(crate) time: Option<f64>,

    /// Replay only this device of the trace; may be repeated [default: all, one behind the other]
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Vec<String>,

    /// What becomes of requests beyond the target's end
    #[arg(long, value_enum, default_value = "wrap")]
    pub(crate) fit: FitArg,

    /// When a write is done
    #[arg(long, value_enum, value_name = "WHEN", default_value = "durable")]
    pub(crate) writes: WritesArg,

    /// The trace's format, where it is not to be told from what the file holds
    #[arg(long, value_enum)]
    pub(crate) format: Option<FormatArg>,

    /// Size of a file that is made for the replay [default: as far as the trace reaches]
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub(crate) size: Option<u64>,

    /// Overwrite this target: repeat the name of TARGET. What it holds is lost
    #[arg(long, value_name = "TARGET")]
    pub(crate) destroy: Option<OsString>,

    /// Say what would be replayed onto what, and send nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Seed of the bytes written, and of chance in a simulated drive's time [default: from the clock; of sim:MODEL, 1]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,

    /// Write all figures to this file, as JSON
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) json: Option<PathBuf>,

    /// Replace the file of --json
    #[arg(long, requires = "json", help_heading = "Results")]
    pub(crate) force: bool,

    /// Length of the windows of throughput in --json
    #[arg(long, value_name = "TIME", value_parser = units::seconds, default_value = "1s", help_heading = "Results")]
    pub(crate) window: f64,
}

const REPLAY_EXAMPLES: &str = "\
Examples:
  evenkeel replay Financial1.spc disk --destroy disk
                                                    onto a volume, as recorded
  evenkeel replay disk_0.csv new --size 8g           onto a file of its own, removed at the end
  evenkeel replay disk_0.csv /dev/sdx --destroy /dev/sdx --speed 4x
  evenkeel replay WebSearch1.spc /dev/sdx --device 0 --device 1
                                                    reads destroy nothing
  evenkeel replay t.csv nbd://host/name --destroy nbd://host/name --speed max --depth 64
  evenkeel replay t.csv sim:sata-2011,precondition   onto a simulated drive, in virtual time
  evenkeel replay t.csv disk --dry-run              what is in the trace
  evenkeel replay t.csv disk --destroy disk --time 60s --json t.json

Exit status: 0 done, 2 wrong usage, a malformed trace or a target that failed, 130 interrupted.";

/// How fast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Speed {
    /// Times as fast as recorded.
    Times(f64),
    /// As fast as possible.
    Max,
}

fn parse_speed(text: &str) -> Result<Speed, String> {
    if text == "max" {
        return Ok(Speed::Max);
    }
    let number = text.strip_suffix('x').unwrap_or(text);
    let is_number = number.bytes().all(|letter| letter.is_ascii_digit() || letter == b'.');
    let speed = number.parse().ok().filter(|_| is_number);
    // Slower than that nobody waits for, and faster than that nothing is.
    speed
        .filter(|speed| (1e-3..=1e6).contains(speed))
        .map(Speed::Times)
        .ok_or_else(|| format!("`{text}` is neither max nor a speed from 0.001x to 1000000x, such as 2x"))
}

/// [`Fit`] with its help.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum FitArg {
    /// They start again at its beginning: what is sequential stays so
    Wrap,
    /// The trace is refused
    Refuse,
    /// All places are drawn together: their order stays
    Scale,
}

impl From<FitArg> for Fit {
    fn from(arg: FitArg) -> Self {
        match arg {
            FitArg::Wrap => Self::Wrap,
            FitArg::Refuse => Self::Refuse,
            FitArg::Scale => Self::Scale,
        }
    }
}

/// [`Writes`] with its help.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum WritesArg {
    /// Once a power cut cannot lose it
    Durable,
    /// Once it can be read back
    Buffered,
}

impl From<WritesArg> for Writes {
    fn from(arg: WritesArg) -> Self {
        match arg {
            WritesArg::Durable => Self::Durable,
            WritesArg::Buffered => Self::Buffered,
        }
    }
}

/// [`Format`] with its help.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum FormatArg {
    /// ASU,LBA,size,opcode,timestamp
    Spc,
    /// Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime
    Msr,
    /// time_ns device lba_sectors size_sectors op
    NsSectors,
    /// time_ms device offset_bytes size_bytes op
    MsBytes,
    /// vscsi records of 32 bytes
    Vscsi1,
    /// vscsi records of 40 bytes
    Vscsi2,
}

impl From<FormatArg> for Format {
    fn from(arg: FormatArg) -> Self {
        match arg {
            FormatArg::Spc => Self::Spc,
            FormatArg::Msr => Self::Msr,
            FormatArg::NsSectors => Self::NsSectors,
            FormatArg::MsBytes => Self::MsBytes,
            FormatArg::Vscsi1 => Self::Vscsi1,
            FormatArg::Vscsi2 => Self::Vscsi2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_a_number_of_times_or_max() {
        for (text, speed) in [("1x", 1.0), ("2", 2.0), ("0.5x", 0.5), ("1000000x", 1e6)] {
            assert_eq!(parse_speed(text), Ok(Speed::Times(speed)), "{text}");
        }
        assert_eq!(parse_speed("max"), Ok(Speed::Max));
        for wrong in ["", "x", "0x", "-1x", "nan", "inf", "1e3x", "2y", "0.0001x", "2000000x"] {
            assert!(parse_speed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_format_is_called_the_same_everywhere() {
        let names =
            FormatArg::value_variants().iter().map(|arg| (arg.to_possible_value(), Format::from(*arg)));
        for (value, format) in names {
            assert_eq!(value.unwrap().get_name(), format.name());
        }
        assert_eq!(FormatArg::value_variants().len(), Format::ALL.len());
    }
}
