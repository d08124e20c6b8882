//! Groups of this machine.

#![allow(unsafe_code)]

use std::ffi::{CString, c_char};
use std::io;
use std::ptr;

/// What the entry of a group takes at first, and at most: one may have many members.
const ENTRY_BYTES: usize = 16 << 10;
const ENTRY_MAX_BYTES: usize = 16 << 20;

/// The number of the group called `name`, or that is `name`; `None` where there is none.
///
/// # Errors
///
/// Those of looking it up.
pub fn id_of(name: &str) -> io::Result<Option<u32>> {
    if let Ok(id) = name.parse() {
        return Ok(Some(id));
    }
    let Ok(name) = CString::new(name) else { return Ok(None) };
    let mut entry_bytes = ENTRY_BYTES;
    loop {
        let mut strings: Vec<c_char> = vec![0; entry_bytes];
        let mut group = libc::group {
            gr_name: ptr::null_mut(),
            gr_passwd: ptr::null_mut(),
            gr_gid: 0,
            gr_mem: ptr::null_mut(),
        };
        let mut found = ptr::null_mut();
        // SAFETY: the name ends with a zero, `strings` is as long as is said, and all pointers outlive the call. What it
        // leaves in `group` points into `strings`; only a number is taken out of it.
        let failed = unsafe {
            libc::getgrnam_r(
                name.as_ptr(),
                &raw mut group,
                strings.as_mut_ptr(),
                strings.len(),
                &raw mut found,
            )
        };
        match failed {
            0 => return Ok((!found.is_null()).then_some(group.gr_gid)),
            libc::ERANGE if entry_bytes < ENTRY_MAX_BYTES => entry_bytes *= 2,
            libc::ENOENT | libc::ESRCH => return Ok(None),
            failed => return Err(io::Error::from_raw_os_error(failed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_found_by_its_name_or_number() {
        assert_eq!(id_of("root").unwrap(), Some(0));
        assert_eq!(id_of("4711").unwrap(), Some(4711));
        for unknown in ["", "no such group", "-1", "a\0b"] {
            assert_eq!(id_of(unknown).unwrap(), None, "{unknown:?}");
        }
    }
}
