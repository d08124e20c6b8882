//! A line of each text format.
//!
//! Fields are split and read by hand: quoting is in none of the formats, and an error is to name the field.

use super::{Access, Devices, Format, Op, SECTOR_BYTES};

const MSR_FIELDS: usize = 7;
const SPC_FIELDS: usize = 5;
const BLANK_FIELDS: usize = 5;

/// The letters of a field that errors show.
const SHOWN_MAX: usize = 40;

type Parsed = Result<Option<Access>, String>;

/// The access in a line; `None` where it moves nothing.
pub(super) fn parse(format: Format, line: &str, devices: &mut Devices) -> Parsed {
    match format {
        Format::Spc => spc(line, devices),
        Format::Msr => msr(line, devices),
        Format::NsSectors => blanks(line, devices, 0, SECTOR_BYTES),
        Format::MsBytes => blanks(line, devices, 6, 1),
        Format::Vscsi1 | Format::Vscsi2 => unreachable!("a binary format has no lines"),
    }
}

/// Whether a first line says what the fields are.
pub(super) fn is_header(format: Format, line: &str) -> bool {
    format == Format::Msr && line.to_ascii_lowercase().starts_with("timestamp,hostname,")
}

/// The text format of a file with these lines.
pub(super) fn format_of<'a>(first: &str, mut lines: impl Iterator<Item = &'a str>) -> Option<Format> {
    if is_header(Format::Msr, first) {
        return Some(Format::Msr);
    }
    let fields: Vec<&str> = first.split(',').map(str::trim).collect();
    if fields.len() >= SPC_FIELDS {
        let is_msr = fields.len() == MSR_FIELDS && msr_op(fields[3]).is_ok();
        return match is_msr {
            true => Some(Format::Msr),
            false => spc_op(fields[3]).is_ok().then_some(Format::Spc),
        };
    }
    let fields: Vec<&str> = first.split_whitespace().collect();
    if fields.len() != BLANK_FIELDS || bit_op(fields[4]).is_err() {
        return None;
    }
    // Whole nanoseconds have no fraction; milliseconds without one, in all of the head, are not to be told apart.
    let has_fractions =
        lines.any(|line| line.split_whitespace().next().is_some_and(|time| time.contains('.')));
    Some(if has_fractions { Format::MsBytes } else { Format::NsSectors })
}

fn spc(line: &str, devices: &mut Devices) -> Parsed {
    let mut fields = line.split(',').map(str::trim);
    let [asu, lba, size, opcode, time] = take(&mut fields, "ASU,LBA,size,opcode,timestamp")?;
    let op = spc_op(opcode)?;
    let offset = sectors("LBA", lba)?;
    let len_bytes = whole("size", size)?;
    let time_ns = decimal("timestamp", time, 9)?;
    Access::new(time_ns, devices.named(asu)?, op, offset, len_bytes)
}

fn msr(line: &str, devices: &mut Devices) -> Parsed {
    let mut fields = line.split(',').map(str::trim);
    let [time, host, disk, kind, offset, size, _response] =
        take(&mut fields, "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime")?;
    if fields.next().is_some() {
        return Err(format!("more than {MSR_FIELDS} fields"));
    }
    let op = msr_op(kind)?;
    let ticks = whole("Timestamp", time)?;
    let time_ns = ticks.checked_mul(100).ok_or_else(|| beyond("Timestamp", time))?;
    let (offset, len_bytes) = (whole("Offset", offset)?, whole("Size", size)?);
    let device = match (host, disk) {
        ("", _) | (_, "") => return Err("Hostname and DiskNumber name the device; one is empty".to_owned()),
        (host, disk) => devices.named(&format!("{host}.{disk}"))?,
    };
    Access::new(time_ns, device, op, offset, len_bytes)
}

/// The formats of five fields with blanks between them: a time whose unit is 10^`digits` ns, then what `unit_bytes`
/// makes bytes of.
fn blanks(line: &str, devices: &mut Devices, digits: u32, unit_bytes: u64) -> Parsed {
    let names = if unit_bytes == 1 {
        "time_ms device offset_bytes size_bytes op"
    } else {
        "time_ns device lba_sectors size_sectors op"
    };
    let mut fields = line.split_whitespace();
    let [time, device, offset, size, op] = take(&mut fields, names)?;
    if fields.next().is_some() {
        return Err(format!("more than {BLANK_FIELDS} fields ({names})"));
    }
    let op = bit_op(op)?;
    let time_ns = decimal("time", time, digits)?;
    let scaled = |name, text| {
        let units = whole(name, text)?;
        units.checked_mul(unit_bytes).ok_or_else(|| beyond(name, text))
    };
    let (offset, len_bytes) = (scaled("offset", offset)?, scaled("size", size)?);
    Access::new(time_ns, devices.named(device)?, op, offset, len_bytes)
}

/// The next N fields.
fn take<'a, const N: usize>(
    fields: &mut impl Iterator<Item = &'a str>,
    names: &str,
) -> Result<[&'a str; N], String> {
    let mut taken = [""; N];
    for (at, field) in taken.iter_mut().enumerate() {
        let separated = if at == 1 { "field" } else { "fields" };
        *field = fields.next().ok_or_else(|| format!("{at} {separated} where there are {N} ({names})"))?;
    }
    Ok(taken)
}

fn spc_op(text: &str) -> Result<Op, String> {
    match text {
        "r" | "R" => Ok(Op::Read),
        "w" | "W" => Ok(Op::Write),
        _ => Err(format!("the opcode `{}` is neither R nor W", shown(text))),
    }
}

fn msr_op(text: &str) -> Result<Op, String> {
    match text {
        text if text.eq_ignore_ascii_case("read") => Ok(Op::Read),
        text if text.eq_ignore_ascii_case("write") => Ok(Op::Write),
        _ => Err(format!("the Type `{}` is neither Read nor Write", shown(text))),
    }
}

fn bit_op(text: &str) -> Result<Op, String> {
    match text {
        "1" => Ok(Op::Read),
        "0" => Ok(Op::Write),
        _ => Err(format!("op `{}` is neither 1 (read) nor 0 (write)", shown(text))),
    }
}

fn sectors(name: &str, text: &str) -> Result<u64, String> {
    whole(name, text)?.checked_mul(SECTOR_BYTES).ok_or_else(|| beyond(name, text))
}

fn whole(name: &str, text: &str) -> Result<u64, String> {
    decimal(name, text, 0)
}

/// `text` times 10^`digits`, exactly; what is finer than 1 is dropped. A whole number has no fraction.
fn decimal(name: &str, text: &str, digits: u32) -> Result<u64, String> {
    let no_number = || {
        let kind = if digits == 0 { "whole number" } else { "number" };
        format!("{name} `{}` is no {kind} from 0 on", shown(text))
    };
    let (units, fraction) = match text.split_once('.') {
        Some((units, fraction)) if digits > 0 => (units, fraction),
        Some(_) => return Err(no_number()),
        None => (text, ""),
    };
    let is_number = |part: &str| part.bytes().all(|letter| letter.is_ascii_digit());
    if !is_number(units) || !is_number(fraction) || units.len() + fraction.len() == 0 {
        return Err(no_number());
    }
    let mut value = 0u64;
    let zeros = std::iter::repeat(b'0');
    for letter in units.bytes().chain(fraction.bytes().chain(zeros).take(digits as usize)) {
        value = value
            .checked_mul(10)
            .and_then(|value| value.checked_add(u64::from(letter - b'0')))
            .ok_or_else(|| beyond(name, text))?;
    }
    Ok(value)
}

fn beyond(name: &str, text: &str) -> String {
    format!("{name} `{}` is more than 64 bits count", shown(text))
}

/// As much of a field as a line of errors has room for, with nothing in it that a terminal would heed.
fn shown(text: &str) -> String {
    let mut shown = text.chars().take(SHOWN_MAX).collect::<String>().escape_debug().to_string();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push_str("...");
    }
    shown
}
