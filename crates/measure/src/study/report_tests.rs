//! Studies written through the schema, read back, analysed: what was planted is found, and what is damaged is refused.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rusqlite::Connection;

use super::analysis::{Explained, Figure};
use super::data::Machine;
use super::made_up::{self, Shape};
use super::read::{ReadError, read};
use super::report::{StudyReport, analyse};
use super::store::SCHEMA;

struct Written {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

fn written(shape: &Shape) -> Written {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.db");
    made_up::write(&path, SCHEMA, shape).unwrap();
    Written { _folder: folder, path }
}

fn report_of(shape: &Shape) -> StudyReport {
    analyse(&read(&written(shape).path).unwrap())
}

/// Made once for all tests.
static SMALL: LazyLock<StudyReport> = LazyLock::new(|| report_of(&Shape::SMALL));

fn over_all(report: &StudyReport, figure: Figure) -> &Explained {
    report.explained.iter().find(|one| one.figure == figure && one.workload.is_none()).unwrap()
}

fn says(report: &StudyReport, about: &str, words: &[&str]) {
    let finding = report.findings.iter().find(|finding| finding.about == about);
    let said = &finding.unwrap_or_else(|| panic!("nothing of {about}: {:?}", report.findings)).words;
    for word in words {
        assert!(said.contains(word), "{word:?} is not in {said:?}");
    }
}

#[test]
fn every_effect_that_was_planted_is_found_and_said() {
    let report = &*SMALL;
    let configurations = Shape::SMALL.configurations + made_up::REMEDIES.len();
    assert_eq!(report.study.configurations.len(), configurations);
    assert_eq!(report.study.runs_done, (configurations - 1) * 3 * 8);
    assert_eq!(report.study.runs_skipped, 3 * 8);
    assert_eq!(report.variation.len(), (configurations - 1) * 3);
    says(report, "variation", &["In these runs, the throughput of ext4 ranges over", "btrfs", "xfs"]);

    let variation = over_all(report, Figure::Variation);
    assert_eq!(variation.terms[0].factors, ["file_system"], "{variation:?}");
    assert!(variation.terms[0].share.unwrap() > 0.5);
    assert_eq!(variation.terms[0].levels[0].value, "xfs", "the steadiest comes first");
    says(
        report,
        "parameter",
        &["To vary less, change file_system", "runs with ext4 deviate", "runs with xfs"],
    );
    let throughput = over_all(report, Figure::Throughput);
    assert_eq!(throughput.terms[0].factors, ["file_system"]);
    let found = throughput.terms.iter().filter(|term| term.found).count();
    assert_eq!(found, 1, "nothing else makes a difference: {throughput:?}");
    says(
        report,
        "throughput",
        &["depends on file_system", "xfs is", "times as fast as btrfs", "under mailserver"],
    );

    let on_ext4 = |operation: &str| {
        let rows = report.operation_correlations.iter().filter(|row| row.file_system == "ext4");
        rows.filter(|row| row.operation == operation).map(|row| row.coefficient).fold(f64::INFINITY, f64::min)
    };
    assert!(on_ext4("open") > 0.7 && on_ext4("read") < 0.7, "{} {}", on_ext4("open"), on_ext4("read"));
    says(report, "operation", &["latency of open: r = "]);

    let case = report.case_studies.iter().find(|case| case.workload == "webserver").unwrap();
    let remedies: Vec<_> = case.boxes.iter().map(|one| one.remedies.as_str()).collect();
    assert_eq!(remedies, made_up::REMEDIES.map(|(name, _)| name));
    assert!(
        case.boxes.iter().all(|one| report.layouts.iter().any(|layout| layout.configuration == one.label))
    );
    assert!(case.boxes[3].relative_range < case.boxes[0].relative_range);
    says(
        report,
        "remedies",
        &["Repeats come closer together with no_lazy_init and unmount and restore_image: the RSD is"],
    );

    assert!(report.layouts.iter().all(|layout| (layout.file_system == "ext4") || layout.wandering == 0.0));
    assert!(report.layouts.iter().any(|layout| layout.file_system == "ext4" && layout.wandering > 0.5));
    for row in &report.steadiness {
        // Of a run in a few hundred, chance makes noise look like a long memory.
        assert!(row.runs_that_warm_up + 1 >= row.runs, "{row:?}");
        assert!((row.warm_up_s.unwrap() - 6.0).abs() < 1.1, "{row:?}");
        assert!((row.warm_up_ratio.unwrap() - 0.6 / 1.1).abs() < 0.05, "{row:?}");
    }
    let disturbed = report.outliers.iter().find(|run| run.odd_conditions.iter().any(|odd| odd.value == 0.33));
    let disturbed = disturbed.expect("the disturbed run");
    assert_eq!((disturbed.repeat, disturbed.workload.as_str()), (3, "fileserver"));
    assert_eq!(disturbed.odd_conditions[0].name, "steal_share");
    says(report, "conditions", &["runs with more frequency_hz than their repeats are faster"]);
    let of_load = report.condition_correlations.iter().find(|row| row.condition == "load_1m").unwrap();
    assert!(!of_load.found, "{of_load:?}");
    assert!(report.order.as_ref().unwrap().p_two_sided > 0.001, "{:?}", report.order);
    assert_eq!(report.left_out.len(), 3);
    assert_eq!((report.left_out[0].runs, report.left_out[0].skipped), (8, true));
    assert_eq!(report.left_out[0].message, "mount: wrong option <none>");
}

#[test]
fn a_machine_that_is_faster_is_found_and_does_not_pass_for_variation() {
    let shape = Shape { configurations: 10, repeats: 16, windows: 10, case_study: false, seed: 1 };
    let mut study = read(&written(&shape).path).unwrap();
    let alone = analyse(&study);
    study.machines.push(Machine { name: "fast".to_owned(), ..Machine::default() });
    for run in study.runs.iter_mut().filter(|run| run.repeat % 2 == 1 && run.machine.is_some()) {
        run.machine = Some(1);
        run.operations_per_s = run.operations_per_s.map(|rate| 3.0 * rate);
    }
    let report = analyse(&study);
    let throughput = over_all(&report, Figure::Throughput);
    let machine = throughput.terms.iter().find(|term| term.factors == ["machine"]).unwrap();
    assert!(machine.found && machine.share.unwrap() > 0.4, "{machine:?}");
    let levels: Vec<_> = machine.levels.iter().map(|level| level.value.as_str()).collect();
    assert_eq!(levels, ["fast", "here"]);
    let variation = over_all(&report, Figure::Variation);
    let machine = variation.terms.iter().find(|term| term.factors == ["machine"]).unwrap();
    assert!(!machine.found, "both vary alike: {machine:?}");
    // Configurations vary as they did: three times as fast is not a deviation of half.
    assert_eq!(report.variation.len(), 2 * alone.variation.len());
    let typical = |report: &StudyReport| {
        let spreads: Vec<f64> = report.variation.iter().filter_map(|row| row.rsd).collect();
        crate::stats::median(&spreads).unwrap()
    };
    assert!(
        (typical(&report) / typical(&alone) - 1.0).abs() < 0.3,
        "{} {}",
        typical(&report),
        typical(&alone)
    );
}

#[test]
fn figures_over_time_cover_every_workload_and_file_system() {
    let report = &*SMALL;
    assert_eq!(report.bands.len(), 9);
    assert_eq!(report.instantaneous.len(), 9);
    for band in &report.bands {
        assert_eq!(band.points.len(), 60);
        let ordered = band.points.iter().all(|point| {
            point.least_operations_per_s <= point.mean_operations_per_s
                && point.mean_operations_per_s <= point.most_operations_per_s
        });
        assert!(ordered, "{band:?}");
    }
    for run in &report.instantaneous {
        let fastest = run.points.iter().map(|point| point.most).fold(0.0, f64::max);
        assert_eq!(fastest, 1.0);
    }
    for rows in report.window_ranges.chunk_by(|one, other| one.file_system == other.file_system) {
        let narrowing = rows.windows(2).all(|pair| pair[1].median < pair[0].median * 1.1);
        assert!(narrowing, "longer windows range over less: {rows:?}");
    }
    assert_eq!(report.latency_curves.len(), 3);
    for curves in &report.latency_curves {
        assert_eq!((curves.operations.len(), curves.repeats.len()), (5, 8));
        assert_eq!(curves.farthest_operation, "open");
        assert!(curves.operations.iter().all(|curve| curve.cdf.last().unwrap().1 == 1.0));
    }
}

#[test]
fn the_same_study_gives_the_same_report() {
    let one = serde_json::to_string(&*SMALL).unwrap();
    assert_eq!(one, serde_json::to_string(&report_of(&Shape::SMALL)).unwrap());
    assert!(one.starts_with(r#"{"schema":"evenkeel.study/2""#));
}

#[test]
fn a_study_that_has_not_begun_or_has_but_one_run_is_reported_all_the_same() {
    let written = written(&Shape { configurations: 2, repeats: 1, windows: 1, case_study: false, seed: 1 });
    let report = analyse(&read(&written.path).unwrap());
    assert_eq!((report.study.runs_done, report.variation[0].rsd), (3, None));
    let database = Connection::open(&written.path).unwrap();
    for table in ["throughput", "latency", "layout", "condition"] {
        database.execute(&format!("DELETE FROM {table}"), []).unwrap();
    }
    database.execute("UPDATE run SET state = 'planned', operations_per_s = NULL", []).unwrap();
    let report = analyse(&read(&written.path).unwrap());
    assert_eq!((report.study.runs_done, report.variation.len()), (0, 0));
    says(&report, "left_out", &["6 are still to come"]);
}

fn refused(path: &Path) -> String {
    let line = read(path).expect_err("it is damaged").to_string();
    assert!(!line.contains('\n') && line.len() < 300, "{line}");
    line
}

#[test]
fn what_is_no_study_is_refused_in_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.db");
    assert!(matches!(read(&path), Err(ReadError::Sqlite(_))));
    assert!(!path.exists(), "reading makes no file");
    std::fs::write(&path, b"not a database at all, whatever its name says").unwrap();
    assert!(refused(&path).contains("not a database"));
    std::fs::remove_file(&path).unwrap();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE other (a INTEGER)").unwrap();
    assert!(refused(&path).contains("no such table"));
}

#[test]
fn what_is_damaged_is_refused_and_said() {
    let huge = "UPDATE latency SET histogram = zeroblob(2000000) WHERE run_id = 1";
    let wide = "UPDATE latency SET histogram = x'1c849313000000000000000000000005000000000000000100ffffffffffffff3ff0000000000000' WHERE run_id = 1";
    for (damage, words) in [
        ("UPDATE throughput SET operations = -1 WHERE run_id = 1", "a count that cannot be"),
        ("UPDATE throughput SET length_s = 0 WHERE run_id = 1", "without length"),
        ("UPDATE throughput SET start_s = 9e999 WHERE run_id = 1", "no number"),
        ("UPDATE run SET operations_per_s = -5 WHERE id = 2", "negative or no number"),
        ("UPDATE run SET configuration_id = 99 WHERE id = 2", "a configuration that is not there"),
        ("UPDATE latency SET histogram = x'00' WHERE run_id = 1", "is cut short"),
        ("UPDATE latency SET histogram = zeroblob(60) WHERE run_id = 1", "not one of HdrHistogram V2"),
        (wide, "more than is read"),
        (huge, "longer than"),
        ("UPDATE run SET state = printf('%1000d', 1) WHERE id = 1", "in the state"),
        // To SQLite, a text ends at its first null character, though it is read whole.
        ("UPDATE run SET message = CAST(zeroblob(2000000) AS TEXT) WHERE id = 1", "longer than"),
        ("UPDATE run SET state = CAST(zeroblob(2000000) AS TEXT) WHERE id = 1", "longer than"),
        ("UPDATE study SET interval_s = 0", "interval"),
        ("DELETE FROM study", "has no row"),
        ("UPDATE latency SET mean_s = 'soon'", "Invalid column type"),
        ("UPDATE layout SET physical_bytes = -4096 WHERE run_id = 1", "a count that cannot be"),
        ("DELETE FROM run WHERE id = 1", "a run that is not there"),
    ] {
        let written =
            written(&Shape { configurations: 3, repeats: 1, windows: 2, case_study: false, seed: 1 });
        Connection::open(&written.path)
            .unwrap()
            .execute_batch(&format!(
                "PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF; {damage}"
            ))
            .unwrap();
        let line = refused(&written.path);
        assert!(line.contains(words), "{damage}: {line}");
    }
}

#[test]
fn a_view_in_the_place_of_a_table_is_not_asked() {
    let written = written(&Shape { configurations: 3, repeats: 1, windows: 2, case_study: false, seed: 1 });
    let endless = "PRAGMA foreign_keys = OFF; DROP TABLE condition;
                   CREATE VIEW condition AS WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n)
                   SELECT 1 AS run_id, 'load_1m' AS name, value FROM n";
    Connection::open(&written.path).unwrap().execute_batch(endless).unwrap();
    assert!(refused(&written.path).contains("condition is no table"));
}

#[test]
fn one_long_text_is_not_hidden_by_another_that_is_missing() {
    let written = written(&Shape { configurations: 3, repeats: 1, windows: 2, case_study: false, seed: 1 });
    let nameless = "DROP TABLE machine; CREATE TABLE machine (id, name, kernel, cpus, memory_bytes);
                    INSERT INTO machine VALUES (1, printf('%2000000d', 1), NULL, 1, 1)";
    let database = Connection::open(&written.path).unwrap();
    database.execute_batch(&format!("PRAGMA foreign_keys = OFF; {nameless}")).unwrap();
    assert!(refused(&written.path).contains("longer than"));
}

#[test]
fn what_a_database_says_does_not_command_the_terminal() {
    let written = written(&Shape { configurations: 3, repeats: 1, windows: 2, case_study: false, seed: 1 });
    let database = Connection::open(&written.path).unwrap();
    database
        .execute_batch(
            "UPDATE study SET name = char(27) || '[2J'; UPDATE run SET message = char(155) || char(10)",
        )
        .unwrap();
    let study = read(&written.path).unwrap();
    assert_eq!(study.name, "\u{fffd}[2J");
    assert_eq!(study.runs[0].message.as_deref(), Some("\u{fffd}\n"));
}

#[test]
fn a_database_cut_or_flipped_anywhere_never_panics() {
    let written = written(&Shape { configurations: 3, repeats: 2, windows: 20, case_study: false, seed: 1 });
    let whole = std::fs::read(&written.path).unwrap();
    for step in 1..60 {
        let mut bytes = whole.clone();
        let at = bytes.len() * step / 60;
        match step % 2 {
            0 => bytes.truncate(at),
            _ => bytes[at..].iter_mut().step_by(97).take(50).for_each(|byte| *byte ^= 0xff),
        }
        std::fs::write(&written.path, &bytes).unwrap();
        if let Ok(study) = read(&written.path) {
            let _ = analyse(&study);
        }
    }
}

#[test]
fn there_is_a_view_for_each_figure_and_it_says_what_the_report_says() {
    let written = written(&Shape { configurations: 6, repeats: 3, windows: 20, case_study: true, seed: 1 });
    let report = analyse(&read(&written.path).unwrap());
    let database = Connection::open(&written.path).unwrap();
    for figure in 1..=9 {
        let query = format!("SELECT count(*) FROM figure_{figure}");
        let rows: i64 = database.query_row(&query, [], |row| row.get(0)).unwrap();
        assert!(rows > 0, "figure {figure}");
    }
    let near = |one: f64, other: f64| (one - other).abs() <= 1e-9 * other.abs();
    for row in &report.variation {
        let query = "SELECT mean_operations_per_s, relative_range, rsd_squared FROM figure_1
                     WHERE configuration = ?1 AND workload = ?2";
        let (mean, range, squared): (f64, f64, f64) = database
            .query_row(query, [&row.configuration, &row.workload], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .unwrap();
        assert!(near(mean, row.mean_operations_per_s) && near(range, row.relative_range.unwrap()), "{row:?}");
        assert!((squared.sqrt() / row.rsd.unwrap() - 1.0).abs() < 1e-4, "{row:?}");
    }
    for band in &report.bands {
        let query = "SELECT max(most_operations_per_s), min(least_operations_per_s) FROM figure_5
                     WHERE configuration = ?1 AND workload = ?2";
        let (most, least): (f64, f64) = database
            .query_row(query, [&band.configuration, &band.workload], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap();
        let of_points = |of: fn(f64, f64) -> f64, value: fn(&crate::study::analysis::BandPoint) -> f64| {
            band.points.iter().map(value).reduce(of).unwrap()
        };
        assert!(near(most, of_points(f64::max, |point| point.most_operations_per_s)));
        assert!(near(least, of_points(f64::min, |point| point.least_operations_per_s)));
    }
    let median: f64 = database
        .query_row("SELECT avg(relative_range) FROM figure_6 WHERE file_system = 'ext4'", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert!(median > 0.0);
    let fastest: f64 = database
        .query_row(
            "SELECT min(fastest) FROM (SELECT max(of_fastest) AS fastest FROM figure_7 GROUP BY run_id)",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(fastest, 1.0);
}
