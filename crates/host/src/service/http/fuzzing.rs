//! Any bytes as a client of the page.

use super::request::{Hosts, Request, is_whole};

/// Bytes of a request that is also taken byte by byte.
const TRICKLED_MAX_BYTES: usize = 512;

/// Takes bytes for the head of a request to a page and to the metrics, and for the host that one asks for.
///
/// # Panics
///
/// Where something is answered that must not be: a head without an end, one that is answered in another way where it
/// comes in parts, what asks for no path, a page of another host.
pub fn fuzz_request(bytes: &[u8]) {
    let named = || Hosts::Named(Vec::new());
    for hosts in [Hosts::Any, named()] {
        let Ok(request) = Request::parse(bytes, &hosts) else { continue };
        let trickled = (0..bytes.len().min(TRICKLED_MAX_BYTES)).find(|&len| is_whole(&bytes[..len]));
        if let Some(len) = trickled {
            let first = Request::parse(&bytes[..len], &hosts);
            assert_eq!(first.as_ref(), Ok(&request), "what comes in parts is answered in another way");
        }
        assert!(is_whole(bytes), "a head that has no end");
        assert!(request.path.starts_with('/') && request.path.len() <= bytes.len(), "no path");
        let _any_number_or_none = request.number("since");
    }
    let head = [b"GET / HTTP/1.1\r\nHost: ", bytes, b"\r\n\r\n"].concat();
    if !bytes.contains(&b'\n') && Request::parse(&head, &named()).is_ok() {
        let host = String::from_utf8_lossy(bytes).trim().to_ascii_lowercase();
        let has_letter = host.contains(|letter: char| letter.is_alphabetic());
        let is_here = host == "localhost" || host.starts_with("localhost:") || host.starts_with('[');
        assert!(!has_letter || is_here, "a page is shown under the name {host}");
    }
}
