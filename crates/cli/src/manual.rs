//! Shell completions and manual pages, from the same definitions as the help.

use std::io;
use std::path::Path;

use clap::CommandFactory;

use crate::args::{Args, CompletionsArgs, ManArgs};
use crate::failure::Failure;

/// Prints the completions of a shell.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "evenkeel", &mut text);
    print(&text)
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
            command
                .name(format!("evenkeel-{name}"))
                .bin_name(format!("evenkeel {name}"))
        }
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page)
        .render(&mut text)
        .map_err(unwritable)?;
    print(&text)
}

/// To standard output; a reader that has seen enough (`| head`) is no failure.
fn print(text: &[u8]) -> Result<(), Failure> {
    match io::Write::write_all(&mut io::stdout(), text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(unwritable(error)),
        _ => Ok(()),
    }
}

fn unwritable(error: io::Error) -> Failure {
    Failure::about(Path::new("standard output"), error)
}
