//! A salvage of a volume or mirror on whose devices someone changed what they liked, sums included: it ends, and writes nothing.
#![no_main]

use evenkeel_fuzz::Choices;
use evenkeel_fuzz::world::Images;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices::of(data);
    let mut images = Images::of_kind(choices.byte());
    let changes = choices.byte() % 64;
    for _ in 0..changes {
        images.change(&mut choices);
    }
    images.salvage(changes > 0, &mut choices);
});
