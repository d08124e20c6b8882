//! Where requests go: apart where there is room, and else wrapped, scaled or refused.

use proptest::prelude::*;

use super::placement::*;
use super::survey::{DeviceSurvey, Survey};
use super::*;

/// A trace of devices that reach so far, with requests of up to `longest_bytes`.
fn surveyed(devices: &[(&str, u64)], longest_bytes: u32) -> Survey {
    let device = |&(name, reach_bytes): &(&str, u64)| DeviceSurvey {
        name: name.to_owned(),
        reads: 1,
        reach_bytes,
        longest_bytes,
        ..DeviceSurvey::default()
    };
    Survey { format: Format::Spc, devices: devices.iter().map(device).collect(), skipped: 0 }
}

fn access(device: u32, offset: u64, len_bytes: u32) -> Access {
    Access { time_ns: 0, device: DeviceId(device), op: Op::Read, offset, len_bytes }
}

#[test]
fn devices_lie_one_behind_the_other_and_never_meet() {
    let survey = surveyed(&[("a", 5000), ("b", 3 << 20), ("c", 512)], 512);
    let placement = Placement::of(&survey, &[]).unwrap().onto(1 << 30, Fit::Refuse).unwrap();
    let places: Vec<Moved> =
        (0..3).map(|device| placement.place(&access(device, 0, 512)).unwrap().unwrap()).collect();
    assert_eq!(places, [0, 1 << 20, 4 << 20].map(|offset| Moved { offset, is_moved: false }));
    assert_eq!(placement.reach_bytes(), (4 << 20) + 512);

    // Those that are left out take no room.
    let placement = Placement::of(&survey, &["c".to_owned()]).unwrap().onto(512, Fit::Refuse).unwrap();
    assert_eq!(placement.place(&access(2, 0, 512)), Ok(Some(Moved { offset: 0, is_moved: false })));
    assert_eq!((0..4).map(|device| placement.has(device)).collect::<Vec<_>>(), [false, false, true, false]);
    assert_eq!(placement.place(&access(0, 0, 512)), Ok(None));
    let unknown = Placement::of(&survey, &["d".to_owned()]).unwrap_err().to_string();
    assert!(unknown.contains("no device `d`") && unknown.contains("a, b, c"), "{unknown}");
}

#[test]
fn what_does_not_fit_is_wrapped_scaled_or_refused() {
    let survey = surveyed(&[("a", 1 << 20)], 4096);
    let placement = Placement::of(&survey, &[]).unwrap();
    let at = |fit, offset| {
        let onto = placement.clone().onto((256 << 10) + 100, fit).unwrap();
        onto.place(&access(0, offset, 4096)).unwrap().unwrap()
    };
    let moved = |offset| Moved { offset, is_moved: true };
    assert_eq!(at(Fit::Wrap, 8192), Moved { offset: 8192, is_moved: false });
    assert_eq!(at(Fit::Wrap, (256 << 10) + 512), moved(512));
    // One that would cross the end is not broken in two.
    assert_eq!(at(Fit::Wrap, (512 << 10) - 512), moved((256 << 10) - 4096));
    // A quarter of the room; the place within a page stays.
    assert_eq!(at(Fit::Scale, (512 << 10) + 512), moved((128 << 10) + 512));
    let refused = placement.clone().onto(256 << 10, Fit::Refuse).unwrap_err();
    assert_eq!(refused, PlacementError::Beyond { reach_bytes: 1 << 20, target_bytes: 256 << 10 });
    let too_long = placement.onto(4095, Fit::Wrap).unwrap_err();
    assert_eq!(too_long, PlacementError::TooLong { longest_bytes: 4096, target_bytes: 4095 });
}

#[test]
fn a_trace_that_changed_since_it_was_surveyed_is_noticed() {
    let survey = surveyed(&[("a", 1 << 20)], 4096);
    let placement = Placement::of(&survey, &[]).unwrap().onto(4096, Fit::Wrap).unwrap();
    assert!(placement.place(&access(0, (1 << 20) - 512, 512)).is_ok());
    assert_eq!(placement.place(&access(0, 1 << 20, 512)), Err(TraceChanged));
    assert_eq!(placement.place(&access(0, 0, 8192)), Err(TraceChanged));
    assert_eq!(placement.place(&access(1, 0, 512)), Err(TraceChanged));
}

#[test]
fn devices_beyond_what_can_be_counted_are_refused() {
    let survey = surveyed(&[("a", u64::MAX), ("b", 512)], 512);
    assert_eq!(Placement::of(&survey, &[]).unwrap_err(), PlacementError::Uncountable);
    assert!(Placement::of(&survey, &["a".to_owned()]).is_ok());
    assert_eq!(Placement::of(&surveyed(&[], 0), &[]).unwrap_err(), PlacementError::Nothing);
}

proptest! {
    #[test]
    fn every_request_lies_within_the_target(
        reaches in proptest::collection::vec(65_536..1u64 << 62, 1..4),
        target_bytes in 4096..1u64 << 50,
        fit in prop_oneof![Just(Fit::Wrap), Just(Fit::Scale)],
        chosen in proptest::collection::vec((0..4usize, any::<u64>(), 1..65_536u32), 1..50),
    ) {
        let names = ["a", "b", "c", "d"];
        let devices: Vec<(&str, u64)> = names.into_iter().zip(reaches.iter().copied()).collect();
        let Ok(placement) = Placement::of(&surveyed(&devices, 65_536), &[]) else { return Ok(()) };
        let Ok(placement) = placement.onto(target_bytes, fit) else { return Ok(()) };
        for (device, offset, len_bytes) in chosen {
            let device = device % reaches.len();
            let offset = offset % (reaches[device] - u64::from(len_bytes));
            let place = placement.place(&access(device as u32, offset, len_bytes)).unwrap().unwrap();
            prop_assert!(place.offset + u64::from(len_bytes) <= target_bytes);
        }
    }

    #[test]
    fn scaling_keeps_the_order_of_places(
        target_pages in 32..1u64 << 30, reach in 1u64 << 40..1 << 60, offsets in proptest::collection::vec(any::<u64>(), 2..20)
    ) {
        let placement = Placement::of(&surveyed(&[("a", reach)], 512), &[]).unwrap();
        let placement = placement.onto(target_pages * 4096, Fit::Scale).unwrap();
        let mut offsets: Vec<u64> = offsets.into_iter().map(|offset| offset % (reach - 512) / 4096 * 4096).collect();
        offsets.sort_unstable();
        let places: Vec<u64> =
            offsets.iter().map(|&offset| placement.place(&access(0, offset, 512)).unwrap().unwrap().offset).collect();
        prop_assert!(places.is_sorted());
        prop_assert!(offsets.iter().zip(&places).all(|(offset, place)| offset % 4096 == place % 4096));
    }
}
