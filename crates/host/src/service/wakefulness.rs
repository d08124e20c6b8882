//! Processors that wake quickly while clients ask.
//!
//! ```text
//!   a request since the last look          ──► wanted
//!   none for IDLE_LOOKS looks              ──► not wanted: an idle server costs no power
//! ```

use evenkeel_engine::env::Env;

use crate::event_loop::Loop;
use crate::process::cpu_latency::CpuLatency;

/// Between two looks.
const LOOK_NS: u64 = 50_000_000;

/// Looks without a request, after which nobody asks any more.
const IDLE_LOOKS: u32 = 20;

/// Has the bound kept while clients ask, for as long as the loop runs.
pub(super) fn follow(event_loop: &Loop, mut latency: CpuLatency) {
    let env = event_loop.clone();
    event_loop.spawn(async move {
        let mut activity = Activity::new(env.requests());
        loop {
            env.sleep(LOOK_NS).await;
            if latency.want(activity.look(env.requests())).is_err() {
                // What could be opened before and cannot be now stays as the kernel has it.
                return;
            }
        }
    });
}

/// Whether clients ask.
#[derive(Debug)]
struct Activity {
    requests: u64,
    /// Looks since the last request.
    idle: u32,
}

impl Activity {
    fn new(requests: u64) -> Self {
        Self { requests, idle: IDLE_LOOKS }
    }

    /// So many requests came so far; whether clients ask.
    fn look(&mut self, requests: u64) -> bool {
        let came = requests != std::mem::replace(&mut self.requests, requests);
        self.idle = if came { 0 } else { self.idle.saturating_add(1) };
        self.idle < IDLE_LOOKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_ask_from_their_first_request_until_a_while_after_their_last() {
        let mut activity = Activity::new(7);
        assert!(!activity.look(7), "nobody has asked yet");
        assert!(activity.look(8));
        assert!((1..IDLE_LOOKS).all(|_| activity.look(8)));
        assert!(!activity.look(8));
        assert!(!activity.look(8));
        assert!(activity.look(9));
    }
}
