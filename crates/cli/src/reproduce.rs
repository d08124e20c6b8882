//! `evenkeel reproduce`.

mod machine;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_host::interrupt::Interrupt;
use evenkeel_measure::report::format;
use evenkeel_measure::reproduce::page::gallery_page;
use evenkeel_measure::reproduce::{
    self, Claim, Extent, FigureModule, Gallery, Halted, Measuring, Observer, Settings, Verdict, Work, csv,
    find, modules,
};
use evenkeel_sim::model::presets::{self, Parts};
use indicatif::ProgressBar;

use crate::args::ReproduceArgs;
use crate::failure::Failure;
use crate::models::user;
use crate::outputs::Outputs;
use crate::sim::{listen, progress_bar, workers};
use crate::stdout::say;
use crate::table;
use machine::Loops;

/// The figure that needs a folder of traces.
const TRACES: &str = "rails-traces";

/// As many letters wrong are taken for a slip.
const SLIPS_MAX: usize = 6;

/// Runs the figures named, prints every claim and writes the gallery.
pub(crate) fn run(args: &ReproduceArgs) -> Result<(), Failure> {
    if args.names.iter().any(|name| name == "list") {
        return match args.names.len() {
            1 => say(&list()),
            _ => Err(Failure::Unusable("`list` stands alone; name figures, or `list`".to_owned())),
        };
    }
    let figures = chosen(&args.names)?;
    if args.traces.is_none() && args.names.iter().any(|name| name == TRACES) {
        return Err(Failure::Unusable(format!(
            "{TRACES} plays traces: name a folder that holds some with --traces"
        )));
    }
    if let Some(folder) = &args.traces
        && let Err(error) = std::fs::read_dir(folder)
    {
        return Err(Failure::about(folder, error));
    }
    let replaced = replace_drives(&args.drive)?;
    let interrupt = listen()?;
    let outputs = Outputs::choose("reproduce", args.out.as_deref(), args.force)?;
    let extent = if args.quick { Extent::Small } else { Extent::Full };
    let settings = Settings { extent, seed: args.seed };
    let machine = args.file_systems.then(|| Loops::find(interrupt.clone()));
    let measuring = match &machine {
        None => Measuring::NotAsked,
        Some(Ok(machine)) => Measuring::On(machine),
        Some(Err(why)) => Measuring::Impossible(why),
    };
    if let Measuring::Impossible(why) = measuring {
        say(&format!("File systems are not measured: {why}.\n"))?;
    }
    let shown = Shown { interrupt, bar: progress_bar(0, "points"), planned: AtomicU64::new(0) };
    let at_once = args.jobs.unwrap_or_else(workers) as usize;
    let work = Work::new(at_once, &shown).measuring_on(measuring).with_traces(args.traces.as_deref());
    let ran = reproduce::run(&figures, &settings, &work);
    shown.bar.finish_and_clear();
    let gallery = match ran {
        Ok(gallery) if gallery.figures.is_empty() => return Err(Failure::Unusable(undrawn(&gallery))),
        Ok(gallery) => gallery.with_replaced(replaced),
        Err(Halted::Stopped) => return Err(Failure::Interrupted),
        Err(Halted::Unavailable(reason)) => return Err(Failure::Unusable(reason)),
    };
    say(&summary(&gallery))?;
    let unwritable =
        |error: &dyn std::fmt::Display| Failure::Unusable(format!("cannot write the results: {error}"));
    let json = serde_json::to_string_pretty(&gallery).map_err(|error| unwritable(&error))?;
    let rows = csv(&gallery).map_err(|error| unwritable(&error))?;
    let written = outputs.write(&(json + "\n"), &rows, &gallery_page(&gallery))?;
    say(&format!("Wrote {}.\n", written.map(|path| path.display().to_string()).join(", ")))?;
    answer(&gallery)
}

/// Puts the models of these files in the place of their presets; answers what to say of it.
fn replace_drives(files: &[PathBuf]) -> Result<Vec<String>, Failure> {
    let mut parts: Vec<(String, Parts)> = Vec::new();
    let mut said = Vec::new();
    for file in files {
        let model = user::read(file).map_err(Failure::Unusable)?;
        if parts.iter().any(|(name, _)| *name == model.based_on) {
            let name = &model.based_on;
            return Err(Failure::Unusable(format!(
                "{}: {name} is replaced twice; leave one out",
                file.display()
            )));
        }
        said.push(format!("{} in the place of {}", file.display(), model.based_on));
        parts.push((model.based_on, model.parts));
    }
    if !parts.is_empty() {
        presets::replace(parts).map_err(|error| Failure::Unusable(error.to_string()))?;
    }
    Ok(said)
}

/// Why there is not a single figure.
fn undrawn(gallery: &Gallery) -> String {
    let reasons: Vec<&str> = gallery.not_reproduced.iter().map(|left| left.reason.as_str()).collect();
    // What no run can draw comes first.
    format!("no figure could be drawn: {}", reasons.last().unwrap_or(&"none was named"))
}

/// The progress bar, which grows as figures say how many points they have.
struct Shown {
    interrupt: Interrupt,
    bar: ProgressBar,
    planned: AtomicU64,
}

impl Observer for Shown {
    fn planned(&self, points: usize) {
        let points = points as u64;
        self.bar.set_length(self.planned.fetch_add(points, Ordering::Relaxed) + points);
    }

    fn done(&self) {
        self.bar.inc(1);
    }

    fn is_stopped(&self) -> bool {
        self.interrupt.is_asked()
    }
}

/// The figures named, each once, in the order of the papers.
fn chosen(names: &[String]) -> Result<Vec<&'static FigureModule>, Failure> {
    if let Some(unknown) = names.iter().find(|name| *name != "all" && find(name).is_none()) {
        let nearest = modules()
            .map(|module| (strsim::damerau_levenshtein(unknown, module.name), module.name))
            .min()
            .filter(|(slips, _)| *slips <= SLIPS_MAX);
        let hint = nearest.map_or_else(String::new, |(_, name)| format!("did you mean {name}? "));
        return Err(Failure::Unusable(format!(
            "there is no figure {unknown:?}; {hint}`evenkeel reproduce list` names all"
        )));
    }
    let is_wanted = |module: &&FigureModule| names.iter().any(|name| name == "all" || name == module.name);
    Ok(modules().filter(is_wanted).collect())
}

fn list() -> String {
    let row = |module: &FigureModule| {
        [module.name.to_owned(), module.paper.to_string(), format!("{}: {}", module.place, module.title)]
    };
    let rows: Vec<[String; 3]> = modules().map(row).collect();
    let mut text = String::new();
    for paper in reproduce::papers() {
        text += &format!("Paper {}: {}\n", paper.number, paper.title);
    }
    text + "\n" + &table::lay_out_with_text(["name", "paper", "figure"], &rows)
}

fn summary(gallery: &Gallery) -> String {
    let row = |claim: &Claim| {
        let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| claim.unit.show(value));
        [
            claim.verdict.name().to_owned(),
            claim.figure.clone(),
            shown(claim.paper_value),
            shown(claim.value),
            claim.kind.name().to_owned(),
            claim.words.clone(),
        ]
    };
    let rows: Vec<_> = gallery.claims.iter().map(row).collect();
    let mut text = table::lay_out_with_text(["verdict", "figure", "paper", "here", "kind", "claim"], &rows);
    if !gallery.not_reproduced.is_empty() {
        text += "\nNot reproduced:\n";
        for left in &gallery.not_reproduced {
            text += &format!("  {}: {}\n", left.what, left.reason);
        }
    }
    text + "\n"
}

fn answer(gallery: &Gallery) -> Result<(), Failure> {
    let failing = gallery.failing().count();
    let held = gallery.claims.iter().filter(|claim| claim.verdict == Verdict::Holds).count();
    match failing {
        0 => say(&format!("{} claims hold.\n", format::count(held as u64))),
        _ => Err(Failure::No(format!(
            "{failing} of {} claims fail here; the page tells of each what was run, and why where that is known",
            gallery.claims.len()
        ))),
    }
}
