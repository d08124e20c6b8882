//! What is on the store is hostile: whatever is damaged, there is an answer, and it does not take for ever.

use std::panic::AssertUnwindSafe;

use crate::common::run;
use crate::exercise;
use evenkeel_ext2::{FileSystem, MemoryStore, MountError, MountOptions, Timestamp};
use evenkeel_sim::random::Random;

fn copy(store: &MemoryStore) -> MemoryStore {
    store.after_power_cut(|| true)
}

/// Changes bytes where there are some: mostly to small numbers, and to those of other blocks.
fn damage(store: &MemoryStore, blocks: &[u64], random: &mut Random) {
    for _ in 0..1 + random.below(6) {
        let offset = random.pick(blocks) * 4096 + random.below(1024) * 4;
        let word = match random.below(5) {
            0 => random.number() as u32,
            1 => u32::MAX,
            2 => *random.pick(blocks) as u32,
            3 => 1 << random.below(32),
            _ => random.below(1024) as u32,
        };
        match random.below(4) {
            0 => store.patch(offset + random.below(4), &[random.number() as u8]),
            1 => store.patch(offset, &(word as u16).to_le_bytes()),
            _ => store.patch(offset, &word.to_le_bytes()),
        }
    }
}

#[test]
fn damaged_images_are_answered() {
    let image = run(exercise::image());
    let mut blocks = Vec::new();
    image.for_each_block(|number, bytes| {
        // Data of files is nobody's to check.
        if bytes[..2000].iter().any(|&byte| byte != bytes[0]) {
            blocks.push(number);
        }
    });
    for seed in 0..3000 {
        let mut random = Random::new(seed);
        let store = copy(&image);
        damage(&store, &blocks, &mut random);
        let played = std::panic::catch_unwind(AssertUnwindSafe(|| run(exercise::exercise(store))));
        assert!(played.is_ok(), "seed {seed}");
    }
}

#[test]
fn what_cannot_be_mounted_says_why_and_what_to_do() {
    let image = run(exercise::image());
    let refusal = |patch: &[(u64, &[u8])]| {
        let store = copy(&image);
        patch.iter().for_each(|(offset, bytes)| store.patch(1024 + offset, bytes));
        let mounted = run(FileSystem::mount(store, MountOptions::default(), Timestamp::default));
        match mounted {
            Err(MountError::Unusable(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    for (patch, said) in [
        ((56, &b"xx"[..]), "there is no ext2"),
        ((24, &[0]), "blocks are not of 4096"),
        ((58, &[0]), "e2fsck -f"),
        ((96, &[0x42]), "features"),
        ((4, &[0xff; 4]), "grow the volume"),
        ((12, &[1]), "counts"),
        ((32, &[0; 4]), "blocks of a group"),
        ((232, &[200]), "orphans"),
    ] {
        let why = refusal(&[patch]);
        assert!(why.contains(said), "{why}");
    }
}
