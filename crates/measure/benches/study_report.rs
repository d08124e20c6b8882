//! How long the report of a large study takes, and how large its page is: 54 configurations, 3 workloads and 10 repeats
//! of 624 windows, a million in all, from the database to the page. It must take less than 5 s and 5 MB.
//!
//! The best of five, step by step. With `KEEP=DIR` the database and the page stay there.

#![allow(clippy::print_stdout, reason = "a benchmark's output is its figure")]

#[path = "../src/study/made_up.rs"]
#[allow(dead_code, unreachable_pub, reason = "the library's tests use all of it")]
mod made_up;

use std::path::PathBuf;
use std::time::Instant;

use evenkeel_measure::study::page::study_page;
use evenkeel_measure::study::read::read;
use evenkeel_measure::study::report::analyse;
use evenkeel_measure::study::store::SCHEMA;
use evenkeel_measure::study::tables::tables;

const SHAPE: made_up::Shape =
    made_up::Shape { configurations: 54, repeats: 10, windows: 624, case_study: true, seed: 1 };
const TRIES: usize = 5;

fn main() {
    let scratch = tempfile::tempdir().expect("a folder can be made");
    let folder = std::env::var_os("KEEP").map_or_else(|| scratch.path().to_owned(), PathBuf::from);
    let database = folder.join("study.db");
    let _older = std::fs::remove_file(&database);
    made_up::write(&database, SCHEMA, &SHAPE).expect("the database can be written");
    let bytes = std::fs::metadata(&database).map_or(0, |data| data.len());

    let mut best = [f64::INFINITY; 4];
    let mut sizes = [0; 4];
    for _ in 0..TRIES {
        let mut at = Instant::now();
        let mut lap = |step: usize| {
            best[step] = best[step].min(at.elapsed().as_secs_f64());
            at = Instant::now();
        };
        let study = read(&database).expect("what was written can be read");
        lap(0);
        let report = analyse(&study);
        lap(1);
        let page = study_page(&report);
        lap(2);
        let json = serde_json::to_string_pretty(&report).expect("a document");
        let rows: usize = tables(&report).iter().map(|table| table.csv().expect("rows").len()).sum();
        lap(3);
        sizes = [report.study.windows, page.len(), json.len(), rows];
        if std::env::var_os("KEEP").is_some() {
            std::fs::write(folder.join("study.html"), page).expect("the page can be written");
        }
    }
    let [windows, page, json, rows] = sizes;
    println!("{windows} windows, a database of {bytes} bytes");
    println!(
        "read {:.2} s, analyse {:.2} s, page {:.2} s, files {:.2} s",
        best[0], best[1], best[2], best[3]
    );
    println!(
        "in all {:.2} s; page {page} bytes, document {json} bytes, tables {rows} bytes",
        best.iter().sum::<f64>()
    );
}
