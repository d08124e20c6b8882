//! Members of a served mirror that answer again are taken back.
//!
//! 1. A member is left alone for a quiet time after it was lost. Each further loss and each attempt in vain doubles that
//!    time, up to [`QUIET_MAX_NS`], so that a member which comes and goes does not hurt. One that has taken part for so long
//!    is trusted as before.
//! 2. One at a time is taken back, and none while another one is put in a member's place.
//! 3. What answers and is not taken is told of once, and stays where it is for a person.

use evenkeel_engine::env::Env;

use super::events::Kind;
use super::events::watch::Watcher;
use super::term::Term;
use crate::event_loop::Loop;
use crate::volume::mirror::{Mirror, NotTaken};
use crate::volume::replace::Replacer;

/// How often members are looked at.
const LOOK_NS: u64 = 200_000_000;

/// How long a member is left alone that was lost for the first time.
const QUIET_MIN_NS: u64 = 1_000_000_000;

/// How long it is left alone at most.
const QUIET_MAX_NS: u64 = 60_000_000_000;

/// Takes members back that answer again, for this term.
pub(super) fn begin(event_loop: &Loop, term: &Term, mirror: &Mirror, replacer: Replacer, watcher: &Watcher) {
    let (env, mirror, watcher) = (event_loop.clone(), mirror.clone(), watcher.clone());
    let places = mirror.ring.members().len();
    let mut quiets = vec![Quiet::default(); places];
    let mut told: Vec<Option<String>> = vec![None; places];
    term.spawn(async move {
        loop {
            env.sleep(LOOK_NS).await;
            for place in 0..places {
                if watcher.is_stopping() {
                    return;
                }
                if !quiets[place].look(env.now_ns(), mirror.is_away(place)) {
                    continue;
                }
                match replacer.rejoin(place).await {
                    Ok(_) | Err(NotTaken::NotThere(_)) => told[place] = None,
                    Err(NotTaken::Refused(why)) if told[place].as_ref() == Some(&why) => {}
                    Err(NotTaken::Refused(why)) => {
                        let (name, about) = watcher.member(place);
                        let message = format!("{name} answers, and is not taken back: {why}");
                        watcher.reporter.report(Kind::MemberRefused, &about, message);
                        told[place] = Some(why);
                    }
                }
            }
        }
    });
}

/// When a member may be taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Quiet {
    /// How long it is left alone when it is lost next.
    next_ns: u64,
    /// Until when it is left alone, if it is away.
    until_ns: Option<u64>,
    /// Since when it takes part.
    well_ns: u64,
}

impl Default for Quiet {
    fn default() -> Self {
        Self { next_ns: QUIET_MIN_NS, until_ns: None, well_ns: 0 }
    }
}

impl Quiet {
    /// Looks at a member; whether it is to be taken back now, if it can be had.
    fn look(&mut self, now_ns: u64, is_away: bool) -> bool {
        if !is_away {
            if self.until_ns.take().is_some() {
                self.well_ns = now_ns;
            }
            if now_ns.saturating_sub(self.well_ns) >= QUIET_MAX_NS {
                self.next_ns = QUIET_MIN_NS;
            }
            return false;
        }
        let is_due = self.until_ns.is_some_and(|until_ns| until_ns <= now_ns);
        if is_due || self.until_ns.is_none() {
            self.until_ns = Some(now_ns + self.next_ns);
            self.next_ns = (2 * self.next_ns).min(QUIET_MAX_NS);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// The seconds at which a member is tried that is away in these.
    fn tried(is_away: impl Fn(u64) -> bool, seconds: u64) -> Vec<u64> {
        let mut quiet = Quiet::default();
        (0..seconds).filter(|&second| quiet.look(second * S, is_away(second))).collect()
    }

    #[test]
    fn a_member_that_stays_away_is_asked_for_less_and_less_often_down_to_once_a_minute() {
        assert_eq!(tried(|_| true, 250), [1, 3, 7, 15, 31, 63, 123, 183, 243]);
    }

    #[test]
    fn a_member_that_comes_and_goes_is_taken_less_and_less_often() {
        // It is lost a second after it was taken back.
        let (mut quiet, mut taken, mut is_away) = (Quiet::default(), Vec::new(), true);
        for second in 0..200 {
            match quiet.look(second * S, is_away) {
                true => {
                    taken.push(second);
                    is_away = false;
                }
                false => is_away = true,
            }
        }
        assert!(taken.windows(3).all(|it| it[2] - it[1] >= it[1] - it[0]), "{taken:?}");
        assert!(taken.len() < 9, "{taken:?}");
    }

    #[test]
    fn one_that_took_part_for_a_minute_is_trusted_as_before() {
        let away = |second| second < 4 || (10..12).contains(&second) || second >= 80;
        assert_eq!(tried(away, 83), [1, 3, 81], "not at 10 to 12, when it had been lost just before");
    }
}
