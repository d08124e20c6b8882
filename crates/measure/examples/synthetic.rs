//! The tables of false and missed statements over synthetic studies, probes and comparisons; see `cargo xtask help`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a table is for whoever asks for it")]

use std::process::ExitCode;

use evenkeel_measure::synthetic::{
    Effect, Noise, Page, Plan, Rates, Synthetic, alarms, audit_like, audit_pages,
};

const USAGE: &str = "synthetic [--studies 1000] [--noise NAME]... [--effect NAME]... [--repeats N] [--from SEED], or \
                     synthetic --pages 1000 [--page NAME]... [--noise NAME]... [--from SEED]";

/// What is to be made up.
struct Asked {
    studies: u64,
    /// Of probes and comparisons, instead of studies.
    pages: Option<u64>,
    kinds: Vec<Page>,
    from: u64,
    noises: Vec<Noise>,
    effects: Vec<Effect>,
    /// Runs of each configuration, where not as many as the noise says.
    repeats: Option<u32>,
}

fn main() -> ExitCode {
    match asked() {
        Ok(asked) => {
            match asked.pages {
                Some(pages) => table_of_pages(&asked, pages),
                None => table(&asked),
            }
            ExitCode::SUCCESS
        }
        Err(line) => {
            eprintln!("{line}; {USAGE}");
            ExitCode::from(2)
        }
    }
}

fn asked() -> Result<Asked, String> {
    let mut asked = Asked {
        studies: 1_000,
        pages: None,
        kinds: Vec::new(),
        from: 0,
        noises: Vec::new(),
        effects: Vec::new(),
        repeats: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        let value = args.next().ok_or_else(|| format!("{flag} takes a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{value} is no number"));
        match flag.as_str() {
            "--studies" => asked.studies = number()?.max(1),
            "--pages" => asked.pages = Some(number()?.max(1)),
            "--page" => {
                let known = Page::ALL.into_iter().find(|page| page.name() == value);
                asked.kinds.push(known.ok_or_else(|| {
                    format!("no page {value}; there is {}", Page::ALL.map(Page::name).join(", "))
                })?);
            }
            "--repeats" => asked.repeats = Some(number()?.clamp(2, 1_000) as u32),
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
    if asked.kinds.is_empty() {
        asked.kinds = Page::ALL.to_vec();
    }
    Ok(asked)
}

fn threads() -> u64 {
    std::thread::available_parallelism().map_or(1, usize::from) as u64
}

fn percent(many: u64, rates: &Rates) -> String {
    format!("{:.1}", 100.0 * many as f64 / rates.pages as f64)
}

/// By which a thing differs where there is something to be found.
const DIFFERENCES: [f64; 2] = [0.1, 0.4];

fn table_of_pages(asked: &Asked, pages: u64) {
    let seeds = asked.from..asked.from.saturating_add(pages);
    println!(
        "Of 100 pages, over {pages} for each cell; where something differs by 10 % or 40 %, pages that miss it.\n"
    );
    println!("| page | noise | false | missed, 10 % | missed, 40 % | false, 10 % and 40 % | what is false |");
    println!("|---|---|---:|---:|---:|---:|---|");
    for &page in &asked.kinds {
        for &noise in &asked.noises {
            let of = |difference| audit_pages(page, noise, difference, seeds.clone(), threads());
            let (none, [little, much]) = (of(0.0), DIFFERENCES.map(of));
            let kinds: Vec<String> =
                none.false_of.iter().map(|(kind, many)| format!("{kind} {many}")).collect();
            println!(
                "| {} | {} | {} | {} | {} | {}, {} | {} |",
                page.name(),
                noise.name(),
                percent(none.with_false, &none),
                percent(little.with_missed, &little),
                percent(much.with_missed, &much),
                percent(little.with_false, &little),
                percent(much.with_false, &much),
                kinds.join(", ")
            );
        }
    }
    if asked.kinds.contains(&Page::Pairs) {
        table_of_alarms(asked, seeds);
    }
}

/// Exit codes of `probe A B --fail-if-slower`.
fn table_of_alarms(asked: &Asked, seeds: std::ops::Range<u64>) {
    const SLOWER: [f64; 5] = [0.0, 0.05, 0.1, 0.15, 0.2];
    println!(
        "\nOf 100 runs of `probe A B --fail-if-slower`, those that end with 1, by how much longer B truly takes.\n"
    );
    println!("| threshold | noise | {} |", SLOWER.map(|share| format!("{:.0} %", 100.0 * share)).join(" | "));
    println!("|---|---|{}", "---:|".repeat(SLOWER.len()));
    for fails_from in [0.05, 0.1] {
        for &noise in &asked.noises {
            let of = |difference| {
                let rates = alarms(noise, difference, fails_from, seeds.clone(), threads());
                percent(rates.with_false, &rates)
            };
            let cells = SLOWER.map(of).join(" | ");
            println!("| {:.0} % | {} | {cells} |", 100.0 * fails_from, noise.name());
        }
    }
}

fn table(asked: &Asked) {
    let threads = threads();
    let seeds = asked.from..asked.from.saturating_add(asked.studies);
    println!("Pages of 100 over {} synthetic studies for each cell.\n", asked.studies);
    println!("| noise | effect | false, 2x2 | false, larger | missed, 2x2 | missed, larger | false claims |");
    println!("|---|---|---:|---:|---:|---:|---|");
    for &effect in &asked.effects {
        for &noise in &asked.noises {
            let of = |plan| {
                let like = Synthetic { noise, effect, plan, repeats: asked.repeats, seed: 0 };
                audit_like(&like, seeds.clone(), threads)
            };
            let (small, large) = (of(Plan::TwoByTwo), of(Plan::Larger));
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
