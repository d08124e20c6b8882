//! Each format is read as it is written, and nothing else is taken for one.

use std::fs::File;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::order::InOrder;
use super::survey::Survey;
use super::*;

/// The accesses of `bytes`, which must all be right, as (ns, device's name, op, offset, bytes).
fn read(bytes: &[u8], format: Format) -> Vec<(u64, String, Op, u64, u32)> {
    let mut reader = TraceReader::new(bytes, None).unwrap();
    assert_eq!(reader.format(), format);
    let accesses: Vec<Access> = reader.by_ref().map(|access| access.unwrap()).collect();
    let name = |device: DeviceId| reader.devices().names()[device.index()].clone();
    accesses
        .iter()
        .map(|access| (access.time_ns, name(access.device), access.op, access.offset, access.len_bytes))
        .collect()
}

/// What is said of `bytes`, in which something must be wrong.
fn complaint(bytes: &[u8], format: Option<Format>) -> String {
    match TraceReader::new(bytes, format) {
        Ok(reader) => reader.filter_map(Result::err).last().expect("all of it was taken").to_string(),
        Err(error) => error.to_string(),
    }
}

fn vscsi1(command: u16, len: u32, block: u64, time_us: u64) -> Vec<u8> {
    let mut record = Vec::new();
    record.extend(7u32.to_le_bytes());
    record.extend(len.to_le_bytes());
    record.extend(1u32.to_le_bytes());
    record.extend(command.to_le_bytes());
    record.extend(0x100u16.to_le_bytes());
    record.extend(block.to_le_bytes());
    record.extend(time_us.to_le_bytes());
    record
}

fn vscsi2(command: u16, len: u32, block: u64, time_us: u64) -> Vec<u8> {
    let mut record = Vec::new();
    record.extend(command.to_le_bytes());
    record.extend(0x200u16.to_le_bytes());
    record.extend(7u32.to_le_bytes());
    record.extend(len.to_le_bytes());
    record.extend(1u32.to_le_bytes());
    record.extend(block.to_le_bytes());
    record.extend(time_us.to_le_bytes());
    record.extend(250u64.to_le_bytes());
    record
}

#[test]
fn spc_counts_in_sectors_bytes_and_seconds() {
    let text = "0,20000000,8192,W,0.500250\n1, 5, 512, r, 1.000000001, more, of, it\n\n# a remark\n";
    let (first, second) = (
        (500_250_000, "0".into(), Op::Write, 20_000_000 * 512, 8192),
        (1_000_000_001, "1".into(), Op::Read, 2560, 512),
    );
    assert_eq!(read(text.as_bytes(), Format::Spc), [first, second]);
}

#[test]
fn msr_counts_in_ticks_and_bytes_with_and_without_a_header() {
    let lines = "128160000010000000,disk,0,Read,4096000000,24576,1200\r\n\
                 128160000020000000,disk,1,Write,0,512,9\r\n";
    let with_header = format!("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n{lines}");
    let marked = format!("\u{feff}{lines}");
    for text in [lines, &with_header, &marked, &format!("\u{feff}{with_header}")] {
        let (first, second) = (
            (12_816_000_001_000_000_000, "disk.0".into(), Op::Read, 4_096_000_000, 24576),
            (12_816_000_002_000_000_000, "disk.1".into(), Op::Write, 0, 512),
        );
        assert_eq!(read(text.as_bytes(), Format::Msr), [first, second]);
    }
}

#[test]
fn the_formats_with_blanks_are_told_apart_by_the_fractions_of_their_times() {
    let sectors = read(b"25000000 1 200000 6 0\n75000000 1 5000 6 1\n", Format::NsSectors);
    assert_eq!(sectors[0], (25_000_000, "1".into(), Op::Write, 200_000 * 512, 3072));
    assert_eq!(sectors[1].2, Op::Read);
    // A whole time or two among them changes nothing.
    let bytes = read(b"0 0 4096 512 0\n20.500 0 2097152000 4096 1\n20.5000009 0 1 1 1\n", Format::MsBytes);
    assert_eq!(bytes[0], (0, "0".into(), Op::Write, 4096, 512));
    assert_eq!(bytes[1], (20_500_000, "0".into(), Op::Read, 2_097_152_000, 4096));
    // What is finer than a nanosecond is dropped.
    assert_eq!(bytes[2], (20_500_000, "0".into(), Op::Read, 1, 1));
}

#[test]
fn both_versions_of_vscsi_are_read_with_flushes_and_without_what_moves_nothing() {
    type Record = fn(u16, u32, u64, u64) -> Vec<u8>;
    for (record, format) in [(vscsi1 as Record, Format::Vscsi1), (vscsi2 as Record, Format::Vscsi2)] {
        let bytes =
            [record(0x2a, 512, 3, 1), record(0x00, 0, 0, 2), record(0x88, 4096, 8, 5), record(0x35, 0, 9, 6)];
        let (write, read_it, flush) = (
            (1000, "0".into(), Op::Write, 1536, 512),
            (5000, "0".into(), Op::Read, 4096, 4096),
            (6000, "0".into(), Op::Flush, 0, 0),
        );
        assert_eq!(read(&bytes.concat(), format), [write, read_it, flush]);
        let whole = bytes.concat();
        let mut reader = TraceReader::new(&whole[..], None).unwrap();
        assert_eq!((reader.by_ref().count(), reader.skipped()), (3, 1));
    }
}

#[test]
fn the_examples_of_the_documentation_are_read() {
    let document = include_str!("../../../docs/replay.md");
    let mut blocks = document.split("```\n").skip_while(|block| !block.starts_with("0,20000000"));
    let lines: Vec<&str> = blocks.next().unwrap().lines().collect();
    let formats = [Format::Spc, Format::Msr, Format::NsSectors, Format::MsBytes];
    assert_eq!(lines.len(), formats.len());
    for (line, format) in lines.into_iter().zip(formats) {
        assert_eq!(read(line.as_bytes(), format).len(), 1);
    }
    let records = blocks.nth(1).unwrap().lines();
    assert_eq!(records.clone().count(), 2);
    let expected = [(Format::Vscsi1, Op::Read, 4096, 4096), (Format::Vscsi2, Op::Write, 1536, 512)];
    for (record, (format, op, offset, len_bytes)) in records.zip(expected) {
        let (name, hex) = record.split_once("  ").unwrap();
        assert_eq!(name, format.name());
        let hex = hex.replace(' ', "");
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        assert_eq!(read(&bytes, format), [(1_234_000, "0".into(), op, offset, len_bytes)]);
    }
}

#[test]
fn what_is_wrong_is_named_by_its_line() {
    for (text, parts) in [
        ("0,1,512,W,0.1\n0,1,512,W\n", &["line 2: ", "4 fields", "ASU,LBA,size,opcode,timestamp"][..]),
        ("0,1,512,W,0.1\n\n# remark\n0,1,512,X,0.2\n", &["line 4: ", "opcode `X`"]),
        ("0,1,512,W,0.1\n0,-1,512,W,0.2\n", &["line 2: ", "LBA `-1`"]),
        ("0,1,512,W,0.1\n0,36028797018963968,512,W,0.2\n", &["line 2: ", "LBA", "64 bits"]),
        ("0,1,512,W,0.1\n0,36028797018963967,1024,W,0.2\n", &["line 2: ", "ends beyond"]),
        ("0,1,512,W,0.1\n0,1,67108865,W,0.2\n", &["line 2: ", "67108865"]),
        ("0,1,512,W,0.1\n0,1,512,W,1e-5\n", &["line 2: ", "timestamp `1e-5`"]),
        ("0,1,512,W,0.1\n0,1,512,W,99999999999\n", &["line 2: ", "timestamp", "64 bits"]),
        ("0,1,512,W,0.1\n,1,512,W,0.2\n", &["line 2: ", "no name"]),
        ("1,h,0,Read,0,512,9\n1,h,0,Read,0,512,9,9\n", &["line 2: ", "more than 7"]),
        ("1,h,0,Read,0,512,9\n1,h,0,Trim,0,512,9\n", &["line 2: ", "Type `Trim`"]),
        ("1,h,0,Read,0,512,9\n1,h,,Read,0,512,9\n", &["line 2: ", "DiskNumber"]),
        ("1 0 1 1 1\n2 0 1 1\n", &["line 2: ", "4 fields"]),
        ("1 0 1 1 1\n2 0 1 1 2\n", &["line 2: ", "op `2`"]),
        ("1 0 1 1 1\n2 0 1 1 1 1\n", &["line 2: ", "more than 5"]),
        ("1 0 1 1 1\n2 0 1.5 1 1\n", &["line 2: ", "offset `1.5`", "whole"]),
        ("1 0 1 1 1\n. 0 1 1 1\n", &["line 2: "]),
        ("1.5 0 1 1 1\n. 0 1 1 1\n", &["line 2: ", "time `.`"]),
        ("1 0 1 1 1\n\u{1b}[2J 0 1 1 1\n", &["line 2: ", "\\u{1b}"]),
    ] {
        let line = complaint(text.as_bytes(), None);
        for part in parts {
            assert!(line.contains(part), "no `{part}` in: {line}");
        }
        assert!(!line.contains(char::is_control), "{line:?}");
    }
    let long = format!("1 0 1 1 1\n{}\n", "9".repeat(LINE_MAX_BYTES + 1));
    assert_eq!(complaint(long.as_bytes(), None), "line 2: longer than 4096 bytes");
    let head = "1 0 1 1 1\n".repeat(10_000);
    let binary = [head.as_bytes(), b"\xff\xfe\n"].concat();
    assert_eq!(complaint(&binary, None), "line 10001: it is not text");
}

#[test]
fn what_is_wrong_in_a_binary_trace_is_named_by_its_record() {
    let good = vscsi1(0x2a, 512, 3, 1);
    let mut other = vscsi1(0x2a, 512, 3, 1);
    other[15] = 3;
    let read = |records: &[&[u8]]| complaint(&records.concat(), None);
    assert_eq!(read(&[&good, &good, &good[..17]]), "record 3: it ends after 17 of 32 bytes");
    assert_eq!(read(&[&good, &good, &other]), "record 3: of version 3 in a trace of version 1");
    assert!(
        read(&[&good, &good, &vscsi1(0x2a, u32::MAX, 3, 1)]).starts_with("record 3: an access of 4294967295")
    );
    assert!(read(&[&good, &good, &vscsi1(0x28, 512, 1 << 55, 1)]).starts_with("record 3: block "));
    assert!(read(&[&good, &good, &vscsi1(0x28, 512, 1, u64::MAX)]).starts_with("record 3: time "));
}

#[test]
fn after_what_is_wrong_nothing_is_read() {
    let mut reader = TraceReader::new(&b"1 0 1 1 1\nx\n2 0 1 1 1\n"[..], None).unwrap();
    assert!(reader.next().unwrap().is_ok());
    assert!(reader.next().unwrap().is_err());
    assert!(reader.next().is_none());
}

#[test]
fn what_is_like_no_format_is_refused_with_what_it_begins_with() {
    for (bytes, parts) in [
        (&b""[..], &["empty"][..]),
        (b"\n# only a remark\n", &["nothing but comments"]),
        (b"hello, world\n", &["hello, world", "spc", "vscsi2"]),
        (b"1 2 3 4\n", &["1 2 3 4"]),
        (b"\x1f\x8b\x08\0\0\0", &["gunzip"]),
        (b"BZh91AY", &["bunzip2"]),
        (b"\xff\xff\xff\xff\n", &["neither text"]),
        (b"\0\0\0\0", &["vscsi"]),
    ] {
        let line = complaint(bytes, None);
        for part in parts {
            assert!(line.contains(part), "no `{part}` in: {line}");
        }
    }
}

#[test]
fn a_format_that_is_named_is_not_guessed() {
    let mut reader = TraceReader::new(&b"1000 0 4096 512 1\n"[..], Some(Format::MsBytes)).unwrap();
    let access = reader.next().unwrap().unwrap();
    assert_eq!((access.time_ns, access.offset, access.len_bytes), (1_000_000_000, 4096, 512));
    assert!(complaint(b"1 0 1 1 1\n", Some(Format::Spc)).starts_with("line 1: "));
    assert!(complaint(b"1 0 1 1 1\n", Some(Format::Vscsi1)).starts_with("record 1: "));
}

#[test]
fn a_trace_cannot_name_devices_without_end() {
    let lines: String = (0..=DEVICES_MAX).map(|device| format!("1 {device} 1 1 1\n")).collect();
    let line = complaint(lines.as_bytes(), None);
    assert!(line.starts_with(&format!("line {}: more than", DEVICES_MAX + 1)), "{line}");
}

#[test]
fn a_survey_knows_what_is_asked_of_each_device() {
    let text = "5.5 b 4096 512 0\n1.0 a 0 4096 1\n9.0 b 0 1024 1\n2.0 b 8192 0 1\n";
    let mut reader = TraceReader::new(text.as_bytes(), None).unwrap();
    let survey = Survey::of(&mut reader, || true).unwrap().unwrap();
    let [b, a] = &survey.devices[..] else { panic!("{survey:?}") };
    assert_eq!((a.name.as_str(), a.reads, a.writes, a.reach_bytes), ("a", 1, 0, 4096));
    assert_eq!((b.reads, b.writes, b.read_bytes, b.written_bytes), (1, 1, 1024, 512));
    assert_eq!((b.reach_bytes, b.longest_bytes, b.first_ns, b.last_ns), (4608, 1024, 5_500_000, 9_000_000));
    assert_eq!(survey.skipped, 1);
}

fn at(time_ns: u64) -> Access {
    Access { time_ns, device: DeviceId(0), op: Op::Read, offset: time_ns, len_bytes: 1 }
}

#[test]
fn accesses_come_in_order_and_those_beyond_the_window_are_counted() {
    let mut ordered = InOrder::new([3, 1, 2, 5, 9, 4].map(|time_ns| Ok(at(time_ns))).into_iter(), 3);
    let times: Vec<u64> = ordered.by_ref().map(|access| access.unwrap().time_ns).collect();
    assert_eq!((times, ordered.retimed()), (vec![1, 2, 3, 4, 5, 9], 0));
    let mut ordered = InOrder::new([7, 8, 9, 1].map(|time_ns| Ok(at(time_ns))).into_iter(), 2);
    let found: Vec<(u64, u64)> = ordered
        .by_ref()
        .map(|access| access.unwrap())
        .map(|access| (access.time_ns, access.offset))
        .collect();
    assert_eq!((found, ordered.retimed()), (vec![(7, 7), (8, 8), (8, 1), (9, 9)], 1));
}

#[test]
fn an_error_comes_behind_what_was_read_before_it() {
    let failed = || Err(TraceError::Unknown("it changed".to_owned()));
    let ordered = InOrder::new([Ok(at(2)), Ok(at(1)), failed(), Ok(at(0))].into_iter(), 8);
    let times: Vec<Option<u64>> = ordered.map(|access| access.ok().map(|access| access.time_ns)).collect();
    assert_eq!(times, [Some(1), Some(2), None]);
}

/// A trace of others, where there is one.
// What a test prints is for whoever runs it.
#[allow(clippy::print_stdout)]
fn others(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("EVENKEEL_TRACES").map(|folder| Path::new(&folder).join(name));
    let found = path.filter(|path| path.is_file());
    if found.is_none() {
        let reason = format!("EVENKEEL_TRACES names no folder with {name}");
        println!("skipped: {reason}");
        if let Some(file) = std::env::var_os("EVENKEEL_SKIPPED") {
            let mut file = std::fs::OpenOptions::new().append(true).create(true).open(file).unwrap();
            std::io::Write::write_all(&mut file, format!("recorded_traces: {reason}\n").as_bytes()).unwrap();
        }
    }
    found
}

#[test]
fn recorded_traces_are_read_to_their_end() {
    for (name, format, requests, reads, devices, duration_ns) in [
        ("financial1-head.ascii", Format::NsSectors, 10_000, 4_077, 22, 259_601_203_125),
        ("websearch-small.trace", Format::NsSectors, 24_783, 24_779, 6, 60_055_212_000),
        ("msr-rw4060.trace", Format::MsBytes, 10_000, 4_054, 1, 85_915_075_000),
        ("cloudphysics.vscsi", Format::Vscsi1, 113_872, 46_974, 1, 7_200_089_885_000),
    ] {
        let Some(path) = others(name) else { continue };
        let mut reader = TraceReader::new(File::open(path).unwrap(), None).unwrap();
        let survey = Survey::of(&mut reader, || true).unwrap().unwrap();
        assert_eq!(survey.format, format, "{name}");
        let sum = |of: fn(&survey::DeviceSurvey) -> u64| survey.devices.iter().map(of).sum::<u64>();
        assert_eq!(sum(survey::DeviceSurvey::requests), requests, "{name}");
        assert_eq!(sum(|device| device.reads), reads, "{name}");
        assert_eq!(survey.devices.len(), devices, "{name}");
        let first = survey.devices.iter().map(|device| device.first_ns).min();
        let last = survey.devices.iter().map(|device| device.last_ns).max();
        assert_eq!(last.zip(first).map(|(last, first)| last - first), Some(duration_ns), "{name}");
    }
}

/// Any access that every format can tell: whole sectors, whole milliseconds.
fn any_access() -> impl Strategy<Value = (u64, u32, bool, u64, u64)> {
    (0..1u64 << 40, 0..5u32, any::<bool>(), 0..1u64 << 40, 1..=2048u64)
}

proptest! {
    #[test]
    fn every_format_tells_the_same_accesses(wanted in proptest::collection::vec(any_access(), 1..40)) {
        let op = |is_read: bool| u8::from(is_read);
        let mut formats = vec![
            (Format::Spc, String::new()),
            (Format::Msr, String::new()),
            (Format::NsSectors, String::new()),
            // One time with a fraction, as every recording has.
            (Format::MsBytes, "0.0 0 0 512 1\n".to_owned()),
        ];
        for &(ms, device, is_read, block, sectors) in &wanted {
            let (offset, bytes) = (block * 512, sectors * 512);
            let letter = if is_read { "r" } else { "W" };
            let word = if is_read { "Read" } else { "Write" };
            for (format, text) in &mut formats {
                *text += &match format {
                    Format::Spc => format!("{device},{block},{bytes},{letter},{}.{:03}\n", ms / 1000, ms % 1000),
                    Format::Msr => format!("{},h,{device},{word},{offset},{bytes},7\n", ms * 10_000),
                    Format::NsSectors => {
                        format!("{} {device} {block} {sectors} {}\n", ms * 1_000_000, op(is_read))
                    }
                    _ => format!("{ms}.000 {device} {offset} {bytes} {}\n", op(is_read)),
                };
            }
        }
        for (format, text) in formats {
            let found = read(text.as_bytes(), format);
            let found = &found[usize::from(format == Format::MsBytes)..];
            prop_assert_eq!(found.len(), wanted.len());
            for (found, &(ms, device, is_read, block, sectors)) in found.iter().zip(&wanted) {
                let name = if format == Format::Msr { format!("h.{device}") } else { device.to_string() };
                let op = if is_read { Op::Read } else { Op::Write };
                prop_assert_eq!(found, &(ms * 1_000_000, name, op, block * 512, sectors as u32 * 512));
            }
        }
    }

    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..300), format in 0..7usize) {
        let format = Format::ALL.get(format).copied();
        if let Ok(reader) = TraceReader::new(&bytes[..], format) {
            for access in reader.flatten() {
                prop_assert!(u64::from(access.len_bytes) <= ACCESS_MAX_BYTES);
                prop_assert!(access.offset.checked_add(access.len_bytes.into()).is_some());
            }
        }
    }

    #[test]
    fn a_line_with_a_letter_changed_is_an_access_or_is_named(
        which in 0..4usize, at in 0..200usize, letter in any::<u8>(),
    ) {
        let lines = [
            "0,20000000,8192,W,0.500250\n",
            "128160000010000000,disk,0,Read,4096000000,24576,1200\n",
            "25000000 1 200000 6 0\n",
            "20.500 0 2097152000 4096 1\n",
        ];
        let mut bytes = lines[which].repeat(3).into_bytes();
        let place = lines[which].len() + at % lines[which].len();
        bytes[place] = letter;
        match TraceReader::new(&bytes[..], Some([Format::Spc, Format::Msr, Format::NsSectors, Format::MsBytes][which])) {
            Ok(reader) => for access in reader {
                if let Err(error) = access {
                    let line = error.to_string();
                    prop_assert!(line.starts_with("line 2: ") || line.starts_with("line 3: "), "{line}");
                }
            },
            Err(error) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn within_a_window_any_order_becomes_that_of_time(mut times in proptest::collection::vec(any::<u64>(), 0..64)) {
        let mut ordered = InOrder::new(times.clone().into_iter().map(|time_ns| Ok(at(time_ns))), 64);
        let found: Vec<u64> = ordered.by_ref().map(|access| access.unwrap().time_ns).collect();
        times.sort_unstable();
        prop_assert_eq!(found, times);
        prop_assert_eq!(ordered.retimed(), 0);
    }
}
