//! Heads of a ring's members and of log devices: what is taken for one says the same when it is written anew.
#![no_main]

use evenkeel_engine::format::PAGE;
use evenkeel_engine::format::log_head::{self, LOGS_MAX, LogHead};
use evenkeel_engine::format::ring_head::{self, MEMBERS_MAX, RingHead};
use evenkeel_fuzz::{Choices, seal_page_head};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices::of(data);
    let shape = choices.byte();
    let magic = if shape & 4 == 0 { b"evenring" } else { b"evenklog" };
    let mut page = if shape & 1 == 0 {
        choices.rest().to_vec()
    } else {
        let fields: Vec<u8> = (0..12).flat_map(|_| choices.word().to_le_bytes()).collect();
        let mut page = vec![0; PAGE];
        page[..fields.len()].copy_from_slice(&fields);
        page
    };
    if shape & 2 != 0 {
        seal_page_head(&mut page, magic);
    }
    if let Some(found) = RingHead::decode(&page) {
        assert_eq!(RingHead::decode(&found.encode()), Some(found));
        assert!(found.offset() < ring_head::DATA_OFFSET && usize::from(found.places) <= MEMBERS_MAX);
        // The next one is written beside it.
        assert!(RingHead { generation: found.generation + 1, ..found }.offset() != found.offset());
    }
    if let Some(found) = LogHead::decode(&page) {
        assert_eq!(LogHead::decode(&found.encode()), Some(found));
        assert!(found.offset() < log_head::DATA_OFFSET && usize::from(found.places) <= LOGS_MAX);
    }
});
