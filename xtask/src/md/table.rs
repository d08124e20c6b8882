//! The tables, in Markdown.
//!
//! 1. Up to three rounds are shown as they are; of more the median, with the least and the most.
//! 2. A percentile is one of the values, the nearest rank. What was not measured is `-`.

use super::contenders::{Layout, VOLUME_MIB};
use super::trial::{Measured, PHASES, Waits};

/// A contender, and what its rounds came to.
pub(super) type Rounds = (String, Vec<Measured>);

/// Values of rounds.
fn rounds(values: &[Option<f64>]) -> String {
    let digits = |value: f64| match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}").trim_end_matches('0').trim_end_matches('.').to_owned(),
    };
    let shown = |value: &Option<f64>| value.map_or_else(|| "-".to_owned(), digits);
    if values.len() <= 3 {
        return values.iter().map(shown).collect::<Vec<_>>().join(", ");
    }
    let known: Vec<f64> = values.iter().flatten().copied().collect();
    let missing = values.len() - known.len();
    let missing = if missing > 0 { format!(", {missing} -") } else { String::new() };
    let at = |share: f64| shown(&percentile(&known, share));
    format!("{} ({} to {}{missing})", at(0.5), at(0.0), at(1.0))
}

/// The nearest rank.
fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// A row of a table.
fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

/// The head of a table.
fn head(cells: &[&str]) -> String {
    let cells: Vec<String> = cells.iter().map(|&cell| cell.to_owned()).collect();
    row(&cells) + &row(&vec!["---".to_owned(); cells.len()])
}

/// The tables of a layout; each contender with its rounds.
pub(super) fn tables(layout: &Layout, measured: &[Rounds]) -> String {
    let mut text = format!("### {}: {} members, {VOLUME_MIB} MiB\n\n", layout.name, layout.members);
    text.push_str(&head(&[
        "",
        "errors of clients",
        "wrong reads",
        "drives given up wrongly",
        "stopped",
        "whole after, s",
        "wait of a read, s",
        "of a write, s",
    ]));
    for (name, rounds_of) in measured {
        let of = |value: &dyn Fn(&Measured) -> Option<f64>| {
            rounds(&rounds_of.iter().map(value).collect::<Vec<_>>())
        };
        let longest = |waits: &dyn Fn(&Waits) -> Vec<f64>| {
            of(&|one: &Measured| {
                let all: Vec<f64> = one.phases.iter().flat_map(waits).collect();
                percentile(&all, 1.0).map(|ms| ms / 1e3)
            })
        };
        text.push_str(&row(&[
            name.clone(),
            of(&|one| Some(one.errors.iter().sum::<u64>() as f64)),
            of(&|one| Some(one.wrong.iter().sum::<u64>() as f64)),
            of(&|one| Some(one.strays as f64)),
            of(&|one| Some(f64::from(u8::from(one.stopped)))),
            of(&|one| one.whole_s),
            longest(&|waits| waits.reads.clone()),
            longest(&|waits| waits.writes.clone()),
        ]));
    }
    text.push('\n');
    text.push_str(&head(&[
        "MiB until whole",
        "written to the member",
        "by the load",
        "read from the others",
        "by the load",
    ]));
    for (name, rounds_of) in measured {
        let mib = |bytes: &dyn Fn(&Measured) -> u64| {
            rounds(
                &rounds_of
                    .iter()
                    .map(|one| one.whole_s.map(|_| bytes(one) as f64 / f64::from(1 << 20)))
                    .collect::<Vec<_>>(),
            )
        };
        text.push_str(&row(&[
            name.clone(),
            mib(&|one| one.member.written),
            mib(&|one| one.member_before.written),
            mib(&|one| one.others.read),
            mib(&|one| one.others_before.read),
        ]));
    }
    text.push('\n');
    text.push_str(&head(&["ms", "", "reads 50 %", "99 %", "longest", "writes 50 %", "99 %", "longest"]));
    for (number, phase) in PHASES.iter().enumerate() {
        for (name, rounds_of) in measured {
            let mut cells = vec![(*phase).to_owned(), name.clone()];
            for waits in [|waits: &Waits| waits.reads.clone(), |waits: &Waits| waits.writes.clone()] {
                for share in [0.5, 0.99, 1.0] {
                    let values = rounds_of.iter().map(|one| percentile(&waits(&one.phases[number]), share));
                    cells.push(rounds(&values.collect::<Vec<_>>()));
                }
            }
            text.push_str(&row(&cells));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_value_of_the_nearest_rank() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(percentile(&values, 0.5), Some(100.0));
        assert_eq!(percentile(&values, 0.99), Some(198.0));
        assert_eq!(percentile(&values, 1.0), Some(200.0));
        assert_eq!(percentile(&values, 0.0), Some(1.0));
        assert_eq!(percentile(&[], 0.5), None);
        assert_eq!(percentile(&[7.0], 0.99), Some(7.0));
    }

    #[test]
    fn few_rounds_are_shown_each_and_many_by_their_median() {
        assert_eq!(rounds(&[Some(0.0), None]), "0, -");
        assert_eq!(rounds(&[Some(1.5), Some(123.4), Some(12.34)]), "1.5, 123, 12.3");
        assert_eq!(rounds(&[Some(3.0), Some(1.0), Some(2.0), Some(9.0), None]), "2 (1 to 9, 1 -)");
        assert_eq!(rounds(&[None, None, None, None]), "- (- to -, 4 -)");
    }
}
