//! Sessions of NBD, handshake and requests: no client hurts the server or another client, or takes more than its limits.
#![no_main]

use evenkeel_host::front::nbd::fuzzing::{fuzz_bytes, fuzz_session};
// Its bound on memory.
use evenkeel_fuzz as _;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| match data {
    // As every client begins, whose flags fit into the last of four bytes: all that it sends. The two bytes in between
    // say what else happens.
    [0, high, low, ..] => {
        let mut bytes = data.to_vec();
        bytes[1..3].fill(0);
        fuzz_bytes(&bytes, u64::from(u16::from_be_bytes([*high, *low])));
    }
    // Choices of which messages are made.
    [_, script @ ..] => drop(fuzz_session(script)),
    [] => {}
});
