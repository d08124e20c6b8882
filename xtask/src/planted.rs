//! `cargo xtask planted`: plants bugs in the engine, and shows that the simulator sees each.

use crate::run::{self, Failure, Outcome};

/// Runs the program that plants them; its exit code is handed on.
pub(crate) fn main(args: &[String]) -> Outcome {
    if let Some(arg) = args.first() {
        return Err(Failure::Usage(format!("planted takes no argument, and got `{arg}`")));
    }
    let package = ["run", "--release", "--locked", "-p", "evenkeel-sim"];
    run::hand_over(run::cargo(&package).args(["--features", "planted", "--bin", "planted"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_argument_is_taken() {
        assert!(matches!(main(&["bug".to_owned()]), Err(Failure::Usage(_))));
    }
}
