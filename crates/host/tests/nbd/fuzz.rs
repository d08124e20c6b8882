//! Any bytes as sessions.

use std::time::Instant;

use evenkeel_host::nbd::fuzzing::fuzz_session;
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
    for seed in 0..20_000 {
        fuzz_session(&input(seed));
    }
}

/// As many sessions as `EVENKEEL_SESSIONS` says, from the seed `EVENKEEL_SEED` on.
#[test]
#[ignore = "runs for as long as it is told to"]
fn millions_of_sessions_do_not_hurt_the_server() {
    let number = |name: &str, otherwise| {
        std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number of sessions, or a seed"))
    };
    let (sessions, first) = (number("EVENKEEL_SESSIONS", 1_000_000u64), number("EVENKEEL_SEED", 1 << 32));
    let began = Instant::now();
    for done in 0..sessions {
        let seed = first + done;
        if let Err(panic) = std::panic::catch_unwind(|| fuzz_session(&input(seed))) {
            eprintln!("the session of seed {seed} fails");
            std::panic::resume_unwind(panic);
        }
        if (done + 1) % 1_000_000 == 0 {
            let rate = (done + 1) as f64 / began.elapsed().as_secs_f64();
            eprintln!("{} sessions, {rate:.0} a second", done + 1);
        }
    }
}
