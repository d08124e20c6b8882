//! Whether one client that asks alone is answered sooner by a loop that looks for drives, or by one that sleeps meanwhile.
//!
//! Looking saves the time of waking, and takes a processor: from the client, from the kernel's thread that ends the drive's work,
//! or from another program. Which weighs more depends on the machine and on who else runs, and nothing that the kernel tells of
//! these says it (`/proc/loadavg`, asked right after a drive was, counts the thread that has just been woken). So both are tried,
//! in turns, and the client's own pace decides.
//!
//! ```text
//!  request after request of one client:
//!  | look | sleep | sleep | look | look | sleep | … | as was decided …………………… | look | sleep | …
//!    round                                            SETTLED requests
//!    \___ pair __/ \___ pair __/
//! ```
//!
//! 1. A round is decided by the time between requests, which is what the client gets: waits on either side count.
//! 2. Looking is chosen where it won [`WINS_MIN`] of [`PAIRS`] pairs by a twentieth. Where nothing is gained, the loop sleeps.
//! 3. Looking ends at once where the client's requests come late again and again ([`LATE_MAX`] in a round): a look saves next to
//!    nothing then, and may be what keeps the client from a processor. The scheduler can leave it there for as long as the loop
//!    looks, and for a while after that, so that a trial finds both ways slow.
//! 4. A trial begins only where a processor was idle of late (`idle`): beside another program looks of a few milliseconds may put the
//!    client on that program's processor, where the scheduler leaves it.
//! 5. Of a client's requests, one in sixteen at the most is served the slower way.

use std::mem;
use std::time::{Duration, Instant};

/// Requests of a round. The first ends what the round before began, so it does not count.
const ROUND: u32 = 32;

/// Pairs of rounds, one with looks and one without, and how many of them looking must win.
const PAIRS: u32 = 8;
const WINS_MIN: u32 = 5;

/// Requests before the first trial, and before a processor is looked for again.
const BEFORE: u32 = 2 * PAIRS * ROUND;

/// Requests from one decision to the next trial.
const SETTLED: u32 = 8 * 2 * PAIRS * ROUND;

/// A request that comes so long after the one before is late: many times what a look saves.
const LATE: Duration = Duration::from_millis(2);

/// Late requests of a round, at most, as long as the loop looks.
const LATE_MAX: u32 = 2;

/// The longest time between two requests that counts: behind that, the client did something else.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// Both ways, tried in turns.
pub(super) struct Trial {
    stage: Stage,
    /// Whether a processor was idle of late, where that is known.
    has_idle: Box<dyn FnMut(Instant) -> Option<bool>>,
    /// When the client asked last.
    last: Option<Instant>,
    /// Requests that the loop looked for of late, and which of them were late.
    looked: u32,
    late: u32,
}

#[derive(Debug)]
enum Stage {
    Trying(Rounds),
    Settled { looks: bool, left: u32 },
}

#[derive(Debug, Default)]
struct Rounds {
    /// Rounds that are over.
    round: u32,
    /// Requests of this one.
    requests: u32,
    /// What this round has taken, and the pair's first one.
    took: Duration,
    first_took: Duration,
    /// Pairs that looking won.
    wins: u32,
}

impl Trial {
    /// `has_idle` tells whether a processor was idle from the last question to this one.
    pub(super) fn new(has_idle: impl FnMut(Instant) -> Option<bool> + 'static) -> Self {
        let stage = Stage::Settled { looks: false, left: BEFORE };
        Self { stage, has_idle: Box::new(has_idle), last: None, looked: 0, late: 0 }
    }

    /// One that was decided for looking.
    #[cfg(test)]
    pub(super) fn decided() -> Self {
        let stage = Stage::Settled { looks: true, left: u32::MAX };
        Self { stage, ..Self::new(|_| None) }
    }

    /// Whether the loop looks for drives now.
    pub(super) fn looks(&self) -> bool {
        match &self.stage {
            Stage::Trying(rounds) => rounds.looks(),
            Stage::Settled { looks, .. } => *looks,
        }
    }

    /// The client asks, and nobody else did since it asked last.
    pub(super) fn note_request(&mut self, now: Instant) {
        let since = self.last.replace(now).map(|last| now.duration_since(last).min(PAUSE_MAX));
        if self.looks() && since.is_some_and(|since| self.are_late(since)) {
            self.stage = Stage::Settled { looks: false, left: SETTLED };
            (self.looked, self.late) = (0, 0);
            return;
        }
        match &mut self.stage {
            Stage::Settled { left: 0, looks } => {
                // A loop that looks uses up a processor by itself.
                let has_idle = (self.has_idle)(now);
                self.stage = match *looks || has_idle == Some(true) {
                    true => Stage::Trying(Rounds::default()),
                    false => Stage::Settled { looks: false, left: BEFORE },
                };
            }
            Stage::Settled { left, .. } => *left -= 1,
            Stage::Trying(rounds) => {
                if let Some(looks) = since.and_then(|since| rounds.note(since)) {
                    self.stage = Stage::Settled { looks, left: SETTLED };
                }
            }
        }
    }

    /// A request that the loop looked for came so long after the one before; whether too many of late were late.
    fn are_late(&mut self, since: Duration) -> bool {
        if self.looked == ROUND {
            (self.looked, self.late) = (0, 0);
        }
        self.looked += 1;
        self.late += u32::from(since >= LATE);
        self.late > LATE_MAX
    }

    /// Somebody else asks.
    pub(super) fn interrupt(&mut self) {
        self.last = None;
    }
}

impl Rounds {
    /// Look, sleep, sleep, look: what drifts meanwhile is on neither's side.
    fn looks(&self) -> bool {
        matches!(self.round % 4, 0 | 3)
    }

    /// A request came so long after the one before; answers the decision, once there is one.
    fn note(&mut self, since: Duration) -> Option<bool> {
        if self.requests > 0 {
            self.took += since;
        }
        self.requests += 1;
        if self.requests < ROUND {
            return None;
        }
        self.end_round();
        (self.round == 2 * PAIRS).then_some(self.wins >= WINS_MIN)
    }

    fn end_round(&mut self) {
        let took = mem::take(&mut self.took);
        if self.round.is_multiple_of(2) {
            self.first_took = took;
        } else {
            let (looking, sleeping) =
                if self.looks() { (took, self.first_took) } else { (self.first_took, took) };
            self.wins += u32::from(looking * 20 < sleeping * 19);
        }
        self.requests = 0;
        self.round += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIAL: u32 = 2 * PAIRS * ROUND;

    /// One that has waited, beside an idle processor.
    fn trial() -> Trial {
        let mut trial = Trial::new(|_| Some(true));
        trial.stage = Stage::Trying(Rounds::default());
        trial
    }

    /// A client that is answered after so long where the loop looks, and where it sleeps.
    struct Client {
        looking: Duration,
        sleeping: Duration,
        now: Instant,
    }

    impl Client {
        fn new(looking_us: u64, sleeping_us: u64) -> Self {
            let [looking, sleeping] = [looking_us, sleeping_us].map(Duration::from_micros);
            Self { looking, sleeping, now: Instant::now() }
        }

        /// Asks so often; answers how many requests the loop looked for.
        fn ask(&mut self, trial: &mut Trial, requests: u32) -> u32 {
            let mut looked = 0;
            for _ in 0..requests {
                looked += u32::from(trial.looks());
                self.now += if trial.looks() { self.looking } else { self.sleeping };
                trial.note_request(self.now);
            }
            looked
        }
    }

    #[test]
    fn the_way_that_answers_sooner_is_chosen_and_the_other_one_is_rare() {
        for (looking_us, sleeping_us, looks) in
            [(110, 160, true), (160, 110, false), (150, 150, false), (145, 150, false)]
        {
            let mut trial = trial();
            let mut client = Client::new(looking_us, sleeping_us);
            client.ask(&mut trial, TRIAL + 1);
            assert_eq!(trial.looks(), looks, "{looking_us} us or {sleeping_us} us");
            let requests = 20 * SETTLED;
            let looked = client.ask(&mut trial, requests);
            let slower = if looks { requests - looked } else { looked };
            assert!(slower * 16 <= requests, "{slower} of {requests}");
        }
    }

    #[test]
    fn what_changes_is_noticed_by_the_next_trial() {
        let mut trial = trial();
        let mut client = Client::new(110, 160);
        client.ask(&mut trial, TRIAL + 1);
        assert!(trial.looks());
        client.looking = Duration::from_micros(4000); // another program takes the processor
        client.ask(&mut trial, SETTLED + TRIAL + 2);
        assert!(!trial.looks());
        client.looking = Duration::from_micros(110);
        client.ask(&mut trial, SETTLED + TRIAL + 2);
        assert!(trial.looks());
    }

    #[test]
    fn nothing_is_tried_where_no_processor_is_idle_or_nobody_knows() {
        let mut client = Client::new(110, 160);
        for answer in [None, Some(false)] {
            let mut trial = Trial::new(move |_| answer);
            assert_eq!(client.ask(&mut trial, 3 * SETTLED), 0, "{answer:?}");
        }
        let mut trial = Trial::new(|_| Some(true));
        assert_eq!(client.ask(&mut trial, BEFORE + 1), 0, "not before it has waited for a while");
        client.ask(&mut trial, TRIAL + 1);
        assert!(trial.looks());
    }

    #[test]
    fn a_client_that_is_kept_from_a_processor_is_looked_for_no_more() {
        let mut trial = trial();
        // The scheduler leaves it there: both ways are as slow, as long as any look is made.
        let mut client = Client::new(4000, 4000);
        let looked = client.ask(&mut trial, TRIAL);
        assert!(looked <= LATE_MAX + 2, "{looked}");
        client.sleeping = Duration::from_micros(160);
        assert_eq!(client.ask(&mut trial, SETTLED - TRIAL), 0);
        // Later it is tried again, and does not last.
        let looked = client.ask(&mut trial, 10 * SETTLED);
        assert!(looked <= 10 * (LATE_MAX + 2), "{looked}");
    }

    #[test]
    fn one_long_wait_in_each_trial_decides_nothing() {
        for waits_at in (0..TRIAL).step_by(7) {
            let mut trial = trial();
            let mut client = Client::new(110, 160);
            client.ask(&mut trial, waits_at);
            client.now += Duration::from_secs(3600);
            client.ask(&mut trial, TRIAL + 1 - waits_at);
            assert!(trial.looks(), "waited before request {waits_at}");
        }
    }

    #[test]
    fn what_passes_while_another_asks_does_not_count() {
        let mut trial = trial();
        let mut client = Client::new(110, 160);
        for _ in 0..TRIAL {
            client.ask(&mut trial, 2);
            trial.interrupt();
            client.now += if trial.looks() { PAUSE_MAX } else { Duration::ZERO };
        }
        assert!(trial.looks());
    }
}
