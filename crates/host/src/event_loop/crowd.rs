//! Whether each processor has something to do already.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::str;
use std::thread;

/// Bytes of `/proc/loadavg`, at most.
const TEXT_MAX: usize = 128;

/// The machine's processors, and who wants them.
#[derive(Debug)]
pub(super) struct Crowd {
    /// Processors that this process may use, as its affinity and its control groups have it.
    processors: usize,
    /// `/proc/loadavg`.
    loads: Option<File>,
}

impl Crowd {
    /// Of this machine.
    pub(super) fn of_machine() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Self { processors, loads: File::open("/proc/loadavg").ok() }
    }

    /// Whether no processor is idle while the caller runs; also where that cannot be told.
    pub(super) fn is_everywhere(&self) -> bool {
        let mut text = [0; TEXT_MAX];
        let read = self.loads.as_ref().and_then(|loads| loads.read_at(&mut text, 0).ok());
        runnable(&text[..read.unwrap_or(0)]).is_none_or(|runnable| runnable >= self.processors)
    }
}

/// Threads that run or could, the caller among them: the fourth field of `/proc/loadavg` (proc_loadavg(5)), before the slash.
fn runnable(loads: &[u8]) -> Option<usize> {
    let fourth = str::from_utf8(loads).ok()?.split_ascii_whitespace().nth(3)?;
    fourth.split_once('/')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runnable_threads_are_told_before_the_slash() {
        assert_eq!(runnable(b"0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(runnable(b"0.20 0.18 0.12 80 11206\n"), None);
        assert_eq!(runnable(b""), None);
    }

    #[test]
    fn who_cannot_be_counted_is_everywhere_and_one_processor_is_never_idle_meanwhile() {
        assert!(Crowd { processors: usize::MAX, loads: None }.is_everywhere());
        let loads = File::open("/proc/loadavg").ok();
        assert!(Crowd { processors: 1, loads }.is_everywhere());
        let loads = File::open("/proc/loadavg").ok();
        assert!(!Crowd { processors: usize::MAX, loads }.is_everywhere());
    }
}
