//! The table of false and missed statements over synthetic studies; see `cargo xtask help`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a table is for whoever asks for it")]

use std::process::ExitCode;

use evenkeel_measure::synthetic::{Effect, Noise, Plan, Rates, audit};

const USAGE: &str = "synthetic [--studies 1000] [--noise NAME]... [--effect NAME]... [--from SEED]";

/// What is to be made up.
struct Asked {
    studies: u64,
    from: u64,
    noises: Vec<Noise>,
    effects: Vec<Effect>,
}

fn main() -> ExitCode {
    match asked() {
        Ok(asked) => {
            table(&asked);
            ExitCode::SUCCESS
        }
        Err(line) => {
            eprintln!("{line}; {USAGE}");
            ExitCode::from(2)
        }
    }
}

fn asked() -> Result<Asked, String> {
    let mut asked = Asked { studies: 1_000, from: 0, noises: Vec::new(), effects: Vec::new() };
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        let value = args.next().ok_or_else(|| format!("{flag} takes a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{value} is no number"));
        match flag.as_str() {
            "--studies" => asked.studies = number()?.max(1),
            "--from" => asked.from = number()?,
            "--noise" => {
                let known = Noise::ALL.into_iter().find(|noise| noise.name() == value);
                asked.noises.push(known.ok_or_else(|| {
                    format!("no noise {value}; there is {}", Noise::ALL.map(Noise::name).join(", "))
                })?);
            }
            "--effect" => {
                let known = Effect::ALL.into_iter().find(|effect| effect.name() == value);
                asked.effects.push(known.ok_or_else(|| {
                    format!("no effect {value}; there is {}", Effect::ALL.map(Effect::name).join(", "))
                })?);
            }
            other => return Err(format!("unknown {other}")),
        }
    }
    if asked.noises.is_empty() {
        asked.noises = Noise::ALL.to_vec();
    }
    if asked.effects.is_empty() {
        asked.effects = Effect::ALL.to_vec();
    }
    Ok(asked)
}

fn table(asked: &Asked) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let seeds = asked.from..asked.from.saturating_add(asked.studies);
    println!("Pages of 100 over {} synthetic studies for each cell.\n", asked.studies);
    println!("| noise | effect | false, 2x2 | false, larger | missed, 2x2 | missed, larger | false claims |");
    println!("|---|---|---:|---:|---:|---:|---|");
    let percent = |many: u64, rates: &Rates| format!("{:.1}", 100.0 * many as f64 / rates.pages as f64);
    for &effect in &asked.effects {
        for &noise in &asked.noises {
            let small = audit(noise, effect, Plan::TwoByTwo, seeds.clone(), threads);
            let large = audit(noise, effect, Plan::Larger, seeds.clone(), threads);
            let mut kinds: Vec<String> = Vec::new();
            for (rates, plan) in [(&small, "2x2"), (&large, "larger")] {
                kinds.extend(rates.false_of.iter().map(|(kind, many)| format!("{kind} {many} ({plan})")));
            }
            let missed_by_small = match Plan::TwoByTwo.can_have(effect) {
                true => percent(small.with_missed, &small),
                false => "-".to_owned(),
            };
            println!(
                "| {} | {} | {} | {} | {} | {} | {} |",
                noise.name(),
                effect.name(),
                percent(small.with_false, &small),
                percent(large.with_false, &large),
                missed_by_small,
                percent(large.with_missed, &large),
                kinds.join(", ")
            );
        }
    }
}
