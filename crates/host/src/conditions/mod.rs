//! What the machine was like meanwhile: load, processors, memory, temperature.

pub mod cpu;
pub mod memory;

use std::fs;
use std::path::Path;

use crate::cpu::CpuTime;

/// A moment, to be compared with a later one.
#[derive(Debug)]
pub struct Before {
    cpu: Option<CpuTime>,
}

impl Before {
    /// Now.
    pub fn now() -> Self {
        Self { cpu: CpuTime::now().ok() }
    }

    /// What could be found out of the time since then, by name; the unit ends the name.
    pub fn since(&self) -> Vec<(&'static str, f64)> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let mut found = Vec::new();
        let mut add = |name, value: Option<f64>| found.extend(value.map(|value| (name, value)));
        add("load_1m", first_number(&read("/proc/loadavg")));
        add("free_memory_bytes", field(&read("/proc/meminfo"), "MemAvailable:").map(|kib| kib * 1024.0));
        add("frequency_hz", frequency_hz());
        add("temperature_c", temperature_c());
        if let (Some(before), Ok(now)) = (self.cpu, CpuTime::now()) {
            let passed = now - before;
            if passed.all_s > 0.0 {
                add("steal_share", Some(passed.steal_s / passed.all_s));
                add("foreign_cpu_share", Some(passed.strange_user_s() / passed.all_s));
            }
        }
        found
    }
}

/// Kernel, name, processors and memory of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Its name in the network.
    pub name: String,
    /// `uname -r`.
    pub kernel: String,
    /// Processors that this process may use.
    pub cpus: usize,
    /// All of its memory.
    pub memory_bytes: u64,
}

impl Machine {
    /// This one.
    pub fn this() -> Self {
        let system = rustix::system::uname();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Self {
            name: system.nodename().to_string_lossy().into_owned(),
            kernel: system.release().to_string_lossy().into_owned(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: field(&memory, "MemTotal:").map_or(0, |kib| kib as u64 * 1024),
        }
    }
}

fn first_number(text: &str) -> Option<f64> {
    text.split_whitespace().next()?.parse().ok()
}

fn field(text: &str, name: &str) -> Option<f64> {
    first_number(text.lines().find_map(|line| line.strip_prefix(name))?)
}

/// The mean over all processors.
fn frequency_hz() -> Option<f64> {
    let scaled = files_below("/sys/devices/system/cpu", "cpufreq/scaling_cur_freq");
    let found: Vec<f64> = match scaled.is_empty() {
        false => scaled.iter().filter_map(|text| first_number(text)).map(|khz| khz * 1e3).collect(),
        true => {
            let table = fs::read_to_string("/proc/cpuinfo").ok()?;
            let lines = table.lines().filter(|line| line.starts_with("cpu MHz"));
            lines.filter_map(|line| first_number(line.split_once(':')?.1)).map(|mhz| mhz * 1e6).collect()
        }
    };
    (!found.is_empty()).then(|| found.iter().sum::<f64>() / found.len() as f64)
}

/// The hottest zone.
fn temperature_c() -> Option<f64> {
    let zones = files_below("/sys/class/thermal", "temp");
    zones.iter().filter_map(|text| first_number(text)).map(|milli| milli / 1000.0).reduce(f64::max)
}

/// The texts of a file in each folder of a folder.
fn files_below(folder: &str, name: &str) -> Vec<String> {
    let entries = fs::read_dir(Path::new(folder)).into_iter().flatten().flatten();
    entries.filter_map(|entry| fs::read_to_string(entry.path().join(name)).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_tables_are_read() {
        assert_eq!(first_number("0.50 0.1 0.2 2/90 1"), Some(0.5));
        assert_eq!(field("MemTotal:  100 kB\nMemAvailable:   25 kB\n", "MemAvailable:"), Some(25.0));
        assert_eq!(field("MemTotal:  100 kB\n", "MemAvailable:"), None);
    }

    #[test]
    fn this_machine_has_a_load_memory_and_processors() {
        let found = Before::now().since();
        let has = |name| found.iter().any(|(other, value)| *other == name && value.is_finite());
        assert!(has("load_1m") && has("free_memory_bytes"), "{found:?}");
        let machine = Machine::this();
        assert!(machine.cpus > 0 && machine.memory_bytes > 0 && !machine.kernel.is_empty());
    }
}
