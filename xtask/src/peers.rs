//! `cargo xtask peers`: the probe beside fio and iozone, on the same file systems in the same session.
//!
//! Each round runs evenkeel and the peer once at each size, one right after the other and in alternating
//! order, so that a drift of the machine meets both. A run's figure is its mean latency of a synchronous
//! write, which all three report; a pair of runs gives a ratio, and the rounds give its median and spread.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::run::{self, Failure, Outcome, context};

/// Bytes of the file that every program writes anew in each run.
const FILE_BYTES: u64 = 16 << 20;

/// Buffers compared, in KiB.
const SIZES_KIB: [u64; 5] = [4, 16, 64, 256, 1024];

/// A way of writing that both evenkeel and a peer know.
struct Case {
    method: &'static str,
    peer: Peer,
}

#[derive(Clone, Copy)]
enum Peer {
    /// fio with these options for durability.
    Fio(&'static [&'static str]),
    /// iozone as the paper of synchronous writes ran it.
    Iozone,
}

const CASES: [Case; 3] = [
    Case { method: "direct-dsync", peer: Peer::Fio(&["--direct=1", "--sync=dsync"]) },
    Case { method: "fdatasync", peer: Peer::Fio(&["--fdatasync=1"]) },
    Case { method: "direct-sync", peer: Peer::Iozone },
];

/// Median over rounds of both programs' latency, and of their ratio with its middle half.
struct Row {
    ours_us: f64,
    peer_us: f64,
    ratio: [f64; 3],
}

/// What is asked of `peers`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask peers /tmp/fs/xfs /tmp/fs/ext4    two file systems that `loopfs up` made
  cargo xtask peers . --rounds 5                a short look")]
pub(crate) struct Args {
    /// Folders to write in
    #[arg(required = true, value_name = "DIR", value_parser = folder)]
    folders: Vec<PathBuf>,
    /// Pairs of runs
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
}

fn folder(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_dir() { Ok(path) } else { Err("not a folder".to_owned()) }
}

/// Compares on each folder named.
pub(crate) fn main(args: &Args) -> Outcome {
    let rounds = usize::from(args.rounds);
    run::run(&mut run::cargo(&["build", "--quiet", "--release", "--locked", "--package", "evenkeel"]))?;
    let evenkeel = run::workspace_root().join("target/release/evenkeel");
    println!("Mean latency of a synchronous write, us: median of {rounds} runs of each program, in turns.");
    println!("Ratio: evenkeel over the peer, median and middle half of the pairs.\n");
    println!("| file system | method | peer | buffer | evenkeel | peer | ratio | middle half |");
    println!("|---|---|---|---:|---:|---:|---:|---|");
    for folder in &args.folders {
        for case in &CASES {
            let program = case.peer.program();
            if !run::has_program(program) {
                eprintln!("{program} is not installed: its rows are left out");
                continue;
            }
            for kib in SIZES_KIB {
                let row = compare(&evenkeel, folder, case, kib, rounds)?;
                let name = folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy();
                let [low, median, high] = row.ratio;
                println!(
                    "| {name} | {} | {program} | {kib} KiB | {:.1} | {:.1} | {median:.3} | {low:.3} to {high:.3} |",
                    case.method, row.ours_us, row.peer_us
                );
            }
        }
    }
    Ok(())
}

fn compare(evenkeel: &Path, folder: &Path, case: &Case, kib: u64, rounds: usize) -> Outcome<Row> {
    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let our_run = || evenkeel_us(evenkeel, folder, case.method, kib);
        let their_run = || case.peer.latency_us(folder, kib);
        let (our_us, their_us) = if round % 2 == 0 {
            let our_us = our_run()?;
            (our_us, their_run()?)
        } else {
            let their_us = their_run()?;
            (our_run()?, their_us)
        };
        ours.push(our_us);
        theirs.push(their_us);
        ratios.push(our_us / their_us);
    }
    Ok(Row { ours_us: quartiles(ours)[1], peer_us: quartiles(theirs)[1], ratio: quartiles(ratios) })
}

fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [values.len() / 4, values.len() / 2, values.len() * 3 / 4].map(|place| values[place])
}

fn evenkeel_us(evenkeel: &Path, folder: &Path, method: &str, kib: u64) -> Outcome<f64> {
    let out = folder.join("peers-out");
    let mut command = Command::new(evenkeel);
    command.arg("probe").arg(folder).args(["--runs", "1", "--method", method]);
    command.args(["--sizes", &format!("{kib}k"), "--force", "--out"]).arg(&out);
    output_of(&mut command)?;
    let json = fs::read(out.join("probe.json")).map_err(context("cannot read the probe's results"))?;
    fs::remove_dir_all(&out).map_err(context("cannot remove the probe's results"))?;
    let report = json_of(&json)?;
    figure(&report["points"][0]["latency_s"]["mean"]).map(|seconds| seconds * 1e6)
}

impl Peer {
    fn program(self) -> &'static str {
        match self {
            Self::Fio(_) => "fio",
            Self::Iozone => "iozone",
        }
    }

    fn latency_us(self, folder: &Path, kib: u64) -> Outcome<f64> {
        let file = folder.join("peers-file");
        match self {
            Self::Fio(durability) => {
                let mut command = Command::new("fio");
                command.args(["--name=peer", "--rw=write", "--ioengine=psync", "--output-format=json"]);
                // The file grows with each write, as in the probe: fio would reserve its blocks first.
                command.args(["--fallocate=none", "--unlink=1"]).args(durability);
                command.arg(format!("--bs={kib}k")).arg(format!("--size={FILE_BYTES}"));
                command.arg(format!("--filename={}", file.display()));
                let report = json_of(&output_of(&mut command)?)?;
                let job = &report["jobs"][0];
                let write_ns = figure(&job["write"]["lat_ns"]["mean"])?;
                // fio counts a sync after a write apart from it.
                let synced = job["sync"]["lat_ns"]["N"].as_u64().unwrap_or(0) > 0;
                let sync_ns = if synced { figure(&job["sync"]["lat_ns"]["mean"])? } else { 0.0 };
                Ok((write_ns + sync_ns) * 1e-3)
            }
            Self::Iozone => {
                let mut command = Command::new("iozone");
                command.args(["-i", "0", "-o", "-I", "-e", "-N", "-s"]);
                command
                    .arg(format!("{}k", FILE_BYTES >> 10))
                    .args(["-r", &format!("{kib}k"), "-f"])
                    .arg(&file);
                let text = String::from_utf8_lossy(&output_of(&mut command)?).into_owned();
                iozone_write_us(&text).ok_or_else(|| Failure::Failed("iozone printed no table".to_owned()))
            }
        }
    }
}

/// The `write` column of iozone's table: microseconds an operation with `-N`.
fn iozone_write_us(text: &str) -> Option<f64> {
    let row = text.lines().skip_while(|line| !line.contains("reclen")).nth(1)?;
    row.split_whitespace().nth(2)?.parse().ok()
}

fn output_of(command: &mut Command) -> Outcome<Vec<u8>> {
    let shown = run::shown(command);
    let output = command.output().map_err(context(format!("cannot run `{shown}`")))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(Failure::Failed(format!("`{shown}` failed: {said}")))
}

fn json_of(text: &[u8]) -> Outcome<Value> {
    serde_json::from_slice(text).map_err(|error| Failure::Failed(format!("unreadable JSON: {error}")))
}

fn figure(value: &Value) -> Outcome<f64> {
    value.as_f64().ok_or_else(|| Failure::Failed("a figure is missing in the JSON".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iozone_s_table_is_read() {
        let text = "              kB  reclen    write  rewrite\n           16384       4      197      121\n";
        assert_eq!(iozone_write_us(text), Some(197.0));
        assert_eq!(iozone_write_us("iozone: interrupted"), None);
    }
}
