//! A database of a study that never ran, with effects planted in it: what a report must find.
//!
//! 1. ext4 varies most, xfs least; of ext4, journal mode `journal` varies more than the others.
//! 2. Throughput depends on the file system, and on nothing else but chance.
//! 3. The latency of `open` follows the throughput of its run; that of other operations does not.
//! 4. Every run warms up over its first fifth.
//! 5. One run of xfs is half as fast as its repeats, with a third of the machine's time stolen.
//! 6. The faster the processor, the faster the run beside its repeats; load says nothing.
//! 7. The last configuration cannot be mounted.
//! 8. Remedies, where there are any, take the variation of ext4 away step by step.

use std::path::Path;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rusqlite::{Connection, Transaction, params};

/// How large it is.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Configurations, besides those of the case study.
    pub configurations: usize,
    /// Repeats of each under each of three workloads.
    pub repeats: usize,
    /// Windows of each run, of half a second.
    pub windows: usize,
    /// Whether there are remedies.
    pub case_study: bool,
    /// Of everything random.
    pub seed: u64,
}

impl Shape {
    /// Small enough to be read in a moment.
    pub const SMALL: Self = Self { configurations: 27, repeats: 8, windows: 60, case_study: true, seed: 1 };
}

/// The workloads.
pub const WORKLOADS: [&str; 3] = ["fileserver", "mailserver", "webserver"];
/// How long a window is.
pub const INTERVAL_S: f64 = 0.5;
/// What the remedies are, from none on, and what each leaves of the variation.
pub const REMEDIES: [(&str, f64); 4] = [
    ("none", 1.0),
    ("no_lazy_init", 0.5),
    ("no_lazy_init+unmount", 0.3),
    ("no_lazy_init+unmount+restore_image", 0.05),
];
const OPERATIONS: [(&str, f64); 5] =
    [("close", 2e-6), ("create", 8e-5), ("fsync", 4e-3), ("open", 2e-5), ("read", 3e-4)];

struct Planted {
    settings: Vec<(&'static str, &'static str)>,
    rate: f64,
    deviation: f64,
    wanders: bool,
}

/// Writes the database.
pub fn write(path: &Path, schema: &str, shape: &Shape) -> rusqlite::Result<()> {
    let mut connection = Connection::open(path)?;
    connection.execute_batch("PRAGMA synchronous = OFF")?;
    let transaction = connection.transaction()?;
    transaction.execute_batch(schema)?;
    transaction.execute(
        "INSERT INTO study VALUES (1, 'made up', 7, 'name = \"made up\"', ?1, '2026-01-31T12:00:00Z', '0.1.0')",
        [INTERVAL_S],
    )?;
    transaction.execute("INSERT INTO machine VALUES (1, 'here', 'Linux 6.1', 2, 4294967296)", [])?;
    let planted = planted(shape);
    for (id, one) in (1_i64..).zip(&planted) {
        // With the number, as there are more configurations than combinations.
        let values: Vec<_> = one.settings.iter().map(|(_, value)| *value).collect();
        let label = format!("{}-{id}", values.join("-"));
        transaction.execute("INSERT INTO configuration VALUES (?1, ?2)", params![id, label])?;
        for (factor, value) in &one.settings {
            transaction.execute("INSERT INTO setting VALUES (?1, ?2, ?3)", params![id, factor, value])?;
        }
    }
    runs(&transaction, shape, &planted)?;
    transaction.commit()
}

fn planted(shape: &Shape) -> Vec<Planted> {
    let mut all: Vec<Planted> = (0..shape.configurations).map(one).collect();
    if shape.case_study {
        for (remedies, left) in REMEDIES {
            let mut one = one(0);
            one.settings.push(("remedies", remedies));
            one.deviation = 0.2 * left;
            one.wanders = left > 0.1;
            all.push(one);
        }
    }
    all
}

fn one(number: usize) -> Planted {
    let pick = |of: &[&'static str], stride: usize| of[number / stride % of.len()];
    let file_system = pick(&["ext4", "xfs", "btrfs"], 1);
    let mut settings = vec![("file_system", file_system), ("block_size", pick(&["1k", "2k", "4k"], 3))];
    let (rate, mut deviation) = match file_system {
        "ext4" => (1_000.0, 0.08),
        "xfs" => (1_500.0, 0.01),
        _ => (800.0, 0.03),
    };
    if file_system == "ext4" {
        let mode = pick(&["writeback", "ordered", "journal"], 9);
        settings.push(("journal_mode", mode));
        deviation *= if mode == "journal" { 3.0 } else { 1.0 };
    }
    settings.push(("atime", pick(&["relatime", "noatime"], 2)));
    settings.push(("io_scheduler", pick(&["none", "mq-deadline"], 5)));
    Planted { settings, rate, deviation, wanders: file_system == "ext4" }
}

fn runs(transaction: &Transaction<'_>, shape: &Shape, planted: &[Planted]) -> rusqlite::Result<()> {
    let mut random = StdRng::seed_from_u64(shape.seed);
    let mut order: Vec<(usize, usize, usize)> = Vec::new();
    for repeat in 0..shape.repeats {
        for configuration in 0..planted.len() {
            order.extend((0..WORKLOADS.len()).map(|workload| (repeat, configuration, workload)));
        }
    }
    // The order that a shuffle might have had: repeats stay blocks.
    order.sort_by_key(|&(repeat, configuration, workload)| {
        (repeat, (configuration * 7_919 + workload * 104_729 + repeat * 1_299_709) % 99_991)
    });
    for (place, &(repeat, configuration, workload)) in order.iter().enumerate() {
        let id = place as i64 + 1;
        let head = params![id, configuration as i64 + 1, WORKLOADS[workload], repeat as i64, place as i64];
        transaction.execute(
            "INSERT INTO run (id, configuration_id, workload, repeat, place, state) VALUES (?1, ?2, ?3, ?4, ?5, 'planned')",
            head,
        )?;
        if configuration + 1 == shape.configurations {
            let skip =
                "UPDATE run SET state = 'skipped', message = 'mount: wrong option <none>' WHERE id = ?1";
            transaction.execute(skip, [id])?;
            continue;
        }
        let is_disturbed = (repeat, configuration, workload) == (3, 1, 0);
        run(transaction, id, shape, &planted[configuration], workload, is_disturbed, &mut random)?;
    }
    Ok(())
}

fn normal(random: &mut StdRng) -> f64 {
    StandardNormal.sample(random)
}

fn run(
    transaction: &Transaction<'_>,
    id: i64,
    shape: &Shape,
    planted: &Planted,
    workload: usize,
    is_disturbed: bool,
    random: &mut StdRng,
) -> rusqlite::Result<()> {
    let deviation = planted.deviation * normal(random) + if is_disturbed { -0.7 } else { 0.0 };
    let rate = planted.rate * [1.0, 0.3, 4.0][workload] * deviation.exp();
    let mut all = 0_u64;
    let mut insert = transaction.prepare("INSERT INTO throughput VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for window in 0..shape.windows {
        let level = if window * 5 < shape.windows { 0.6 } else { 1.1 };
        let flusher = if window % 30 == 29 { 0.7 } else { 1.0 };
        let operations =
            (rate * level * flusher * (1.0 + 0.05 * normal(random)) * INTERVAL_S).max(0.0) as u64;
        all += operations;
        insert.execute(params![
            id,
            window as i64,
            window as f64 * INTERVAL_S,
            INTERVAL_S,
            operations as i64
        ])?;
    }
    let duration_s = shape.windows as f64 * INTERVAL_S;
    transaction.execute(
        "UPDATE run SET state = 'done', machine_id = 1, started_at = '2026-01-31T12:34:56Z', duration_s = ?2,
                        operations = ?3, operations_per_s = ?4 WHERE id = ?1",
        params![id, duration_s, all as i64, all as f64 / duration_s],
    )?;
    let steal = if is_disturbed { 0.33 } else { 0.002 + 0.001 * random.random::<f64>() };
    let frequency =
        2e9 * (1.0 + 0.02 * (deviation / planted.deviation + 0.5 * normal(random)).clamp(-2.0, 2.0));
    let load = 3.0 + 0.2 * normal(random);
    for (name, value) in [("steal_share", steal), ("load_1m", load), ("frequency_hz", frequency)] {
        transaction.execute("INSERT INTO condition VALUES (?1, ?2, ?3)", params![id, name, value])?;
    }
    latencies(transaction, id, deviation, random)?;
    layout(transaction, id, planted.wanders, random)
}

fn latencies(
    transaction: &Transaction<'_>,
    id: i64,
    deviation: f64,
    random: &mut StdRng,
) -> rusqlite::Result<()> {
    for (operation, typical_s) in OPERATIONS {
        let mut histogram =
            Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 3).expect("bounds that are");
        let slower = if operation == "open" { (-4.0 * deviation).exp() } else { 1.0 };
        for _ in 0..400 {
            let time_s = typical_s * slower * (0.7 * normal(random)).exp();
            histogram.saturating_record((time_s * 1e9) as u64);
        }
        let mut blob = Vec::new();
        V2Serializer::new().serialize(&histogram, &mut blob).expect("memory takes it");
        let at = |share| histogram.value_at_quantile(share) as f64 / 1e9;
        transaction.execute(
            "INSERT INTO latency VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                id,
                operation,
                histogram.len() as i64,
                histogram.mean() / 1e9,
                at(0.5),
                at(0.99),
                at(0.999),
                histogram.max() as f64 / 1e9,
                blob
            ],
        )?;
    }
    Ok(())
}

fn layout(
    transaction: &Transaction<'_>,
    id: i64,
    wanders: bool,
    random: &mut StdRng,
) -> rusqlite::Result<()> {
    let base = if wanders { random.random_range(0..700_i64) << 20 } else { 64 << 20 };
    for extent in 0..16_i64 {
        let place = base + (extent << 21);
        transaction
            .execute("INSERT INTO layout VALUES (?1, ?2, ?3, ?4)", params![id, extent, place, 1 << 20])?;
    }
    Ok(())
}
