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
        let change = choices.byte();
        match change % 4 {
            _ if change >= 224 => images.forge_arena(&mut choices),
            0 => images.change_superblock(&mut choices),
            1 => {
                let (place, number) = (choices.below(64) * 512, choices.below(8));
                images.put_record(place, number, &mut choices);
            }
            _ => images.patch(&mut choices),
        }
    }
    images.serve();
});
