//! `evenkeel study`: plans, runs and reports.

mod database;
mod lock;
mod report;
mod run;
mod text;
mod worker;

use evenkeel_measure::study::plan::Plan;
use evenkeel_measure::study::plan::presets::{self, PRESETS};
use evenkeel_measure::study::store::Address;

use crate::args::{StudyArgs, StudyCommand, StudyPlanArgs, WhichPlan};
use crate::failure::Failure;
use crate::stdout::say;

/// Does what is asked of studies.
pub(crate) fn run(args: &StudyArgs) -> Result<(), Failure> {
    match &args.command {
        StudyCommand::Plan(args) => plan(args),
        StudyCommand::Run(args) => run::run(args),
        StudyCommand::Report(args) => report::run(args),
        StudyCommand::Worker(_) => worker::run(),
    }
}

fn plan(args: &StudyPlanArgs) -> Result<(), Failure> {
    let plan = chosen(&args.which)?;
    if args.print {
        return say(&plan.text);
    }
    let sampled = plan.sampled().map_err(|error| Failure::Unusable(error.to_string()))?;
    say(&text::plan(&plan, &sampled, &args.out))
}

/// The plan that the arguments name.
fn chosen(which: &WhichPlan) -> Result<Plan, Failure> {
    match (&which.plan, &which.preset) {
        (Some(path), _) => Plan::read(path).map_err(|error| match error.is_about(path) {
            true => Failure::Unusable(error.to_string()),
            false => Failure::about(path, error),
        }),
        (None, Some(name)) => {
            let preset = presets::find(name).ok_or_else(|| {
                let each = PRESETS.iter().map(|preset| format!("{} ({})", preset.name, preset.words));
                let all: Vec<String> = each.collect();
                Failure::Unusable(format!("there is no preset {name:?}; there are {}", all.join(", ")))
            })?;
            let here = std::path::Path::new("");
            Plan::parse(preset.text, here).map_err(|error| Failure::Unusable(error.to_string()))
        }
        (None, None) => Err(Failure::Unusable("name a plan, or a preset with --preset".to_owned())),
    }
}

/// The address of a database, which no message repeats: a password may be in it.
fn address(text: &str) -> Result<Address, Failure> {
    Address::parse(text).map_err(|error| Failure::Unusable(format!("--db: {error}")))
}
