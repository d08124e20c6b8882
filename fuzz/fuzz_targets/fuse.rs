//! Requests of the kernel to a mount: any bytes are read, or refused, within their bounds.
#![no_main]

use evenkeel_host::front::fuse::fuzzing::fuzz_request;
// Its bound on memory.
use evenkeel_fuzz as _;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    fuzz_request(data);
});
