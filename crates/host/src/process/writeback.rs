//! A server below file systems of its own machine.
//!
//! Where the kernel's NBD client of this machine uses a volume, memory may be short because pages wait to be written to this
//! very volume. A server that then needs memory, and waits until pages are written for it, waits for itself.
//!
//! 1. [`serves_writeback`]: the kernel, looking for memory for this process, starts no I/O, and does not slow its writes down
//!    to make others' room. Only who has CAP_SYS_RESOURCE may say so; for others all stays as it is.
//! 2. [`lock_memory`]: what the process has once touched is not swapped out, to this very disk for one.

use std::io;

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, configure_io_flusher_behavior, getrlimit};

/// The number of CAP_IPC_LOCK.
const IPC_LOCK: u32 = 14;

/// Tells the kernel that writeback may wait for this process: this thread, and those that it starts from here on. Whether
/// it may say so.
pub fn serves_writeback() -> bool {
    configure_io_flusher_behavior(true).is_ok()
}

/// Keeps in memory what the process has touched and will touch; what it never touches takes none.
///
/// # Errors
///
/// The system refuses where the memory that may be locked is limited: then an allocation might fail later.
pub fn lock_memory() -> io::Result<()> {
    if let Some(limit) = getrlimit(Resource::Memlock).current
        && !has_capability(IPC_LOCK)
    {
        let why = format!(
            "this process may lock {} KiB of memory, and needs all that it takes: raise that (LimitMEMLOCK=infinity in its \
             unit, `ulimit -l unlimited`), give it CAP_IPC_LOCK, or leave the option out",
            limit / 1024
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)?;
    Ok(())
}

/// Whether this process has a capability in effect.
fn has_capability(number: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    effective.is_some_and(|effective| effective >> number & 1 == 1)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rustix::process::is_io_flusher;

    use super::*;
    use crate::skipped::skip;

    /// The number of CAP_SYS_RESOURCE.
    const SYS_RESOURCE: u32 = 24;

    /// Whether capabilities of this process are those of the machine, and none of a container's users alone.
    fn is_in_first_user_namespace() -> bool {
        const NAME: &str = "user:[4026531837]";
        std::fs::read_link("/proc/self/ns/user").is_ok_and(|name| name.as_os_str() == NAME)
    }

    #[test]
    fn threads_that_are_started_later_serve_writeback_as_well() {
        const NAME: &str = "threads_that_are_started_later_serve_writeback_as_well";
        if !has_capability(SYS_RESOURCE) || !is_in_first_user_namespace() {
            return skip(NAME, "PR_SET_IO_FLUSHER takes CAP_SYS_RESOURCE, which root has outside containers");
        }
        // In threads of its own: no other test is meant.
        thread::spawn(|| {
            assert!(serves_writeback());
            assert!(is_io_flusher().unwrap());
            assert!(thread::spawn(|| is_io_flusher().unwrap()).join().unwrap());
        })
        .join()
        .unwrap();
    }
}
