//! Which runs were disturbed from outside.
//!
//! A run is judged by what others did meanwhile, never by its own speed: leaving out slow runs would make
//! any stack look steady. Processor time is counted in ticks of mostly 10 ms, so short runs are judged only
//! by what exceeds a few of them.

use super::session::{PointRuns, Run};

/// Other processes' user time that disturbs, as a share of all processors' time.
const FOREIGN_CPU_SHARE: f64 = 0.05;

/// Stolen time that disturbs, as a share of all processors' time.
const STEAL_SHARE: f64 = 0.02;

/// Least processor time that is told from the grain of the clock, in seconds.
const TICKS_S: f64 = 0.025;

/// Device traffic that disturbs: this much above the point's median run ...
const DEVICE_EXCESS: f64 = 1.25;

/// ... and at least this many bytes more.
const DEVICE_BYTES: f64 = (1 << 20) as f64;

/// Marks every run of every point anew.
pub(super) fn mark(points: &mut [PointRuns]) {
    for point in points {
        let usual_written = median(point.runs.iter().filter_map(written_bytes).collect());
        for run in &mut point.runs {
            run.disturbance = judge(run, usual_written);
        }
    }
}

pub(super) fn judge(run: &Run, usual_written: Option<f64>) -> Option<String> {
    let cpu = &run.observation.cpu;
    let mut found = Vec::new();
    if cpu.steal_s > TICKS_S.min(cpu.all_s) && cpu.steal_s > STEAL_SHARE * cpu.all_s {
        found.push(format!("the hypervisor took {:.0} ms of processor time", cpu.steal_s * 1e3));
    }
    let foreign_s = cpu.foreign_user_s();
    if foreign_s > TICKS_S.min(cpu.all_s) && foreign_s > FOREIGN_CPU_SHARE * cpu.all_s {
        found.push(format!("other processes took {:.0} ms of processor time", foreign_s * 1e3));
    }
    if let Some(device) = run.observation.device {
        let read = device.read_bytes as f64;
        if read > DEVICE_BYTES && read > (DEVICE_EXCESS - 1.0) * run.user_bytes as f64 {
            found.push(format!("{:.1} MiB were read from the device", read / DEVICE_BYTES));
        }
        let written = device.written_bytes as f64;
        if let Some(usual) = usual_written
            && written > DEVICE_EXCESS * usual
            && written - usual > DEVICE_BYTES
        {
            let excess = (written - usual) / DEVICE_BYTES;
            found.push(format!("{excess:.1} MiB more than usual were written to the device"));
        }
    }
    (!found.is_empty()).then(|| found.join("; "))
}

fn written_bytes(run: &Run) -> Option<f64> {
    run.observation.device.map(|device| device.written_bytes as f64)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use evenkeel_host::block_device::Counters;
    use evenkeel_host::cpu::CpuTime;

    use super::*;
    use crate::probe::target::Observation;

    fn run(cpu: CpuTime, written_bytes: u64, read_bytes: u64) -> Run {
        let device = Some(Counters { written_bytes, read_bytes, ..Counters::default() });
        let observation = Observation { elapsed_s: 0.5, latencies_ns: vec![1], device, cpu };
        Run {
            order: 0,
            session: 0,
            started_s: 0.0,
            user_bytes: 16 << 20,
            observation,
            disturbance: None,
            is_repeat: false,
        }
    }

    const QUIET: CpuTime =
        CpuTime { user_s: 0.1, all_s: 1.0, steal_s: 0.0, own_user_s: 0.1, children_user_s: 0.0 };

    #[test]
    fn a_run_of_its_own_work_is_clean_however_slow() {
        let mut slow = run(QUIET, 17 << 20, 0);
        slow.observation.elapsed_s = 100.0;
        assert_eq!(judge(&slow, Some(17e6)), None);
    }

    #[test]
    fn each_kind_of_disturbance_is_named() {
        let stolen = run(CpuTime { steal_s: 0.05, ..QUIET }, 0, 0);
        assert!(judge(&stolen, None).unwrap().starts_with("the hypervisor took 50 ms"));
        let foreign = run(CpuTime { user_s: 0.3, ..QUIET }, 0, 0);
        assert!(judge(&foreign, None).unwrap().starts_with("other processes took 200 ms"));
        let read = run(QUIET, 0, 8 << 20);
        assert!(judge(&read, None).unwrap().starts_with("8.0 MiB were read"));
        let written = run(QUIET, 40 << 20, 0);
        assert!(judge(&written, Some(20.0 * DEVICE_BYTES)).unwrap().starts_with("20.0 MiB more than usual"));
    }

    #[test]
    fn one_tick_of_the_clock_is_no_disturbance() {
        let ticked = run(CpuTime { user_s: 0.12, all_s: 0.1, steal_s: 0.01, ..QUIET }, 0, 0);
        assert_eq!(judge(&ticked, None), None);
    }
}
