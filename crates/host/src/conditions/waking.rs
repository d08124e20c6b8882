//! How long a thread that sleeps takes to run again.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// How often it is tried.
const TRIES: usize = 101;

/// How long the thread has slept by then: its processor is idle, and has been for as long as during a fast drive's write.
const ASLEEP: Duration = Duration::from_micros(200);

/// From the moment that one thread wakes another to the moment that the other runs, in seconds: the median of some tries, which
/// take 50 ms in all. Idle processors that stop at once make it long, as most virtual machines' do. `None` where no thread can be had.
pub fn waking_s() -> Option<f64> {
    let (wake, woken) = mpsc::channel::<Instant>();
    let sleeper = thread::Builder::new().name("waking".to_owned()).spawn(move || {
        let mut took: Vec<Duration> = woken.iter().map(|began| began.elapsed()).collect();
        took.sort_unstable();
        took.get(took.len() / 2).copied()
    });
    let sleeper = sleeper.ok()?;
    for _ in 0..TRIES {
        thread::sleep(ASLEEP);
        wake.send(Instant::now()).ok()?;
    }
    drop(wake);
    sleeper.join().ok()?.map(|median| median.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_woken_after_some_time() {
        assert!(waking_s().unwrap() > 0.0);
    }
}
