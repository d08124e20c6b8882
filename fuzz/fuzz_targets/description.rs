//! Descriptions of volumes: any text is refused, or read, written and read again as the same.
#![no_main]

use evenkeel_host::volume::fuzzing::fuzz_description;
// Its bound on memory.
use evenkeel_fuzz as _;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    fuzz_description(data);
});
