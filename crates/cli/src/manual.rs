//! Shell completions and manual pages, from the same definitions as the help.

use clap::CommandFactory;

use crate::args::{Args, CompletionsArgs, ManArgs};
use crate::failure::Failure;
use crate::stdout::say;

/// Prints the completions of a shell.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "evenkeel", &mut text);
    say(&String::from_utf8_lossy(&text))
}

/// Prints the manual page of evenkeel, or of one of its commands.
pub(crate) fn pages(args: &ManArgs) -> Result<(), Failure> {
    let whole = Args::command();
    let page = match &args.command {
        None => whole,
        Some(name) => {
            let found = whole.find_subcommand(name).cloned();
            let unknown = || Failure::Unusable(format!("no command `{name}`; `evenkeel help` lists them"));
            let command = found.ok_or_else(unknown)?;
            command.name(format!("evenkeel-{name}")).bin_name(format!("evenkeel {name}"))
        }
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page)
        .render(&mut text)
        .map_err(|error| Failure::Unusable(format!("cannot make the page: {error}")))?;
    say(&String::from_utf8_lossy(&text))
}
