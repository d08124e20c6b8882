//! The load: fio reads and writes at random, and writes down how long each took.
//!
//! 1. The volume has three parts: what is read, with checksums that each read is compared with; what is written while a member
//!    is lost; what is written once others are lost for good.
//! 2. A place is written once. What was there before has no checksum, so bytes that are not the newest count as wrong.
//! 3. Each write is durable when it is answered (`O_DSYNC`).
//! 4. Reads and writes are asked for at their rate, whatever others wait for, up to a number of them under way.

use std::time::Duration;

use super::guest::Guest;
use crate::run::{Failure, Outcome};

/// Reads and writes that are asked for in a second.
pub(super) const READS_S: u64 = 70;
pub(super) const WRITES_S: u64 = 30;

/// KiB of a read, and of a write.
pub(super) const READ_KIB: u64 = 4;
pub(super) const WRITE_KIB: u64 = 16;

/// Of these, the most that are under way.
const READS_DEPTH: u64 = 8;
const WRITES_DEPTH: u64 = 4;

/// The parts of the volume in MiB: their beginnings and lengths.
const READ: Part = Part { from: 0, mib: 32 };
pub(super) const FIRST: Part = Part { from: 32, mib: 32 };
pub(super) const SECOND: Part = Part { from: 64, mib: 16 };

/// How long filling and comparing may take.
const FIO_MAX: Duration = Duration::from_secs(600);

#[derive(Clone, Copy)]
pub(super) struct Part {
    from: u64,
    mib: u64,
}

/// When a request was answered in the guest's time, and how long it took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Took {
    pub(super) at_ms: u64,
    pub(super) ms: f64,
}

/// What came of a load.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) reads: Vec<Took>,
    pub(super) writes: Vec<Took>,
    /// Requests that ended with an error.
    pub(super) errors: u64,
    /// Reads of wrong bytes.
    pub(super) wrong: u64,
}

/// The options of fio that all jobs have.
fn fio(name: &str, device: &str, part: Part) -> String {
    format!(
        "/fio --name={name} --filename={device} --offset={}m --size={}m --direct=1 --ioengine=libaio --randrepeat=1 \
         --eta=never \
         --output-format=json --output=/run/{name}.json </dev/null >/dev/null 2>/run/{name}.err",
        part.from, part.mib
    )
}

/// Fills the volume as far as it is used; how many requests ended with an error.
pub(super) fn fill(guest: &mut Guest, device: &str) -> Outcome<u64> {
    let options = "--rw=write --bs=1m --iodepth=4 --end_fsync=1 --continue_on_error=all";
    let sums = "--verify=crc32c --verify_interval=4k --do_verify=0";
    guest.try_run(&format!("{} {options} {sums}", fio("fill", device, READ)), FIO_MAX)?;
    let (first, _) = errors(guest, "fill")?;
    let rest = Part { from: FIRST.from, mib: FIRST.mib + SECOND.mib };
    guest.try_run(&format!("{} {options}", fio("fill", device, rest)), FIO_MAX)?;
    Ok(first + errors(guest, "fill")?.0)
}

/// What writes, and what compares it afterwards.
fn writer(name: &str, device: &str, part: Part, seconds: u64) -> String {
    let bytes = WRITES_S * seconds * WRITE_KIB * 1024;
    format!(
        "{} --rw=randwrite --bs={WRITE_KIB}k --io_size={bytes} --randseed={} --verify=crc32c --iodepth={WRITES_DEPTH} \
         --continue_on_error=all",
        fio(name, device, part),
        part.from
    )
}

/// Begins a load for so many seconds.
pub(super) fn begin(guest: &mut Guest, device: &str, part: Part, seconds: u64) -> Outcome {
    let log = |name: &str| format!("--write_lat_log=/run/{name} --log_unix_epoch=1");
    let rate = |rate: u64| format!("--rate_iops={rate} --rate_process=poisson");
    guest.run("rm -f /run/*.log")?;
    guest.run(&format!(
        "{} --rw=randread --bs={READ_KIB}k --time_based --runtime={seconds} --verify=crc32c --iodepth={READS_DEPTH} \
         --continue_on_error=all {} {} & reads=$!",
        fio("reads", device, READ),
        rate(READS_S),
        log("reads")
    ))?;
    guest.run(&format!(
        "{} --sync=dsync --do_verify=0 {} {} & writes=$!",
        writer("writes", device, part, seconds),
        rate(WRITES_S),
        log("writes")
    ))?;
    Ok(())
}

/// Whether a load is under way.
pub(super) fn is_under_way(guest: &mut Guest) -> Outcome<bool> {
    let told = guest.try_run("kill -0 $reads 2>/dev/null || kill -0 $writes 2>/dev/null", FIO_MAX)?;
    Ok(told.code == 0)
}

/// Waits for the end of a load.
pub(super) fn end(guest: &mut Guest) -> Outcome<Done> {
    guest.try_run("wait $reads $writes", FIO_MAX)?;
    let mut done = Done::default();
    for name in ["reads", "writes"] {
        let (errors, wrong) = errors(guest, name)?;
        done.errors += errors - wrong.min(errors);
        done.wrong += wrong;
        let log = guest.run_within(&format!("cat /run/{name}_lat.1.log"), FIO_MAX)?;
        let took = log.text.lines().filter_map(took).collect();
        *if name == "reads" { &mut done.reads } else { &mut done.writes } = took;
    }
    Ok(done)
}

/// How many writes of a load are wrong, or cannot be read.
pub(super) fn compare(guest: &mut Guest, device: &str, part: Part, seconds: u64) -> Outcome<u64> {
    let command = format!("{} --verify_only", writer("compare", device, part, seconds));
    guest.try_run(&command, FIO_MAX)?;
    let (errors, _) = errors(guest, "compare")?;
    let told = guest.run("grep total_ios /run/compare.json")?.text;
    let (compared, written) = (first_number(&told), WRITES_S * seconds);
    if compared.is_none_or(|compared| compared < written) {
        return Err(Failure::Failed(format!("fio compared {compared:?} of {written} writes:\n{told}")));
    }
    Ok(errors)
}

/// How many requests of a job ended with an error, and of these how many read wrong bytes.
fn errors(guest: &mut Guest, name: &str) -> Outcome<(u64, u64)> {
    let told = guest.try_run(&format!("cat /run/{name}.json /run/{name}.err"), FIO_MAX)?.text;
    let total = told.lines().find_map(|line| line.trim().strip_prefix("\"total_err\" : "));
    let total = total.and_then(first_number);
    let wrong = told.lines().filter(|line| line.starts_with("verify: bad")).count() as u64;
    for line in told.lines().filter(|line| line.contains("error") && line.starts_with("fio:")).take(3) {
        eprintln!("  {name}: {line}");
    }
    total.map(|total| (total, wrong)).ok_or_else(|| Failure::Failed(format!("fio did not end well:\n{told}")))
}

/// The first number in a text.
fn first_number(text: &str) -> Option<u64> {
    text.split(|c: char| !c.is_ascii_digit()).find(|word| !word.is_empty())?.parse().ok()
}

/// A line of fio's log of latencies: ms since 1970, ns, and more.
fn took(line: &str) -> Option<Took> {
    let mut words = line.split(',').map(str::trim);
    let at_ms = words.next()?.parse().ok()?;
    let ns: u64 = words.next()?.parse().ok()?;
    Some(Took { at_ms, ms: ns as f64 / 1e6 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_log_say_when_and_how_long() {
        let line = "1700000000123, 1500000, 1, 4096, 8192, 0";
        assert_eq!(took(line), Some(Took { at_ms: 1_700_000_000_123, ms: 1.5 }));
        assert_eq!(first_number("  \"total_ios\" : 2250,\n  \"total_ios\" : 3,"), Some(2250));
        assert_eq!(first_number("none"), None);
        assert_eq!(took("fio: something else"), None);
        assert_eq!(took("17, x"), None);
    }
}
