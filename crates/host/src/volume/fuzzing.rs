//! Any text as the description of a volume.

use super::description::Description;

/// Takes bytes for a description: what is read is written and read again, and is the same.
///
/// # Panics
///
/// Where it is not.
pub fn fuzz_description(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(read) = toml::from_str::<Description>(text) else { return };
    let _no_more_than_can_be_counted = (read.member_geometry(), read.log_geometry(), read.region_bytes());
    let written = toml::to_string(&read).expect("what was read can be written");
    let again: Description = toml::from_str(&written).expect("what was written can be read");
    assert_eq!(again, read, "it is read as another one than was written");
}
