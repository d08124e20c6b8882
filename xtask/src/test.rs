//! `cargo xtask test`: what the tests need, the tests, each fuzz target for a moment, and what was skipped.
//!
//! A test that cannot run where it is prints `skipped: REASON` and appends a line `NAME: REASON` to the file that
//! the environment variable `EVENKEEL_SKIPPED` names. The test harness swallows what a passing test prints; the
//! file is how a skip still reaches the reader.

use std::env;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use evenkeel_host::program::is_root;

use crate::fuzz;
use crate::run::{self, Outcome, context};
use crate::slow;

/// Names the file that tests add their skips to.
pub(crate) const SKIPPED_VARIABLE: &str = "EVENKEEL_SKIPPED";

/// Tells the test harness how many tests run at once.
const THREADS_VARIABLE: &str = "RUST_TEST_THREADS";

/// Tests at once for each processor: those of servers wait for half of their time.
const TESTS_PER_PROCESSOR: usize = 2;

/// Something that some tests need.
#[derive(Debug)]
struct Need {
    /// The Debian package.
    package: &'static str,
    /// What the tests look for, and what tells on any system whether it is there.
    sign: Sign,
    /// The tests that are skipped without it.
    tests: &'static str,
}

/// What tells that a package is there.
#[derive(Debug)]
enum Sign {
    /// A program in it.
    Program(&'static str),
    /// A module of python3.
    Module(&'static str),
}

impl Sign {
    fn is_there(&self) -> bool {
        match self {
            Self::Program(name) => run::has_program(name),
            Self::Module(name) => {
                let mut python = run::system("python3", &["-c", &format!("import {name}")]);
                python
                    .stdin(Stdio::null())
                    .stderr(Stdio::null())
                    .status()
                    .is_ok_and(|status| status.success())
            }
        }
    }
}

/// What the tests with real file systems, clients and browsers need.
const NEEDS: &[Need] = &[
    Need { package: "chromium", sign: Sign::Program("chromium"), tests: "those of reports in a browser" },
    Need { package: "xfsprogs", sign: Sign::Program("mkfs.xfs"), tests: "those on xfs" },
    Need { package: "btrfs-progs", sign: Sign::Program("mkfs.btrfs"), tests: "those on btrfs" },
    Need { package: "e2fsprogs", sign: Sign::Program("mkfs.ext4"), tests: "those on ext4" },
    Need { package: "g++", sign: Sign::Program("c++"), tests: "the fuzz targets" },
    Need { package: "fio", sign: Sign::Program("fio"), tests: "those with fio" },
    Need {
        package: "libnbd-bin",
        sign: Sign::Program("nbdfuse"),
        tests: "those with nbdinfo, nbdcopy and nbdfuse",
    },
    Need { package: "python3-libnbd", sign: Sign::Program("nbdsh"), tests: "those with nbdsh" },
    Need {
        package: "nbdkit",
        sign: Sign::Program("nbdkit"),
        tests: "those that cut a drive's power, or have it elsewhere",
    },
    Need { package: "xz-utils", sign: Sign::Program("xz"), tests: "that of volumes of earlier versions" },
    Need {
        package: "openssl",
        sign: Sign::Program("openssl"),
        tests: "those of TLS with other people's clients",
    },
    Need { package: "fuse3", sign: Sign::Program("fusermount3"), tests: "those of file systems on a volume" },
    Need { package: "qemu-utils", sign: Sign::Program("qemu-io"), tests: "those with qemu-img and qemu-io" },
    Need {
        package: "prometheus",
        sign: Sign::Program("promtool"),
        tests: "those of alert rules and of the dashboard",
    },
    Need {
        package: "python3-jsonschema",
        sign: Sign::Program("jsonschema"),
        tests: "those of documents against their schemas",
    },
    Need { package: "python3", sign: Sign::Program("python3"), tests: "those of the Python package" },
    Need {
        package: "python3-pandas",
        sign: Sign::Module("pandas"),
        tests: "those of the Python package's data frames",
    },
    // Its own programs are in no PATH; this one comes with them.
    Need { package: "postgresql", sign: Sign::Program("pg_ctlcluster"), tests: "those with PostgreSQL" },
];

/// What is asked of `test`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask test                              all tests
  cargo xtask test -- -p evenkeel-sim           those of one crate
  cargo xtask test --slow --list                what looks for rare faults
  cargo xtask test --slow states fuzz           two kinds of it")]
pub(crate) struct Args {
    /// Look for rare faults for hours: seeds, crash states, kills, sessions, fuzz targets, planted bugs
    #[arg(long, conflicts_with = "passed_on")]
    slow: bool,
    /// Name the jobs of --slow
    #[arg(long, requires = "slow")]
    list: bool,
    /// With --slow, those jobs alone whose names begin so
    #[arg(value_name = "NAME", requires = "slow")]
    names: Vec<String>,
    /// Arguments for cargo test
    #[arg(last = true, value_name = "ARGS")]
    passed_on: Vec<String>,
}

/// Gets what the tests need, runs them, and tells what was skipped.
pub(crate) fn main(args: &Args) -> Outcome {
    if args.slow {
        return test_slowly(args);
    }
    let passed_on = &args.passed_on;
    prepare();
    let skipped = fresh_skip_file()?;
    // One test that fails hides no other.
    let mut cargo = run::cargo(&["test", "--locked", "--no-fail-fast"]);
    if !names_packages(passed_on) {
        cargo.arg("--workspace");
    }
    if env::var_os(THREADS_VARIABLE).is_none() {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        cargo.env(THREADS_VARIABLE, (TESTS_PER_PROCESSOR * processors).to_string());
    }
    let mut outcome = run::hand_over(cargo.args(passed_on).env(SKIPPED_VARIABLE, &skipped));
    if outcome.is_ok() && passed_on.is_empty() {
        outcome = fuzz::test(&skipped);
    }
    let text = fs::read_to_string(&skipped).map_err(context(format!("cannot read {}", skipped.display())))?;
    print!("{}", skip_report(&text));
    outcome
}

/// Whether arguments for `cargo test` name packages: `--workspace` beside them would be all of them.
fn names_packages(passed_on: &[String]) -> bool {
    let of_cargo = passed_on.iter().take_while(|arg| *arg != "--");
    of_cargo.into_iter().any(|arg| arg.starts_with("-p") || arg.starts_with("--package"))
}

/// The second tier: what takes hours.
fn test_slowly(args: &Args) -> Outcome {
    if args.list {
        print!("{}", slow::list());
        return Ok(());
    }
    let names = &args.names;
    slow::check(names)?;
    prepare();
    slow::main(names, &target_folder().join("slow-tests"))
}

/// Where cargo builds.
fn target_folder() -> PathBuf {
    let root = run::workspace_root();
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir))
}

/// Installs what is missing where that can be done, and names what stays missing.
fn prepare() {
    let absent = || -> Vec<&Need> { NEEDS.iter().filter(|need| !need.sign.is_there()).collect() };
    let mut missing = absent();
    if missing.is_empty() {
        return;
    }
    if is_root() && run::has_program("apt-get") {
        // Without them the tests are skipped, not failed; so what goes wrong here is told and no more.
        if let Err(failure) = install(&missing) {
            failure.report();
        }
        missing = absent();
    }
    if !missing.is_empty() {
        eprintln!("{}", missing_line(&missing));
    }
}

/// The line that names what is missing, how to get it, and which tests are skipped without it.
fn missing_line(missing: &[&Need]) -> String {
    let packages: Vec<_> = missing.iter().map(|need| need.package).collect();
    let tests: Vec<_> = missing.iter().map(|need| need.tests).collect();
    format!(
        "missing: {}; `sudo apt-get install --no-install-recommends {}` installs; tests to be skipped: {}",
        packages.join(", "),
        packages.join(" "),
        tests.join(", ")
    )
}

/// Installs the packages with apt-get.
fn install(missing: &[&Need]) -> Outcome {
    retry(|| apt_get(&["update"]))?;
    let packages = missing.iter().map(|need| need.package);
    let args: Vec<_> = ["install", "--yes", "--no-install-recommends"].into_iter().chain(packages).collect();
    retry(|| apt_get(&args))
}

/// apt-get that asks nothing, and waits for another that holds the lock.
fn apt_get(args: &[&str]) -> Command {
    let mut command =
        run::system("apt-get", &["-o", "Acquire::Retries=3", "-o", "DPkg::Lock::Timeout=120", "-q"]);
    command.args(args).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    command
}

/// Runs a command up to three times: mirrors have bad moments that last longer than apt-get's own retries.
fn retry(command: impl Fn() -> Command) -> Outcome {
    for pause in [5, 20] {
        match run::run(&mut command()) {
            Ok(()) => return Ok(()),
            Err(failure) => failure.report(),
        };
        eprintln!("again in {pause} s");
        thread::sleep(Duration::from_secs(pause));
    }
    run::run(&mut command())
}

/// An empty file for the tests' skips, in the target folder.
fn fresh_skip_file() -> Outcome<PathBuf> {
    // Absolute, as cargo runs each test in the folder of its package.
    let target = target_folder();
    let file = target.join("skipped-tests.txt");
    let write = |file: &Path| fs::create_dir_all(&target).and_then(|()| fs::write(file, ""));
    write(&file).map_err(context(format!("cannot write {}", file.display())))?;
    Ok(file)
}

/// What was skipped, and how many.
fn skip_report(text: &str) -> String {
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        return "skipped 0\n".to_owned();
    }
    let mut report = format!("skipped {}:\n", lines.len());
    for line in lines {
        report.push_str("  ");
        report.push_str(line);
        report.push('\n');
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_are_counted_and_named() {
        assert_eq!(skip_report(""), "skipped 0\n");
        assert_eq!(skip_report("a: no fio\n\nb: not root\n"), "skipped 2:\n  a: no fio\n  b: not root\n");
    }

    #[test]
    fn a_module_that_nobody_has_is_missing() {
        assert!(!Sign::Module("evenkeel_no_such_module").is_there());
        assert!(!Sign::Program("evenkeel-no-such-program").is_there());
    }

    #[test]
    fn packages_are_named_before_what_the_tests_are_told() {
        let names = |line: &str| names_packages(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert!(names("-p evenkeel") && names("--lib --package=evenkeel -- --nocapture"));
        assert!(!names("--lib") && !names("mount -- -p"));
    }

    #[test]
    fn what_is_missing_fits_one_line() {
        let line = missing_line(&NEEDS.iter().collect::<Vec<_>>());
        assert!(!line.contains('\n'));
        assert!(
            line.contains(
                "--no-install-recommends chromium xfsprogs btrfs-progs e2fsprogs g++ fio libnbd-bin "
            ),
            "{line}"
        );
        assert!(line.contains("those on xfs"), "{line}");
    }
}
