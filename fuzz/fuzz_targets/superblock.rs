//! Superblocks: what is taken for one says the same when it is written anew, and describes a layout that fits or none.
#![no_main]

use evenkeel_engine::format::PAGE;
use evenkeel_engine::format::layout::HOME_COPIES;
use evenkeel_engine::format::superblock::Superblock;
use evenkeel_fuzz::{Choices, seal_superblock};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices::of(data);
    let shape = choices.byte();
    let mut page = if shape & 1 == 0 {
        choices.rest().to_vec()
    } else {
        let fields: Vec<u8> = (0..56).flat_map(|_| choices.word().to_le_bytes()).collect();
        let mut page = vec![0; PAGE];
        page[..fields.len()].copy_from_slice(&fields);
        page
    };
    if shape & 2 != 0 {
        seal_superblock(&mut page);
    }
    let Some(found) = Superblock::decode(&page) else { return };
    assert_eq!(Superblock::decode(&found.encode()), Some(found));

    let Some(layout) = found.layout() else { return };
    assert!(layout.log.offset.checked_add(layout.log.len).is_some());
    let mut zones = vec![layout.roots[0], layout.roots[1]];
    zones.extend(layout.segments.iter().flat_map(|segment| [segment.table, segment.data]));
    if !layout.separate_log {
        zones.push(layout.log);
    }
    for (place, zone) in zones.iter().enumerate() {
        assert!(zone.fits(found.home_bytes));
        assert!(zones[..place].iter().all(|other| !other.overlaps(zone)));
    }
    for copy in 0..HOME_COPIES {
        assert!(layout.home_copy_offset(copy) <= found.home_bytes - PAGE as u64);
    }
});
