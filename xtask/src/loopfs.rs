//! `cargo xtask loopfs`: file systems in image files, to try things on without a disk to spare.

mod args;
mod down;
mod marker;
mod runner;
mod up;

use evenkeel_host::program::is_root;

use crate::run::{Failure, Outcome};
pub(crate) use args::Action;

/// Makes or removes the file systems.
pub(crate) fn main(action: Action) -> Outcome {
    let dry_run = match &action {
        Action::Up(up) => up.dry_run,
        Action::Down(down) => down.dry_run,
    };
    if !dry_run && !is_root() {
        return Err(Failure::Usage("loopfs needs root: loop devices and mounts are root's alone".to_owned()));
    }
    match action {
        Action::Up(options) => up::up(&options.checked()?),
        Action::Down(options) => down::down(&options),
    }
}
