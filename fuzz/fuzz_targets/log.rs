//! A log whose whole content someone prepared, under a home device that is as it should be.
#![no_main]

use evenkeel_fuzz::Choices;
use evenkeel_fuzz::world::Images;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices::of(data);
    let mut images = Images::of_kind(choices.byte());
    images.clear_log();
    let (mut place, mut number) = (0, 0);
    while !choices.is_empty() && number < 64 {
        if choices.byte().is_multiple_of(8) {
            images.patch(&mut choices);
        } else {
            place = images.put_record(place, number, &mut choices);
            number += 1;
        }
    }
    images.serve();
});
