//! `evenkeel replace`.

use crate::args::ReplaceArgs;
use crate::failure::Failure;

/// Puts another drive in the place of a member or log device.
pub(crate) fn run(args: &ReplaceArgs) -> Result<(), Failure> {
    let _ = args;
    Err(Failure::Unusable("not yet".to_owned()))
}
