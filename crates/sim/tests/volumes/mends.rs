//! Stories of members on which more is wrong than is put right at a time.

use evenkeel_engine::device::Durability;
use evenkeel_engine::volume::ScrubMode;
use evenkeel_sim::random::Random;

use crate::machine::PAGE;
use crate::machine::mirror::{Machine, Plan, noise};

/// More than are mended at a time.
const PAGES: u64 = 1800;

#[test]
fn a_scrub_mends_all_of_a_member_that_has_rotted_whole() {
    for plan in [Plan::mirror(2, 2), Plan::striped(2, 1, 2)] {
        let mut plan = plan;
        plan.create.size_bytes = PAGES * PAGE;
        let mut machine = Machine::new(plan, 5);
        let bytes = noise(3, (PAGES * PAGE) as usize);
        machine.run_whole(async |run| {
            let (volume, ..) = run.open().await.unwrap();
            volume.write(0, &bytes, Durability::Durable).await.unwrap();
            volume.close().await.unwrap();
        });
        machine.power_cut();
        let data = machine.plan.ring.stripes.map_or(1, |stripes| stripes.data() as u64);
        let on_ring = machine.page_on_member(0).offset - machine.plan.data_offset();
        let first = machine.plan.data_offset() + on_ring / data;
        machine.members[1].borrow_mut().rot(first, PAGES * PAGE / data, &mut Random::new(1));
        machine.run_whole(async |run| {
            let (volume, ..) = run.open().await.unwrap();
            let found = volume.scrub(ScrubMode::Repair, u64::MAX).await.unwrap();
            assert!(found.wrong_copies >= PAGES / 2, "{found:?}");
            assert_eq!(found.damaged_pages, []);
            volume.close().await.unwrap();
        });
        machine.power_cut();
        machine.members_gone = vec![0];
        assert!(machine.contents() == bytes);
    }
}
