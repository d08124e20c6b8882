//! Drive models of a user's own: a TOML file that says what differs from a preset.

use std::fs;
use std::path::Path;

use evenkeel_sim::model::disk::DiskShape;
use evenkeel_sim::model::flash::shape::{Collection, Shape};
use evenkeel_sim::model::presets::{self, Parts};
use serde::Deserialize;

use crate::units;

/// Larger files are no drive's.
const FILE_BYTES_MAX: u64 = 64 << 10;

const MB: f64 = 1e6;
const MIB: f64 = 1_048_576.0;

/// A drive model that a file describes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct UserModel {
    /// The preset that it is based on.
    pub(crate) based_on: String,
    /// Parts, times and the size as it was sold.
    pub(crate) parts: Parts,
}

/// Whether a file is meant and not a preset.
pub(crate) fn is_file(name: &str) -> bool {
    name.ends_with(".toml")
}

/// Which way collection gives way, by its word.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum CollectionWord {
    Blocking,
    Yielding,
    Stopping,
    Paced,
}

impl From<CollectionWord> for Collection {
    fn from(word: CollectionWord) -> Self {
        match word {
            CollectionWord::Blocking => Self::Blocking,
            CollectionWord::Yielding => Self::Yielding,
            CollectionWord::Stopping => Self::Stopping,
            CollectionWord::Paced => Self::Paced,
        }
    }
}

/// A flash drive in a file; what is left out is as in the preset.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FlashFile {
    #[serde(rename = "based_on")]
    _based_on: String,
    size: Option<String>,
    channels: Option<u32>,
    chips: Option<u32>,
    dies: Option<u32>,
    planes: Option<u32>,
    pages: Option<u32>,
    page_bytes: Option<u32>,
    frame_bytes: Option<u32>,
    dies_apart: Option<bool>,
    planes_together: Option<bool>,
    read_us: Option<f64>,
    program_us: Option<f64>,
    erase_us: Option<f64>,
    channel_mb_per_s: Option<f64>,
    copyback: Option<bool>,
    link_mb_per_s: Option<f64>,
    link_duplex: Option<bool>,
    command_us: Option<f64>,
    write_command_us: Option<f64>,
    latency_us: Option<f64>,
    buffer_mib: Option<f64>,
    write_back_percent: Option<u32>,
    write_back_after_ms: Option<f64>,
    yields_to_reads_ms: Option<f64>,
    write_cache: Option<bool>,
    power_loss_protection: Option<bool>,
    over_provisioning_percent: Option<f64>,
    collect_at_blocks: Option<u32>,
    collection: Option<CollectionWord>,
    suspend_us: Option<f64>,
}

/// A disk in a file; what is left out is as in the preset.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DiskFile {
    #[serde(rename = "based_on")]
    _based_on: String,
    size: Option<String>,
    rpm: Option<u32>,
    heads: Option<u32>,
    outer_track_kib: Option<f64>,
    inner_track_kib: Option<f64>,
    seek_next_ms: Option<f64>,
    seek_mean_ms: Option<f64>,
    seek_full_ms: Option<f64>,
    switch_ms: Option<f64>,
    write_settle_ms: Option<f64>,
    cache_mib: Option<f64>,
    write_cache: Option<bool>,
    link_mb_per_s: Option<f64>,
    command_us: Option<f64>,
    queue_depth: Option<u32>,
}

/// The model in a file.
///
/// # Errors
///
/// What is wrong with it, in a line that names the file.
pub(crate) fn read(path: &Path) -> Result<UserModel, String> {
    let about = |why: String| format!("{}: {why}", path.display());
    let facts = fs::metadata(path).map_err(|error| about(error.to_string()))?;
    if facts.len() > FILE_BYTES_MAX {
        return Err(about("it is too long for the description of a drive".to_owned()));
    }
    let text = fs::read_to_string(path).map_err(|error| about(error.to_string()))?;
    parse(&text).map_err(about)
}

fn parse(text: &str) -> Result<UserModel, String> {
    let table: toml::Table = text.parse().map_err(|error| in_a_line(text, &error))?;
    let Some(based_on) = table.get("based_on").and_then(toml::Value::as_str) else {
        return Err("it names no preset: begin with based_on = \"sata-2011\", say".to_owned());
    };
    let parts = if let Some(preset) = presets::find(based_on) {
        let file: FlashFile = toml::from_str(text).map_err(|error| in_a_line(text, &error))?;
        let shape = file.over(preset.parts())?;
        presets::sized(shape.clone(), shape.size_bytes).map_err(|error| error.to_string())?;
        Parts::Flash(shape)
    } else if let Some(preset) = presets::find_disk(based_on) {
        let file: DiskFile = toml::from_str(text).map_err(|error| in_a_line(text, &error))?;
        let shape = file.over(preset.parts())?;
        Parts::Disk(presets::sized_disk(shape.clone(), shape.size_bytes).map_err(|error| error.to_string())?)
    } else {
        return Err(format!("based_on: there is no preset `{based_on}`; `evenkeel drive --list` names them"));
    };
    Ok(UserModel { based_on: based_on.to_owned(), parts })
}

/// A parser's complaint without its picture of the file.
fn in_a_line(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().replace('\n', ", ");
    match error.span() {
        Some(span) => {
            let line =
                text.as_bytes()[..span.start.min(text.len())].iter().filter(|&&byte| byte == b'\n').count();
            format!("line {}: {message}", line + 1)
        }
        None => message,
    }
}

/// A value times its unit, as a whole number.
fn scaled(name: &str, value: f64, unit: f64) -> Result<u64, String> {
    let scaled = value * unit;
    if scaled.is_finite() && (0.0..1e18).contains(&scaled) {
        return Ok(scaled.round() as u64);
    }
    Err(format!("{name} is {value}: it takes a number from 0 on"))
}

/// Sets what the file names.
fn set(into: &mut u64, name: &str, value: Option<f64>, unit: f64) -> Result<(), String> {
    if let Some(value) = value {
        *into = scaled(name, value, unit)?;
    }
    Ok(())
}

/// Sets a time that may be none: 0 says so.
fn set_or_none(into: &mut Option<u64>, name: &str, value: Option<f64>, unit: f64) -> Result<(), String> {
    if let Some(value) = value {
        *into = Some(scaled(name, value, unit)?).filter(|&ns| ns > 0);
    }
    Ok(())
}

fn size(into: &mut u64, value: Option<&str>) -> Result<(), String> {
    if let Some(value) = value {
        *into = units::size(value).map_err(|error| format!("size: {error}"))?;
    }
    Ok(())
}

impl FlashFile {
    fn over(&self, base: Shape) -> Result<Shape, String> {
        let mut shape = Shape {
            channels: self.channels.unwrap_or(base.channels),
            chips: self.chips.unwrap_or(base.chips),
            dies: self.dies.unwrap_or(base.dies),
            planes: self.planes.unwrap_or(base.planes),
            pages: self.pages.unwrap_or(base.pages),
            pages_unscaled: self.pages.unwrap_or(base.pages_unscaled),
            page_bytes: self.page_bytes.unwrap_or(base.page_bytes),
            frame_bytes: self.frame_bytes.unwrap_or(base.frame_bytes),
            dies_apart: self.dies_apart.unwrap_or(base.dies_apart),
            planes_together: self.planes_together.unwrap_or(base.planes_together),
            copyback: self.copyback.unwrap_or(base.copyback),
            link_duplex: self.link_duplex.unwrap_or(base.link_duplex),
            write_back_percent: self.write_back_percent.unwrap_or(base.write_back_percent),
            write_cache: self.write_cache.unwrap_or(base.write_cache),
            power_loss_protection: self.power_loss_protection.unwrap_or(base.power_loss_protection),
            collect_at_blocks: self.collect_at_blocks.unwrap_or(base.collect_at_blocks),
            collection: self.collection.map_or(base.collection, Collection::from),
            ..base
        };
        set(&mut shape.read_ns, "read_us", self.read_us, 1e3)?;
        set(&mut shape.program_ns, "program_us", self.program_us, 1e3)?;
        set(&mut shape.erase_ns, "erase_us", self.erase_us, 1e3)?;
        set(&mut shape.channel_bytes_per_s, "channel_mb_per_s", self.channel_mb_per_s, MB)?;
        set(&mut shape.link_bytes_per_s, "link_mb_per_s", self.link_mb_per_s, MB)?;
        set(&mut shape.command_ns, "command_us", self.command_us, 1e3)?;
        set(&mut shape.write_command_ns, "write_command_us", self.write_command_us, 1e3)?;
        set(&mut shape.latency_ns, "latency_us", self.latency_us, 1e3)?;
        set(&mut shape.buffer_bytes, "buffer_mib", self.buffer_mib, MIB)?;
        set_or_none(&mut shape.write_back_after_ns, "write_back_after_ms", self.write_back_after_ms, 1e6)?;
        set_or_none(&mut shape.yields_to_reads_ns, "yields_to_reads_ms", self.yields_to_reads_ms, 1e6)?;
        set_or_none(&mut shape.suspend_ns, "suspend_us", self.suspend_us, 1e3)?;
        if let Some(percent) = self.over_provisioning_percent {
            let spare = scaled("over_provisioning_percent", percent, 100.0)?;
            shape.spare_per_10000 = u32::try_from(spare).unwrap_or(u32::MAX);
        }
        size(&mut shape.size_bytes, self.size.as_deref())?;
        Ok(shape)
    }
}

impl DiskFile {
    fn over(&self, base: DiskShape) -> Result<DiskShape, String> {
        let mut shape = DiskShape {
            rpm: self.rpm.unwrap_or(base.rpm),
            heads: self.heads.unwrap_or(base.heads),
            write_cache: self.write_cache.unwrap_or(base.write_cache),
            queue_depth: self.queue_depth.map_or(base.queue_depth, |depth| depth as usize),
            ..base
        };
        for (at, name, value) in
            [(0, "outer_track_kib", self.outer_track_kib), (1, "inner_track_kib", self.inner_track_kib)]
        {
            set(&mut shape.track_bytes[at], name, value, 1024.0)?;
        }
        for (at, name, value) in [
            (0, "seek_next_ms", self.seek_next_ms),
            (1, "seek_mean_ms", self.seek_mean_ms),
            (2, "seek_full_ms", self.seek_full_ms),
        ] {
            set(&mut shape.seek_ns[at], name, value, 1e6)?;
        }
        set(&mut shape.switch_ns, "switch_ms", self.switch_ms, 1e6)?;
        set(&mut shape.write_settle_ns, "write_settle_ms", self.write_settle_ms, 1e6)?;
        set(&mut shape.cache_bytes, "cache_mib", self.cache_mib, MIB)?;
        set(&mut shape.link_bytes_per_s, "link_mb_per_s", self.link_mb_per_s, MB)?;
        set(&mut shape.command_ns, "command_us", self.command_us, 1e3)?;
        size(&mut shape.size_bytes, self.size.as_deref())?;
        Ok(shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_what_differs_from_its_preset() {
        let text = "based_on = \"sata-2011\"\nsize = \"8g\"\nchannels = 4\nprogram_us = 450.5\n\
                    over_provisioning_percent = 28\ncollection = \"paced\"\nyields_to_reads_ms = 0\n";
        let Parts::Flash(shape) = parse(text).unwrap().parts else { panic!("it is of flash") };
        let base = presets::find("sata-2011").unwrap().parts();
        let expected = Shape {
            size_bytes: 8 << 30,
            channels: 4,
            program_ns: 450_500,
            spare_per_10000: 2800,
            collection: Collection::Paced,
            yields_to_reads_ns: None,
            ..base
        };
        assert_eq!(shape, expected);
        let text = "based_on = \"sas-15k\"\nrpm = 10000\nseek_mean_ms = 4\n";
        let Parts::Disk(shape) = parse(text).unwrap().parts else { panic!("it is a disk") };
        assert_eq!((shape.rpm, shape.seek_ns[1], shape.heads), (10_000, 4_000_000, 8));
    }

    #[test]
    fn what_is_no_drive_is_told_in_a_line() {
        for (text, word) in [
            ("", "names no preset"),
            ("based_on = 3", "names no preset"),
            ("based_on = \"floppy\"", "no preset `floppy`"),
            ("based_on = \"steady\"\nrpm = 1", "line 2: unknown field `rpm`"),
            ("based_on = \"steady\"\nchannels = -1", "line 2: "),
            ("based_on = \"steady\"\nchannels = 0", "channels is 0: it takes 1 to 256"),
            ("based_on = \"steady\"\nread_us = -1", "read_us is -1"),
            ("based_on = \"steady\"\nread_us = nan", "read_us is NaN"),
            ("based_on = \"steady\"\ncollection = \"never\"", "line 2: "),
            ("based_on = \"steady\"\npages = 100", "power of two"),
            ("based_on = \"steady\"\nsize = \"huge\"", "size: "),
            ("based_on = \"steady\"\nsize = \"1000t\"", "too many"),
            ("based_on = \"sas-15k\"\nrpm = 0", "rpm is 0"),
            ("based_on = \"sas-15k\"\nchannels = 1", "unknown field `channels`"),
            ("based_on = ", "line 1: "),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(word) && !error.contains('\n'), "{text:?}: {error}");
        }
    }
}
