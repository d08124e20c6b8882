//! `cargo xtask check`: formatting and lints.

use std::process::Stdio;

use crate::run::{self, Failure, Outcome};

/// Checks formatting, then lints.
pub(crate) fn main() -> Outcome {
    let format = component("fmt", "rustfmt").and_then(|()| {
        let mut fuzz = run::cargo(&["fmt", "--check", "--manifest-path", "fuzz/Cargo.toml"]);
        run::hand_over(&mut run::cargo(&["fmt", "--all", "--check"]))
            .and_then(|()| run::hand_over(&mut fuzz))
            .map_err(|_| Failure::Failed("the formatting differs; `cargo fmt` fixes it".to_owned()))
    });
    let lints = component("clippy", "clippy").and_then(|()| {
        let mut clippy =
            run::cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]);
        run::hand_over(&mut clippy).map_err(|_| Failure::Failed("clippy has something to say".to_owned()))
    });
    // Both are told, so that one run is enough to know what is to be fixed.
    match (format, lints) {
        (Err(format), Err(lints)) => {
            format.report();
            Err(lints)
        }
        (format, lints) => format.and(lints),
    }
}

/// Fails, with the command that helps, if a component of the toolchain is missing.
fn component(subcommand: &str, name: &str) -> Outcome {
    let found = run::cargo(&[subcommand, "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        Ok(())
    } else {
        Err(Failure::Failed(format!("{name} is missing; `rustup component add {name}` installs it")))
    }
}
