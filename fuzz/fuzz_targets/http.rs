//! Requests over HTTP: any bytes are answered or refused, and no page is shown under another host's name.
#![no_main]

use evenkeel_host::service::http::fuzzing::fuzz_request;
// Its bound on memory.
use evenkeel_fuzz as _;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    fuzz_request(data);
});
