//! A volume in use on whose devices and in whose arena someone changed what they liked, sums included.
#![no_main]

use evenkeel_fuzz::Choices;
use evenkeel_fuzz::world::Images;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices::of(data);
    let mut images = Images::of_kind(choices.byte());
    for _ in 0..64 {
        if choices.is_empty() {
            break;
        }
        images.change(&mut choices);
    }
    images.serve();
});
