//! `cargo xtask test --slow`: what looks for rare faults for as long as it takes, and the figures of it.
//!
//! 1. Every job is a command that anybody can type; it is shown before it runs.
//! 2. A job that fails does not keep the others from running. The table at the end has all of them.
//! 3. The seeds are none of those that `cargo xtask test` runs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::run::{self, Failure, Outcome, context};

/// Lines of a failing job's output that are shown.
const SHOWN_LINES_MAX: usize = 40;

/// One thing to run.
#[derive(Debug)]
struct Job {
    name: &'static str,
    about: &'static str,
    /// What is set in the environment.
    variables: &'static [(&'static str, &'static str)],
    /// What cargo is asked.
    cargo: &'static [&'static str],
    /// What the lines with figures have in them.
    figures: &'static [&'static str],
}

/// What `evenkeel sim` is called with, before its own arguments.
macro_rules! sim {
    ($($arg:literal),*) => {
        &["run", "--release", "--locked", "--quiet", "-p", "evenkeel", "--", "sim", $($arg),*]
    };
}

/// All jobs, the quick ones first.
const JOBS: &[Job] = &[
    Job {
        name: "kills",
        about: "200 kills of the server's process under load, and 200 with the loss of its memory",
        variables: &[("EVENKEEL_KILLS", "200")],
        cargo: &["test", "--locked", "-p", "evenkeel", "--test", "served", "kills::", "--", "--nocapture"],
        figures: &[" requests answered, "],
    },
    Job {
        name: "soak",
        about: "half an hour of a served volume under load, every byte compared, with kills in between",
        variables: &[("EVENKEEL_SOAK_S", "1800")],
        cargo: &[
            "test",
            "--locked",
            "-p",
            "evenkeel",
            "--test",
            "served",
            "--",
            "--nocapture",
            "a_kill_at_any_moment_takes_no_acknowledged_write",
        ],
        figures: &[" requests answered, "],
    },
    Job {
        name: "guests",
        about: "virtual machines that write through the kernel's NBD client, and are cut",
        variables: &[],
        cargo: &["xtask", "guests", "--rounds", "20"],
        figures: &[" guests cut, "],
    },
    Job {
        name: "seeds",
        about: "seeds of volumes on one drive",
        variables: &[],
        cargo: sim!("--seed", "10000000", "--seeds", "100000"),
        figures: &[" seeds, ", "faults: "],
    },
    Job {
        name: "seeds-of-five-cuts",
        about: "the same with five cuts, some of them while it recovers from the one before",
        variables: &[],
        cargo: sim!("--seed", "20000000", "--seeds", "20000", "--cuts", "5"),
        figures: &[" seeds, ", "faults: "],
    },
    Job {
        name: "seeds-of-mirrors",
        about: "seeds of mirrors",
        variables: &[],
        cargo: sim!("--layout", "mirror", "--seed", "10000000", "--seeds", "100000"),
        figures: &[" seeds, ", "faults: "],
    },
    Job {
        name: "seeds-of-stripes",
        about: "seeds of stripes of two data shards and one of parity",
        variables: &[],
        cargo: sim!("--layout", "rs:2+1", "--seed", "10000000", "--seeds", "100000"),
        figures: &[" seeds, ", "faults: "],
    },
    Job {
        name: "seeds-of-wide-stripes",
        about: "seeds of stripes of four data shards and two of parity",
        variables: &[],
        cargo: sim!("--layout", "rs:4+2", "--seed", "10000000", "--seeds", "100000"),
        figures: &[" seeds, ", "faults: "],
    },
    Job {
        name: "races",
        about: "clients that write the same bytes at once",
        variables: &[("SEEDS", "20000")],
        cargo: &["test", "--release", "--locked", "-p", "evenkeel-sim", "--test", "volumes", "races::"],
        figures: &["test result: "],
    },
    Job {
        name: "states",
        about: "every crash of small workloads on one drive",
        variables: &[],
        cargo: sim!("--exhaustive", "--seed", "1000000", "--states", "10000000"),
        figures: &[" crash states "],
    },
    Job {
        name: "states-of-mirrors",
        about: "every crash of small workloads on mirrors",
        variables: &[],
        cargo: sim!("--exhaustive", "--layout", "mirror", "--seed", "1000000", "--states", "4000000"),
        figures: &[" crash states "],
    },
    Job {
        name: "states-of-stripes",
        about: "every crash of small workloads on stripes",
        variables: &[],
        cargo: sim!("--exhaustive", "--layout", "rs:2+1", "--seed", "1000000", "--states", "1000000"),
        figures: &[" crash states "],
    },
    Job {
        name: "sessions",
        about: "sessions of hostile clients against the NBD server",
        variables: &[("EVENKEEL_SESSIONS", "2000000"), ("EVENKEEL_SEED", "1000000000000")],
        cargo: &[
            "test",
            "--release",
            "--locked",
            "-p",
            "evenkeel-host",
            "--test",
            "nbd",
            "--",
            "--ignored",
            "--nocapture",
            "millions_of_sessions_do_not_hurt_the_server",
        ],
        figures: &[" sessions, "],
    },
    Job {
        name: "fuzz",
        about: "every fuzz target for two minutes",
        variables: &[],
        cargo: &["xtask", "fuzz", "--time", "120s"],
        figures: &[" inputs, "],
    },
    Job {
        name: "planted",
        about: "every bug that can be planted in the engine",
        variables: &[],
        cargo: &["xtask", "planted"],
        figures: &[" bugs planted, "],
    },
    Job {
        name: "files",
        about: "10,000 cuts of a file system in use, and every bug that can be planted in it",
        variables: &[],
        cargo: &[
            "test",
            "--locked",
            "-p",
            "evenkeel-ext2",
            "--features",
            "planted",
            "--test",
            "files",
            "--",
            "cuts::",
            "--include-ignored",
        ],
        figures: &["test result: "],
    },
    Job {
        name: "package",
        about: "the Debian package and the static program, made, and installed in a new Debian root",
        variables: &[],
        cargo: &["xtask", "package", "--try", "--partial"],
        figures: &["installed, used"],
    },
];

/// How a job ended.
#[derive(Debug)]
struct Ended {
    name: &'static str,
    is_well: bool,
    took: Duration,
    figures: Vec<String>,
}

/// Runs the jobs whose names begin as one of `names` does, or all.
pub(crate) fn main(names: &[String], folder: &Path) -> Outcome {
    let jobs = chosen(names)?;
    fs::create_dir_all(folder).map_err(context(format!("cannot make {}", folder.display())))?;
    let mut ended = Vec::new();
    for job in jobs {
        ended.push(run_job(job, &folder.join(format!("{}.log", job.name)))?);
    }
    print!("{}", table(&ended));
    let failed: Vec<_> = ended.iter().filter(|job| !job.is_well).map(|job| job.name).collect();
    match failed[..] {
        [] => Ok(()),
        _ => Err(Failure::Failed(format!(
            "slow tests that failed: {}; what they said is in {}",
            failed.join(", "),
            folder.display()
        ))),
    }
}

/// That there are such jobs.
pub(crate) fn check(names: &[String]) -> Outcome {
    chosen(names).map(|_| ())
}

/// What each job does.
pub(crate) fn list() -> String {
    JOBS.iter().map(|job| format!("{:<20} {}\n", job.name, job.about)).collect()
}

fn chosen(names: &[String]) -> Outcome<Vec<&'static Job>> {
    let is_meant = |job: &Job, name: &String| job.name.starts_with(name.as_str());
    if let Some(unknown) = names.iter().find(|name| !JOBS.iter().any(|job| is_meant(job, name))) {
        let known: Vec<_> = JOBS.iter().map(|job| job.name).collect();
        return Err(Failure::Usage(format!("no slow test `{unknown}`; there is: {}", known.join(", "))));
    }
    let is_chosen = |job: &&Job| names.is_empty() || names.iter().any(|name| is_meant(job, name));
    Ok(JOBS.iter().filter(is_chosen).collect())
}

fn run_job(job: &Job, log: &PathBuf) -> Outcome<Ended> {
    let cannot_write = || context(format!("cannot write {}", log.display()));
    let file = File::create(log).map_err(cannot_write())?;
    let mut cargo = run::cargo(job.cargo);
    cargo.envs(job.variables.iter().copied()).stdin(Stdio::null());
    cargo.stderr(file.try_clone().map_err(cannot_write())?).stdout(file);
    println!("{}: {}", job.name, job.about);
    for (variable, value) in job.variables {
        println!("  {variable}={value}");
    }
    let began = Instant::now();
    let is_well = run::status(&mut cargo)?.success();
    let text = fs::read(log).map_err(context(format!("cannot read {}", log.display())))?;
    let text = String::from_utf8_lossy(&text);
    if !is_well {
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(SHOWN_LINES_MAX)..].iter().for_each(|line| eprintln!("{line}"));
    }
    let ended = Ended { name: job.name, is_well, took: began.elapsed(), figures: figures(job, &text) };
    print!("{}", table(std::slice::from_ref(&ended)));
    Ok(ended)
}

/// The lines of a job's output that say how much was tried, and what could not be.
fn figures(job: &Job, text: &str) -> Vec<String> {
    let has_figures = |line: &&str| {
        let has_number = line.contains(|each: char| each.is_ascii_digit());
        line.starts_with("skipped: ") || has_number && job.figures.iter().any(|part| line.contains(part))
    };
    text.lines().filter(has_figures).map(|line| line.trim().to_owned()).collect()
}

fn table(ended: &[Ended]) -> String {
    let mut text = String::new();
    for job in ended {
        let how = if job.is_well { "passed" } else { "FAILED" };
        text += &format!("{:<20} {how} in {} s\n", job.name, job.took.as_secs());
        job.figures.iter().for_each(|line| text += &format!("  {line}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_chosen_by_how_their_names_begin() {
        let names = |given: &[&str]| {
            let given: Vec<_> = given.iter().map(|&name| name.to_owned()).collect();
            chosen(&given).map(|jobs| jobs.iter().map(|job| job.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["states"]).unwrap(), ["states", "states-of-mirrors", "states-of-stripes"]);
        assert_eq!(names(&["races", "kills"]).unwrap(), ["kills", "races"]);
        assert_eq!(names(&[]).unwrap().len(), JOBS.len());
        let Err(Failure::Usage(text)) = names(&["states", "rest"]) else { panic!("no usage error") };
        assert!(text.contains("`rest`") && text.contains("planted"), "{text}");
    }

    #[test]
    fn figures_are_the_lines_that_have_some() {
        let kills = JOBS.iter().find(|job| job.name == "kills").unwrap();
        let text = "life 3, Load: 12 requests answered so far\n\
                    5 ends of the process, 99 requests answered, 1 acknowledged\ntest result: ok\n";
        let found = figures(kills, text);
        assert_eq!(figures(kills, "skipped: no root\nnot skipped: 3"), ["skipped: no root"]);
        assert_eq!(found, ["5 ends of the process, 99 requests answered, 1 acknowledged"]);
        let took = Duration::from_secs(61);
        let ended = Ended { name: "kills", is_well: false, took, figures: found };
        assert!(table(&[ended]).starts_with("kills                FAILED in 61 s\n  5 ends"));
    }
}
