//! A panic of the engine as what it is: a promise broken, with the seed that shows it.

use std::panic::{UnwindSafe, catch_unwind};

use crate::oracle::Violation;

/// What `run` answers; a panic in it is a violation.
///
/// # Errors
///
/// Those of `run`, and its panic in words.
pub fn caught<T>(run: impl FnOnce() -> Result<T, Violation> + UnwindSafe) -> Result<T, Violation> {
    catch_unwind(run).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Violation { what: format!("panic: {}", text.unwrap_or("without words")) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_in_its_words() {
        assert_eq!(caught(|| Ok(7)), Ok(7));
        let told: Result<(), _> = caught(|| panic!("page {} is gone", 3));
        assert_eq!(told.unwrap_err().what, "panic: page 3 is gone");
    }
}
