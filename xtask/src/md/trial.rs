//! One contender in one guest: a member is lost and comes back under load, then others are lost for good.
//!
//! ```text
//!  begin ─► lost ─ 5 s ─► back ─ ? s ─► whole ─ the rest of the load ─► end; others lost for good under a second load
//! ```
//!
//! 1. All moments are in the guest's time, as its own log of latencies is.
//! 2. A request belongs to the phase in which it was answered.
//! 3. Others are lost for good only once all members have everything. What is compared then needs the one that came back.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::contenders::{Contender, LOG_MIB, Layout, Running};
use super::guest::Guest;
use super::load::{self, Done, FIRST, SECOND, Took};
use super::members::{Bytes, Member};
use crate::guests::machine::Kernel;
use crate::run::Outcome;

/// Seconds of the load before the loss.
pub(super) const BEFORE_S: u64 = 10;

/// Seconds for which a member is lost.
pub(super) const AWAY_S: u64 = 5;

/// Seconds of the load after that.
pub(super) const AFTER_S: u64 = 25;

/// Seconds of the second load, and of those before the loss for good.
pub(super) const SECOND_S: u64 = 10;
pub(super) const SECOND_BEFORE_S: u64 = 3;

/// Seconds of a load for fio to begin in, which count for nothing.
const BEGIN_S: u64 = 5;

/// How long after the load a contender may take to be whole.
const WHOLE_MAX: Duration = Duration::from_secs(240);

const PAUSE: Duration = Duration::from_millis(200);

/// The phases, in their order.
pub(super) const PHASES: [&str; 5] = ["before", "lost", "back", "whole", "others lost"];

/// What a client sees in a phase, in ms.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits {
    pub(super) reads: Vec<f64>,
    pub(super) writes: Vec<f64>,
}

#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) phases: [Waits; PHASES.len()],
    /// Errors of clients' requests as it is filled.
    filling: u64,
    /// Whether it took no writes any more after that, and had to be started anew.
    pub(super) stopped: bool,
    /// Errors of clients' requests: until the end of the first load, and under the second.
    pub(super) errors: [u64; 2],
    /// Reads of wrong bytes, and writes that cannot be read as they were written: while whole, and with others lost for good.
    pub(super) wrong: [u64; 2],
    /// Drives that were given up although nothing had been done to them.
    pub(super) strays: u64,
    /// Seconds from the return to whole, if it came to that.
    pub(super) whole_s: Option<f64>,
    /// Bytes of the member that came back, and of the others, from the return to whole.
    pub(super) member: Bytes,
    pub(super) others: Bytes,
    /// What the same time took of them before the loss.
    pub(super) member_before: Bytes,
    pub(super) others_before: Bytes,
}

impl Measured {
    /// A line for who watches.
    pub(super) fn summary(&self) -> String {
        let longest = |waits: &[f64]| waits.iter().copied().fold(0.0, f64::max);
        let waits = self.phases.iter().map(|waits| {
            format!(
                "{:.0}+{:.0} ms of {}+{}",
                longest(&waits.reads),
                longest(&waits.writes),
                waits.reads.len(),
                waits.writes.len()
            )
        });
        format!(
            "  errors {:?}, wrong {:?}, given up {}, stopped {}, whole after {:?} s, member {:?} for {:?}, others {:?} for {:?}; longest {}",
            self.errors,
            self.wrong,
            self.strays,
            self.stopped,
            self.whole_s,
            self.member,
            self.member_before,
            self.others,
            self.others_before,
            waits.collect::<Vec<_>>().join(", ")
        )
    }
}

/// A trial in a new guest, with new members.
pub(super) fn trial(
    kernel: &Kernel,
    image: &Path,
    folder: &Path,
    layout: &Layout,
    contender: Contender,
) -> Outcome<Measured> {
    let device =
        |kind: &str, number: usize, mib: u64| Member::new(folder, &format!("{kind}-{number}"), mib << 20);
    let members = (0..layout.members).map(|number| device("member", number, layout.member_mib()));
    let mut members = members.collect::<Outcome<Vec<Member>>>()?;
    let logs = (0..layout.logs_of(contender)).map(|number| device("log", number, LOG_MIB));
    let logs = logs.collect::<Outcome<Vec<Member>>>()?;
    let mut guest = Guest::boot(kernel, image)?;
    let running = Running { layout, contender };
    let measured = go(&running, &mut guest, &mut members, &logs);
    for (at, said) in &guest.said {
        eprintln!("  {}.{:03} {said}", at / 1000 % 1000, at % 1000);
    }
    if measured.is_err()
        && let Ok(told) = guest.try_run("dmesg | tail -n 30", Duration::from_secs(20))
    {
        eprintln!("{}", told.text);
    }
    measured
}

fn go(
    running: &Running<'_>,
    guest: &mut Guest,
    members: &mut [Member],
    logs: &[Member],
) -> Outcome<Measured> {
    let (device, lost) = (running.device(), running.layout.lost);
    running.make(guest, members, logs)?;
    let mut measured = Measured { filling: load::fill(guest, device)?, ..Measured::default() };
    measured.stopped = !running.cool(guest)?;
    let seconds = BEGIN_S + BEFORE_S + AWAY_S + AFTER_S;
    load::begin(guest, device, FIRST, seconds)?;
    wait(BEGIN_S);
    let (begun, bytes_begun) = (guest.time()?, bytes(members, lost)?);
    wait(BEFORE_S);
    measured.strays += running.given_up(guest)?;
    let (said, bytes_lost) = (guest.said.len(), bytes(members, lost)?);
    members[lost].lose();
    let lost_at = guest.time()?;
    wait(AWAY_S);
    let bytes_back = bytes(members, lost)?;
    members[lost].bring_back()?;
    let back = guest.time()?;
    running.tell(guest, members)?;
    let whole = wait_until_whole(running, guest, said)?;
    let bytes_whole = bytes(members, lost)?;
    let done = load::end(guest)?;
    let end = whole.unwrap_or(u64::MAX);
    let moments = [begun, lost_at, back, end, u64::MAX];
    put(&mut measured.phases, &moments, &done, 0);
    measured.errors[0] = done.errors + measured.filling;
    measured.wrong[0] = done.wrong + load::compare(guest, device, FIRST, seconds)?;
    let Some(whole) = whole else { return Ok(measured) };
    // The one that was lost is among evenkeel's, and not among md's any more.
    measured.strays = measured.strays.max(running.given_up(guest)?.saturating_sub(running.counts_lost()));
    let took_s = (whole - back) as f64 / 1e3;
    measured.whole_s = Some(took_s);
    let share = took_s * 1e3 / (lost_at - begun) as f64;
    let before = |end: Bytes, begin: Bytes| {
        let Bytes { read, written } = end.since(begin);
        Bytes { read: (read as f64 * share) as u64, written: (written as f64 * share) as u64 }
    };
    measured.member = bytes_whole.0.since(bytes_back.0);
    measured.others = bytes_whole.1.since(bytes_back.1);
    measured.member_before = before(bytes_lost.0, bytes_begun.0);
    measured.others_before = before(bytes_lost.1, bytes_begun.1);

    load::begin(guest, device, SECOND, SECOND_S)?;
    wait(SECOND_BEFORE_S);
    for &other in running.layout.lost_for_good {
        members[other].lose();
    }
    let lost_at = guest.time()?;
    let done = load::end(guest)?;
    put(&mut measured.phases, &[lost_at, u64::MAX], &done, PHASES.len() - 1);
    measured.errors[1] = done.errors;
    measured.wrong[1] = done.wrong
        + load::compare(guest, device, FIRST, seconds)?
        + load::compare(guest, device, SECOND, SECOND_S)?;
    Ok(measured)
}

fn wait(seconds: u64) {
    thread::sleep(Duration::from_secs(seconds));
}

/// What was asked of the member that is lost, and of the others.
fn bytes(members: &[Member], lost: usize) -> Outcome<(Bytes, Bytes)> {
    let mut sums = (Bytes::default(), Bytes::default());
    for (number, member) in members.iter().enumerate() {
        let sum = if number == lost { &mut sums.0 } else { &mut sums.1 };
        *sum = sum.plus(member.bytes()?);
    }
    Ok(sums)
}

/// When it was whole, if it was within the load or some time after it.
fn wait_until_whole(running: &Running<'_>, guest: &mut Guest, said: usize) -> Outcome<Option<u64>> {
    let mut ended: Option<Instant> = None;
    loop {
        if let Some(at) = running.whole(guest, said)? {
            return Ok(Some(at));
        }
        match ended {
            None if !load::is_under_way(guest)? => ended = Some(Instant::now()),
            Some(since) if since.elapsed() > WHOLE_MAX => return Ok(None),
            _ => {}
        }
        thread::sleep(PAUSE);
    }
}

/// Puts each request into its phase; the first one is `first`, and each ends with the next moment.
fn put(phases: &mut [Waits], moments: &[u64], done: &Done, first: usize) {
    let phase = |took: &Took| {
        let begun = moments.iter().take_while(|&&moment| moment <= took.at_ms).count();
        begun.checked_sub(1).map(|number| first + number)
    };
    for took in &done.reads {
        if let Some(number) = phase(took) {
            phases[number].reads.push(took.ms);
        }
    }
    for took in &done.writes {
        if let Some(number) = phase(took) {
            phases[number].writes.push(took.ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_of_the_phase_in_which_it_was_answered() {
        let mut phases: [Waits; PHASES.len()] = Default::default();
        let took = |at_ms| Took { at_ms, ms: at_ms as f64 };
        let reads = [5, 10, 19, 20, 30, 45].map(took).to_vec();
        let done = Done { reads, writes: vec![took(31)], ..Done::default() };
        put(&mut phases, &[10, 20, 30, 40, u64::MAX], &done, 0);
        let reads: Vec<&[f64]> = phases.iter().map(|waits| &waits.reads[..]).collect();
        assert_eq!(reads, [&[10.0, 19.0][..], &[20.0], &[30.0], &[45.0], &[]]);
        assert_eq!(phases[2].writes, [31.0]);
    }
}
