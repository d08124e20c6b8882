//! Tells what happened in one seed of a mirror: `cargo run --release -p evenkeel-sim --example story -- SEED [CUTS]
//! [MEMBERS]`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the story is for whoever runs it")]

use std::process::ExitCode;

use evenkeel_sim::seeds::{Seeded, tell};
use evenkeel_sim::testbed::Mirror;

fn main() -> ExitCode {
    let numbers: Result<Vec<u64>, _> = std::env::args().skip(1).map(|word| word.parse()).collect();
    let (seed, cuts, members) = match numbers.as_deref() {
        Ok([seed]) => (*seed, 2, None),
        Ok([seed, cuts]) => (*seed, *cuts as u32, None),
        Ok([seed, cuts, members]) => (*seed, *cuts as u32, Some(*members as usize)),
        _ => {
            eprintln!("usage: story SEED [CUTS] [MEMBERS]");
            return ExitCode::from(2);
        }
    };
    let setup = Mirror::draw(seed, cuts, members);
    println!("{setup:#?}");
    let (story, ended) = tell(setup);
    story.iter().for_each(|line| println!("{line}"));
    match ended {
        Ok(outcome) => {
            println!("{:?}", outcome.members);
            ExitCode::SUCCESS
        }
        Err(violation) => {
            println!("{}", violation.what);
            ExitCode::FAILURE
        }
    }
}
