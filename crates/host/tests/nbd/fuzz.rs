//! Any bytes as sessions.

use std::fs;
use std::path::Path;
use std::time::Instant;

use evenkeel_host::front::nbd::fuzzing::{Answered, fuzz_answers, fuzz_bytes, fuzz_session};
use evenkeel_host::front::statistics::CommandKind;
use evenkeel_sim::random::Random;

/// Bytes of the input of a seed.
fn input(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut data = vec![0; 16 + random.index(600)];
    random.fill(&mut data);
    data
}

#[test]
fn no_session_hurts_the_server() {
    let (mut done, mut failed) = ([0; CommandKind::ALL.len()], [0; CommandKind::ALL.len()]);
    for seed in 0..5_000 {
        let status = fuzz_session(&input(seed));
        for (kind, commands) in status.statistics.commands.iter().enumerate() {
            done[kind] += commands.requests - commands.errors;
            failed[kind] += commands.errors;
        }
    }
    for kind in CommandKind::ALL {
        assert!(failed[kind as usize] > 100, "{} fails {failed:?} times", kind.name());
        let is_done = done[kind as usize] > 100;
        assert_eq!(is_done, kind != CommandKind::Invalid, "{} is done {done:?} times", kind.name());
    }
}

/// What real clients sent: `nbdinfo`, `nbdcopy`, libnbd's Python, `qemu-img`, `qemu-io`, `fio`, and this program's own.
/// They are the seeds of the fuzz target, too.
fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/session");
    let entries = fs::read_dir(folder).expect("the corpus is there");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("a session")).collect()
}

/// A session of the corpus with some bytes changed, left out or taken from another.
fn changed(corpus: &[Vec<u8>], seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut session = random.pick(corpus).clone();
    for _ in 0..random.index(6) {
        // Most of what decides is at the front.
        let reach = if random.coin() { session.len().min(300) } else { session.len() };
        let at = random.index(reach.max(1)).min(session.len());
        match random.index(5) {
            0 if at < session.len() => session[at] = random.number() as u8,
            1 if at < session.len() => session[at] ^= 1 << random.index(8),
            2 => drop(session.drain(at..(at + random.index(40)).min(session.len()))),
            3 => session.truncate(at),
            _ => {
                let other = random.pick(corpus);
                let from = random.index(other.len());
                let piece = &other[from..(from + random.index(200)).min(other.len())];
                session.splice(at..at, piece.iter().copied());
            }
        }
    }
    session
}

#[test]
fn what_real_clients_send_does_not_hurt_the_server_whatever_becomes_of_it() {
    let corpus = corpus();
    assert!(corpus.len() > 10);
    for seed in 0..64 {
        for session in &corpus {
            fuzz_bytes(session, seed);
        }
    }
    for seed in 0..5_000 {
        fuzz_bytes(&changed(&corpus, seed), seed);
    }
}

#[test]
fn no_server_hurts_its_client() {
    let (mut let_in, mut sum) = (0, Answered::default());
    for seed in 0..5_000 {
        let mut data = input(seed);
        // All of the first choices in turn.
        data[0] = seed as u8;
        let told = fuzz_answers(&data);
        let_in += u32::from(told.is_open);
        sum = Answered { is_open: true, done: sum.done + told.done, failed: sum.failed + told.failed };
    }
    assert!(let_in > 200 && sum.done > 1_000 && sum.failed > 1_000, "{let_in} were let in: {sum:?}");
}

/// As many sessions as `EVENKEEL_SESSIONS` says, from the seed `EVENKEEL_SEED` on.
#[test]
#[ignore = "runs for as long as it is told to"]
fn millions_of_sessions_do_not_hurt_the_server() {
    let number = |name: &str, otherwise| {
        std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number of sessions, or a seed"))
    };
    let (sessions, first) = (number("EVENKEEL_SESSIONS", 1_000_000u64), number("EVENKEEL_SEED", 1 << 32));
    let corpus = corpus();
    let began = Instant::now();
    for done in 0..sessions {
        let seed = first + done;
        // One in four is a real client's, changed.
        let session = || match seed % 4 {
            0 => drop(fuzz_bytes(&changed(&corpus, seed), seed)),
            _ => drop(fuzz_session(&input(seed))),
        };
        if let Err(panic) = std::panic::catch_unwind(session) {
            eprintln!("the session of seed {seed} fails");
            std::panic::resume_unwind(panic);
        }
        if (done + 1) % 1_000_000 == 0 {
            let rate = (done + 1) as f64 / began.elapsed().as_secs_f64();
            eprintln!("{} sessions, {rate:.0} a second", done + 1);
        }
    }
}
