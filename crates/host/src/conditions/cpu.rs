//! Who used the processors: this process, others, or the hypervisor.

use std::fs;
use std::io;
use std::ops::Sub;

/// Processor time of the whole machine and of this process, since boot or between two moments, in seconds.
/// The kernel counts it in ticks, mostly of 10 ms.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CpuTime {
    /// All processors, in user mode.
    pub user_s: f64,
    /// All processors, idle or busy.
    pub all_s: f64,
    /// What the hypervisor took away.
    pub steal_s: f64,
    /// This process, in user mode, all threads.
    pub own_user_s: f64,
    /// Programs that this process started and that have ended, in user mode.
    pub children_user_s: f64,
}

impl CpuTime {
    /// The time used so far.
    ///
    /// # Errors
    ///
    /// Where `/proc/stat` or `/proc/self/stat` cannot be read or understood.
    pub fn now() -> io::Result<Self> {
        let tick_s = 1.0 / rustix::param::clock_ticks_per_second() as f64;
        parse(&fs::read_to_string("/proc/stat")?, &fs::read_to_string("/proc/self/stat")?, tick_s)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/stat is not as expected"))
    }

    /// User time of all other processes.
    pub fn foreign_user_s(&self) -> f64 {
        (self.user_s - self.own_user_s).max(0.0)
    }

    /// User time of all processes that this one did not start.
    pub fn strange_user_s(&self) -> f64 {
        (self.user_s - self.own_user_s - self.children_user_s).max(0.0)
    }
}

impl Sub for CpuTime {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            user_s: self.user_s - earlier.user_s,
            all_s: self.all_s - earlier.all_s,
            steal_s: self.steal_s - earlier.steal_s,
            own_user_s: self.own_user_s - earlier.own_user_s,
            children_user_s: self.children_user_s - earlier.children_user_s,
        }
    }
}

/// `machine` is `/proc/stat`, `own` is `/proc/self/stat` (both in proc(5)).
fn parse(machine: &str, own: &str, tick_s: f64) -> Option<CpuTime> {
    let total = machine.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<f64> = total.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; guest time is part of user already.
    let [user, nice, .., steal] = *ticks.get(..8)? else {
        return None;
    };
    // The command's name stands in parentheses and may hold blanks: user time is the 12th field after it, that of the
    // children who were waited for the 14th.
    let mut fields = own.rsplit_once(')')?.1.split_whitespace().skip(11);
    let own_user: f64 = fields.next()?.parse().ok()?;
    let children_user: f64 = fields.nth(1)?.parse().ok()?;
    Some(CpuTime {
        user_s: (user + nice) * tick_s,
        all_s: ticks[..8].iter().sum::<f64>() * tick_s,
        steal_s: steal * tick_s,
        own_user_s: own_user * tick_s,
        children_user_s: children_user * tick_s,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_two_files_are_read() {
        let machine = "cpu  100 20 30 400 50 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n";
        let own = "42 (a name) with) blanks) R 1 2 3 4 5 6 7 8 9 10 77 12 13";
        let time = parse(machine, own, 0.01).unwrap();
        assert_eq!(time.user_s, 1.2);
        assert!((time.all_s - 6.21).abs() < 1e-9);
        assert_eq!(time.steal_s, 0.08);
        assert_eq!(time.own_user_s, 0.77);
        assert_eq!(time.children_user_s, 0.13);
        assert!((time.strange_user_s() - 0.3).abs() < 1e-9);
        assert!((time.foreign_user_s() - 0.43).abs() < 1e-9);
        assert_eq!(parse("intr 5", own, 0.01), None);
        assert_eq!(parse(machine, "42 (x", 0.01), None);
    }

    #[test]
    fn time_only_grows() {
        let first = CpuTime::now().unwrap();
        let passed = CpuTime::now().unwrap() - first;
        assert!(passed.all_s >= 0.0 && passed.own_user_s >= 0.0);
    }
}
