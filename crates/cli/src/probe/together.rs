//! `evenkeel probe A B ...`: several places in alternating runs, and whether they differ.

use std::path::PathBuf;

use evenkeel_measure::compare::page::comparison_page;
use evenkeel_measure::compare::{LEAST_DIFFERENCE, PAIRS_SCHEMA, Pairs, compare_pairs, comparisons_csv};
use evenkeel_measure::probe::report::ProbeReport;
use evenkeel_measure::probe::{HostTarget, Place, run_together};

use super::text::{report_text, stack_line};
use super::{choose_place, dry_run, leftovers, listen, refuse_read_only, settings, signed, unmet};
use crate::args::ProbeArgs;
use crate::compare::{comparisons_text, judge};
use crate::failure::Failure;
use crate::outputs::Outputs;
use crate::progress::ProbeProgress;
use crate::stdout::{say, tell};

/// Measures all paths, compares the first with each other, writes pairs.json, pairs.csv and pairs.html.
pub(super) fn run(args: &ProbeArgs) -> Result<(), Failure> {
    let only_alone = [
        ("--destroy", args.destroy.is_some()),
        ("--new-file", args.new_file),
        ("--matrix", args.matrix),
        ("--soak", args.soak.is_some()),
    ];
    if let Some((flag, _)) = only_alone.iter().find(|(_, given)| *given) {
        return Err(Failure::Unusable(format!("{flag} is for a single PATH; name one, or leave it out")));
    }
    if args.fail_if_slower.is_some_and(|share| share < LEAST_DIFFERENCE) {
        return Err(Failure::Unusable(
            "--fail-if-slower: choose 0.5 % or more; two files of one folder differ by less".to_owned(),
        ));
    }
    let places = args.paths.iter().map(|path| choose_place(args, path)).collect::<Result<Vec<Place>, _>>()?;
    let settings = settings(args, &places[0])?;
    if args.dry_run {
        return places.iter().try_for_each(|place| dry_run(place, &settings));
    }
    let outputs = Outputs::choose("pairs", args.out.as_deref(), args.force)?;
    let interrupt = listen()?;
    places.iter().try_for_each(refuse_read_only)?;
    places.iter().try_for_each(|place| leftovers::clear(place, false))?;
    let mut targets: Vec<HostTarget> = Vec::new();
    for place in places {
        targets.push(match targets.first() {
            None => HostTarget::new(place, &settings, interrupt.clone())?,
            Some(first) => first.beside(place, &settings)?,
        });
    }
    let stacks: Vec<_> = targets.iter().map(|target| target.stack().stack.clone()).collect();
    let names = names(&args.paths);
    for (name, stack) in names.iter().zip(&stacks) {
        tell(&format!("{name}: {}\n", stack_line(stack)))?;
    }
    let measured = {
        let mut progress = ProbeProgress::new();
        run_together(&settings, &mut targets, stacks, &interrupt, &mut progress)
    };
    drop(targets);
    let probes: Vec<ProbeReport> = measured?.into_iter().map(signed).collect();
    let labelled: Vec<(String, &ProbeReport)> = names.iter().cloned().zip(&probes).collect();
    let comparison = compare_pairs(&labelled);
    for (name, report) in &labelled {
        tell(&format!("\n{name}: {}", report_text(report, args.wide)))?;
    }
    tell(&format!("\n{}", comparisons_text(&comparison)))?;

    let unwritable =
        |error: &dyn std::fmt::Display| Failure::Unusable(format!("cannot write the results: {error}"));
    let page = comparison_page(&labelled, &comparison);
    let csv = comparisons_csv(&comparison).map_err(|error| unwritable(&error))?;
    let document = Pairs { schema: PAIRS_SCHEMA.to_owned(), names, probes, comparison };
    let json = serde_json::to_string_pretty(&document).map_err(|error| unwritable(&error))?;
    let written = outputs.write(&(json + "\n"), &csv, &page)?;
    say(&format!("Wrote {}.\n", written.map(|path| path.display().to_string()).join(", ")))?;
    let unmet: Vec<String> = document
        .names
        .iter()
        .zip(&document.probes)
        .filter_map(|(name, report)| Some(format!("{name}: {}", unmet(report)?)))
        .collect();
    let judged = judge(&document.comparison, args.fail_if_slower);
    match (unmet.is_empty(), judged) {
        (true, judged) => judged,
        (false, Err(Failure::No(slower))) => Err(Failure::No(format!("{}; {slower}", unmet.join("; ")))),
        (false, _) => Err(Failure::No(unmet.join("; "))),
    }
}

/// What to call each path: itself, with a number where it was named before.
fn names(paths: &[PathBuf]) -> Vec<String> {
    let name =
        |(at, path): (usize, &PathBuf)| match paths[..at].iter().filter(|earlier| *earlier == path).count() {
            0 => path.display().to_string(),
            earlier => format!("{} ({})", path.display(), earlier + 1),
        };
    paths.iter().enumerate().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_named_twice_has_two_names() {
        let paths = ["a", "b", "a", "a"].map(PathBuf::from);
        assert_eq!(names(&paths), ["a", "b", "a (2)", "a (3)"]);
    }
}
