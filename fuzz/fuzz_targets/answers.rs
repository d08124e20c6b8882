//! Answers of an NBD server, handshake and replies: no server hurts its client, or keeps it waiting for ever.
#![no_main]

use evenkeel_host::front::nbd::fuzzing::fuzz_answers;
// Its bound on memory.
use evenkeel_fuzz as _;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    fuzz_answers(data);
});
