//! `cargo xtask fuzz`: builds the fuzz targets and runs them, on a stable compiler.
//!
//! cargo-fuzz wants a nightly one, for its sanitizers. What libFuzzer needs to see which way an input takes does without:
//! here are cargo-fuzz's flags but for those. The layout of `fuzz/` is cargo-fuzz's, so it works there too.

use std::env;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::run::{self, Failure, Outcome, context};
use crate::test::SKIPPED_VARIABLE;

/// What makes a program tell the fuzzer which way it takes and what it compares.
const FLAGS: [&str; 6] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// Bounds of a run: memory of the process, time for one input, size of one input.
const BOUNDS: [&str; 3] = ["-rss_limit_mb=1024", "-timeout=20", "-max_len=8192"];

/// How long a target runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Span {
    /// Seconds, with other inputs each time, from the inputs that earlier runs kept.
    Time { time_s: u64 },
    /// Among the tests: the same inputs each time, so that a change fails for what it does and not for its luck.
    Test,
}

/// Inputs that a target gets among the tests, and the seconds after which it ends on a slow machine.
const TEST_RUNS: u64 = 200_000;
const TEST_TIME_MAX_S: u64 = 8;

/// Lines of a failing target's output that are shown.
const SHOWN_LINES_MAX: usize = 40;

/// What is asked of `fuzz`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask fuzz --list                       which targets there are
  cargo xtask fuzz record --time 120s           one of them, for two minutes")]
pub(crate) struct Args {
    /// The target [default: all of them]
    target: Option<String>,
    /// How long each runs, in whole seconds
    #[arg(long, default_value = "10s", value_parser = seconds)]
    time: u64,
    /// Name the targets
    #[arg(long)]
    list: bool,
}

fn seconds(text: &str) -> Result<u64, String> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse().ok().filter(|&seconds| seconds > 0);
    seconds.ok_or_else(|| format!("whole seconds are meant, such as 10s, not `{text}`"))
}

/// Runs the target that was named, or all of them.
pub(crate) fn main(args: &Args) -> Outcome {
    let targets = targets()?;
    if args.list {
        for target in &targets {
            println!("{:<12} {}", target.name, target.about);
        }
        return Ok(());
    }
    let chosen: Vec<&Target> = match &args.target {
        None => targets.iter().collect(),
        Some(name) => vec![targets.iter().find(|target| target.name == *name).ok_or_else(|| {
            let names: Vec<_> = targets.iter().map(|target| target.name.as_str()).collect();
            Failure::Usage(format!("no fuzz target `{name}`; there is: {}", names.join(", ")))
        })?],
    };
    if let Some(reason) = missing() {
        return Err(Failure::Failed(reason));
    }
    run_targets(&chosen, Span::Time { time_s: args.time })
}

/// All targets, as one of the tests: where they cannot be built, they are skipped, and `skipped` is told.
pub(crate) fn test(skipped: &Path) -> Outcome {
    if let Some(reason) = missing() {
        eprintln!("skipped: {reason}");
        let mut file = fs::OpenOptions::new()
            .append(true)
            .open(skipped)
            .map_err(context(format!("cannot open {SKIPPED_VARIABLE}'s {}", skipped.display())))?;
        return writeln!(file, "fuzz targets: {reason}").map_err(context("cannot tell what was skipped"));
    }
    run_targets(&targets()?.iter().collect::<Vec<_>>(), Span::Test)
}

/// Why the targets cannot be built here, if so.
fn missing() -> Option<String> {
    let has_compiler = env::var_os("CXX").is_some() || run::has_program("c++");
    (!has_compiler).then(|| "no C++ compiler, which libFuzzer is built with (Debian: g++)".to_owned())
}

/// A fuzz target.
#[derive(Debug)]
struct Target {
    name: String,
    /// Its first line.
    about: String,
}

fn folder() -> PathBuf {
    run::workspace_root().join("fuzz")
}

/// The targets: one file each.
fn targets() -> Outcome<Vec<Target>> {
    let folder = folder().join("fuzz_targets");
    let cannot = || format!("cannot read {}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder).map_err(context(cannot()))? {
        let path = entry.map_err(context(cannot()))?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).map_err(context(cannot()))?;
            let about = text.lines().next().unwrap_or_default().trim_start_matches("//! ").to_owned();
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            found.push(Target { name, about });
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// The compiler's own target. Named to cargo, it keeps the flags away from build scripts.
fn host() -> Outcome<String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let told = Command::new(rustc).arg("-vV").output().map_err(context("cannot run rustc"))?;
    let told = String::from_utf8_lossy(&told.stdout);
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Failure::Failed("rustc -vV names no host".to_owned()))
}

fn run_targets(targets: &[&Target], span: Span) -> Outcome {
    let host = host()?;
    let build_folder = folder().join("target");
    let mut build = run::cargo(&["build", "--release", "--locked", "--manifest-path"]);
    build.arg(folder().join("Cargo.toml")).arg("--target-dir").arg(&build_folder);
    build.args(["--target", &host]).env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f"));
    for target in targets {
        build.args(["--bin", &target.name]);
    }
    run::run(&mut build)?;
    let programs = build_folder.join(host).join("release");
    let mut failed = Vec::new();
    for target in targets {
        if let Err(failure) = run_target(&programs, target, span) {
            failure.report();
            failed.push(target.name.as_str());
        }
    }
    match failed[..] {
        [] => Ok(()),
        _ => Err(Failure::Failed(format!("fuzz targets that failed: {}", failed.join(", ")))),
    }
}

fn run_target(programs: &Path, target: &Target, span: Span) -> Outcome {
    let name = &target.name;
    let artifacts = folder().join("artifacts").join(name);
    let corpus = match span {
        Span::Time { .. } => folder().join("corpus").join(name),
        Span::Test => folder().join("target/test-corpus").join(name),
    };
    if span == Span::Test && corpus.exists() {
        fs::remove_dir_all(&corpus).map_err(context(format!("cannot clear {}", corpus.display())))?;
    }
    for folder in [&corpus, &artifacts] {
        fs::create_dir_all(folder).map_err(context(format!("cannot make {}", folder.display())))?;
    }
    let mut fuzzer = Command::new(programs.join(name));
    // The names of a stack take more memory than a target may hold: it would hang where it should say what is wrong.
    fuzzer.env("RUST_BACKTRACE", "0");
    match span {
        Span::Time { time_s } => fuzzer.arg(format!("-max_total_time={time_s}")),
        Span::Test => fuzzer.args([
            "-seed=1".to_owned(),
            format!("-runs={TEST_RUNS}"),
            format!("-max_total_time={TEST_TIME_MAX_S}"),
        ]),
    };
    fuzzer.args(BOUNDS).arg("-print_final_stats=1");
    fuzzer.arg(format!("-artifact_prefix={}/", artifacts.display())).arg(&corpus);
    let seeds = folder().join("seeds").join(name);
    if seeds.is_dir() {
        fuzzer.arg(seeds);
    }
    let told = fuzzer.stdin(Stdio::null()).output().map_err(context(format!("cannot run {name}")))?;
    let text = String::from_utf8_lossy(&told.stderr);
    if told.status.success() {
        println!("{}", summary(name, &text));
        return Ok(());
    }
    let lines: Vec<&str> = text.lines().collect();
    // What went wrong stands before the stack that libFuzzer prints.
    let from = lines.iter().position(|line| line.contains("panicked at") || line.contains("ERROR:"));
    let from = from.unwrap_or_else(|| lines.len().saturating_sub(SHOWN_LINES_MAX));
    for line in lines[from..].iter().take(SHOWN_LINES_MAX) {
        eprintln!("{line}");
    }
    Err(Failure::Failed(format!(
        "fuzz target {name} failed ({}); the input is in {}, and {} FILE runs it again",
        told.status,
        artifacts.display(),
        programs.join(name).display()
    )))
}

/// How much was tried, from libFuzzer's last lines.
fn summary(name: &str, text: &str) -> String {
    let stat = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix("stat::")?.strip_prefix(key));
        line.map_or("?", |value| value.trim_start_matches(':').trim()).to_owned()
    };
    format!(
        "{name:<12} {:>12} inputs, {:>9} a second, {} MiB",
        stat("number_of_executed_units"),
        stat("average_exec_per_sec"),
        stat("peak_rss_mb")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_is_none_is_told_with_those_that_are() {
        let args = Args { target: Some("ring".to_owned()), time: 1, list: false };
        let Err(Failure::Usage(text)) = main(&args) else { panic!("there is no such target") };
        assert!(text.contains("record") && text.contains("volume"), "{text}");
        assert_eq!(seconds("3s"), Ok(3));
        assert!(seconds("0s").is_err_and(|text| text.contains("0s")));
    }

    #[test]
    fn every_target_says_what_it_is_for_and_is_built() {
        let manifest = fs::read_to_string(folder().join("Cargo.toml")).unwrap();
        let targets = targets().unwrap();
        assert!(targets.len() >= 5, "{targets:?}");
        for Target { name, about } in &targets {
            assert!(
                manifest.contains(&format!("name = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"")),
                "{name}"
            );
            assert!(about.ends_with('.'), "{name}: {about}");
        }
    }

    #[test]
    fn the_summary_says_how_much_was_tried() {
        let text = "INFO\nstat::number_of_executed_units: 12\nstat::average_exec_per_sec:     3\nstat::peak_rss_mb: 9";
        let words: Vec<String> = summary("log", text).split_whitespace().map(str::to_owned).collect();
        assert_eq!(words.join(" "), "log 12 inputs, 3 a second, 9 MiB");
    }
}
