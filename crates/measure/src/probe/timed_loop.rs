//! The only timed code: one writer's synchronous writes, one after the other.
//!
//! 1. Between the first write's start and the last one's end it allocates nothing and makes no system call
//!    but the write's own and, through the vDSO, one reading of the clock per write.
//! 2. The end of one write is the start of the next: the latencies add up to the elapsed time.

use std::io;
use std::time::Instant;

use evenkeel_host::aligned::{ALIGNMENT, AlignedBuffer};
use evenkeel_host::durable_file::DurableFile;
use evenkeel_host::interrupt::Interrupt;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Random bytes to write, so that no layer below can compress or deduplicate them, in a window small enough
/// to stay in the processor's cache.
pub struct Source {
    bytes: AlignedBuffer,
}

impl Source {
    /// Bytes for buffers of up to `buffer_bytes_max`.
    pub fn random(buffer_bytes_max: usize, seed: u64) -> Self {
        const WINDOW_BYTES: usize = 1 << 20;
        let mut bytes = AlignedBuffer::zeroed(buffer_bytes_max.max(WINDOW_BYTES));
        StdRng::seed_from_u64(seed).fill_bytes(&mut bytes);
        Self { bytes }
    }

    /// All of the bytes.
    pub fn window(&self) -> &[u8] {
        &self.bytes
    }
}

/// When a writer's first write began and its last one ended.
#[derive(Debug, Clone, Copy)]
pub struct Timed {
    /// Start of the first write.
    pub started: Instant,
    /// End of the last write.
    pub ended: Instant,
}

/// Writes `writes` buffers of `buffer_bytes` one behind the other from `start_offset` of `file`, each durable
/// before the next, and appends each one's nanoseconds to `latencies_ns`.
///
/// # Errors
///
/// Those of the write; `Interrupted` once `interrupt` is asked.
///
/// # Panics
///
/// When `latencies_ns` has no room for `writes` more, or `source` is smaller than a buffer.
pub fn timed_writes(
    file: &mut DurableFile,
    source: &Source,
    start_offset: u64,
    buffer_bytes: usize,
    writes: u64,
    interrupt: &Interrupt,
    latencies_ns: &mut Vec<u64>,
) -> io::Result<Timed> {
    let room = latencies_ns.capacity() - latencies_ns.len();
    assert!(room as u64 >= writes, "the caller reserves room, so that nothing allocates here");
    let stride = buffer_bytes.next_multiple_of(ALIGNMENT);
    let (mut place, mut offset) = (0, start_offset);
    let started = Instant::now();
    let mut before = started;
    for _ in 0..writes {
        if place + buffer_bytes > source.bytes.len() {
            place = 0;
        }
        file.write_at(&source.bytes[place..place + buffer_bytes], offset)?;
        let after = Instant::now();
        latencies_ns.push((after - before).as_nanos() as u64);
        before = after;
        place += stride;
        offset += buffer_bytes as u64;
        if interrupt.is_asked() {
            return Err(io::ErrorKind::Interrupted.into());
        }
    }
    Ok(Timed { started, ended: before })
}

#[cfg(test)]
mod tests {
    use evenkeel_host::durable_file::Open;
    use evenkeel_host::method::Method;

    use super::*;

    #[test]
    fn every_write_is_timed_and_the_times_add_up() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let path = folder.path().join("file");
        let mut file = DurableFile::open(&path, Method::Dsync, Open::New).unwrap();
        let source = Source::random(1000, 7);
        let mut latencies_ns = Vec::with_capacity(50);
        let timed =
            timed_writes(&mut file, &source, 0, 1000, 50, &Interrupt::default(), &mut latencies_ns).unwrap();
        assert_eq!(latencies_ns.len(), 50);
        assert_eq!(u128::from(latencies_ns.iter().sum::<u64>()), (timed.ended - timed.started).as_nanos());
        let written = std::fs::read(&path).unwrap();
        assert_eq!(written.len(), 50_000);
        assert_eq!(written[1000..2000], source.window()[4096..5096]);
    }

    #[test]
    fn an_interrupted_loop_stops_after_the_write_under_way() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let path = folder.path().join("file");
        let mut file = DurableFile::open(&path, Method::Dsync, Open::New).unwrap();
        let source = Source::random(4096, 7);
        let interrupt = Interrupt::default();
        interrupt.ask();
        let mut latencies_ns = Vec::with_capacity(50);
        let stopped = timed_writes(&mut file, &source, 0, 4096, 50, &interrupt, &mut latencies_ns);
        assert_eq!(stopped.unwrap_err().kind(), io::ErrorKind::Interrupted);
        assert_eq!(latencies_ns.len(), 1);
    }
}
