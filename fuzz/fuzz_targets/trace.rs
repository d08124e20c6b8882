//! Block traces: whatever a file holds, its accesses lie within bounds, find a place, and say the same when written anew.
#![no_main]

// Its bound on memory.
use evenkeel_fuzz as _;
use evenkeel_trace::placement::{Fit, Placement};
use evenkeel_trace::survey::Survey;
use evenkeel_trace::{ACCESS_MAX_BYTES, Access, Format, Op, TraceReader};
use libfuzzer_sys::fuzz_target;

const TARGET_BYTES: u64 = 128 << 20;

const SECTOR_BYTES: u64 = 512;

fn accesses(bytes: &[u8], format: Option<Format>) -> Option<Vec<Access>> {
    TraceReader::new(bytes, format).ok()?.collect::<Result<_, _>>().ok()
}

fuzz_target!(|data: &[u8]| {
    let [format, bytes @ ..] = data else { return };
    // Of any format, or of the one that it looks like.
    let format = Format::ALL.get(usize::from(*format) % (Format::ALL.len() + 1)).copied();
    let Ok(mut reader) = TraceReader::new(bytes, format) else { return };
    // Before an error, too: a line tells nothing of those after it.
    for access in reader.by_ref().flatten() {
        assert!(u64::from(access.len_bytes) <= ACCESS_MAX_BYTES);
        assert!(access.offset.checked_add(access.len_bytes.into()).is_some());
        assert_eq!(access.len_bytes == 0, access.op == Op::Flush);
    }
    let found = reader.format();
    let Some(all) = accesses(bytes, format) else { return };
    assert_eq!(accesses(bytes, Some(found)).as_ref(), Some(&all));

    let mut again = TraceReader::new(bytes, Some(found)).expect("it was read before");
    let survey = Survey::of(&mut again, || true).expect("it was read before").expect("it goes on");
    assert_eq!(survey.devices.iter().map(|device| device.requests()).sum::<u64>(), all.len() as u64);
    for fit in [Fit::Wrap, Fit::Scale] {
        let Ok(placement) = Placement::of(&survey, &[]).and_then(|it| it.onto(TARGET_BYTES, fit)) else {
            continue;
        };
        for access in &all {
            let place = placement.place(access).expect("it was surveyed").expect("no device is left out");
            assert!(place.offset + u64::from(access.len_bytes) <= TARGET_BYTES);
        }
    }

    let is_whole = |access: &Access| {
        access.op != Op::Flush && (access.offset | u64::from(access.len_bytes)).is_multiple_of(SECTOR_BYTES)
    };
    let whole: Vec<Access> = all.into_iter().filter(is_whole).collect();
    let lines = whole.iter().map(|access| {
        let (block, sectors) = (access.offset / SECTOR_BYTES, u64::from(access.len_bytes) / SECTOR_BYTES);
        format!(
            "{} {} {block} {sectors} {}\n",
            access.time_ns,
            access.device.0,
            u8::from(access.op == Op::Read)
        )
    });
    let written =
        accesses(lines.collect::<String>().as_bytes(), Some(Format::NsSectors)).expect("it is right");
    let told = |access: &Access| (access.time_ns, access.op, access.offset, access.len_bytes);
    assert!(written.iter().map(told).eq(whole.iter().map(told)));
});
