//! Shell completions and manual pages, from the same definitions as the help.

use std::fs;
use std::path::Path;

use clap::{Command, CommandFactory};

use crate::args::{Args, CompletionsArgs, ManArgs};
use crate::failure::Failure;
use crate::stdout::say;

/// Prints the completions of a shell.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "evenkeel", &mut text);
    say(&String::from_utf8_lossy(&text))
}

/// Prints the manual page of evenkeel, or of one of its commands; or writes all of them.
pub(crate) fn pages(args: &ManArgs) -> Result<(), Failure> {
    let whole = named(Args::command(), "evenkeel", "evenkeel");
    if let Some(folder) = &args.out {
        return write_all(&whole, folder);
    }
    let mut command = &whole;
    for name in &args.command {
        let found = command.find_subcommand(name);
        command = found.ok_or_else(|| {
            let asked = args.command.join(" ");
            Failure::Unusable(format!("no command `{asked}`; `evenkeel help` lists them"))
        })?;
    }
    say(&String::from_utf8_lossy(&page(command)?))
}

/// A command and those below it, under the names that their pages have, and as they are typed: `evenkeel-study-run`,
/// `evenkeel study run`.
fn named(command: Command, name: &str, typed: &str) -> Command {
    // The help is that of --help.
    let below: Vec<String> = command
        .get_subcommands()
        .map(|below| below.get_name().to_owned())
        .filter(|below| below != "help")
        .collect();
    let command = below.iter().fold(command, |command, below| {
        command.mut_subcommand(below, |found| {
            let (name, typed) = (format!("{name}-{below}"), format!("{typed} {below}"));
            // It is still found by the name that is typed.
            named(found, &name, &typed).alias(below.clone())
        })
    });
    command.name(name.to_owned()).bin_name(typed.to_owned())
}

fn write_all(command: &Command, folder: &Path) -> Result<(), Failure> {
    let file = folder.join(format!("{}.1", command.get_name()));
    fs::write(&file, page(command)?).map_err(|error| Failure::about(&file, error))?;
    let mut below = command.get_subcommands().filter(|below| !below.is_hide_set());
    below.try_for_each(|below| write_all(below, folder))
}

fn page(command: &Command) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone())
        .render(&mut text)
        .map_err(|error| Failure::Unusable(format!("cannot make the page: {error}")))?;
    Ok(text)
}
