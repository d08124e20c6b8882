//! The metadata context by which a client asks to be the only one that writes.
//!
//! ```text
//! evenkeel:exclusive:VOLUME-OPENING-DRIVE-NUMBER     four numbers, hexadecimal
//! evenkeel:exclusive:VOLUME-OPENING-DRIVE            the same of a program that names no NUMBER
//! ```
//!
//! NUMBER and then OPENING grow from one opening of a volume to the next: an earlier one does not come back once a later
//! one was there. NUMBER is one more than what the drive itself says of its openings; who does not know that yet says 0, and
//! is let in to read it.

use std::cmp::Ordering;
use std::fmt;

/// What its name begins with.
pub const CONTEXT_EXCLUSIVE: &str = "evenkeel:exclusive:";

/// Who writes: the opening of a volume, and for which of its drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writer {
    /// The volume's number.
    pub volume: u64,
    /// A number of this opening alone.
    pub opening: u64,
    /// Which of the volume's members and log devices.
    pub drive: u32,
    /// Which of the volume's openings it is, as far as the drive tells; 0 where that is to be found out. `None` of programs
    /// that name none.
    pub number: Option<u64>,
}

impl Writer {
    /// The same, of a program that names no number.
    #[must_use]
    pub fn without_number(self) -> Self {
        Self { number: None, ..self }
    }

    /// Whether it comes to read what its number is, and changes nothing.
    pub fn only_looks(self) -> bool {
        self.number == Some(0)
    }

    /// Whether a session of `self` ends one of `other` that began before it: both are of one volume, and `other` is of
    /// an earlier opening, or of a connection to the same drive that was given up.
    pub fn supersedes(self, other: Self) -> bool {
        self.volume == other.volume
            && match self.opening == other.opening {
                true => self.drive == other.drive,
                false => !self.is_before(other),
            }
    }

    /// Whether a session of `self` is refused where there is one of `other`: that is of a later opening.
    pub fn yields_to(self, other: Self) -> bool {
        self.volume == other.volume && self.opening != other.opening && self.is_before(other)
    }

    /// Of two openings that name no number the one that comes last counts; one that names its number is not ended by one
    /// that does not.
    fn is_before(self, other: Self) -> bool {
        match (self.number, other.number) {
            (Some(ours), Some(theirs)) => {
                (ours, self.opening).cmp(&(theirs, other.opening)) == Ordering::Less
            }
            (None, Some(_)) => true,
            (_, None) => false,
        }
    }

    /// What the name of a context says; `None` where it is no such context.
    pub fn parse(name: &str) -> Option<Self> {
        let mut numbers = name.strip_prefix(CONTEXT_EXCLUSIVE)?.split('-');
        let (volume, opening) = (hexadecimal(numbers.next()?)?, hexadecimal(numbers.next()?)?);
        let drive = u32::try_from(hexadecimal(numbers.next()?)?).ok()?;
        let number = match numbers.next() {
            Some(digits) => Some(hexadecimal(digits)?),
            None => None,
        };
        numbers.next().is_none().then_some(Self { volume, opening, drive, number })
    }
}

/// A number without a sign.
fn hexadecimal(digits: &str) -> Option<u64> {
    let is_one = digits.bytes().all(|it| it.is_ascii_hexdigit());
    is_one.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

/// The name of the context.
impl fmt::Display for Writer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { volume, opening, drive, number } = self;
        write!(out, "{CONTEXT_EXCLUSIVE}{volume:x}-{opening:x}-{drive:x}")?;
        number.map_or(Ok(()), |number| write!(out, "-{number:x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITER: Writer = Writer { volume: 1, opening: 2, drive: 0, number: Some(5) };

    #[test]
    fn a_name_is_read_as_it_is_written_and_anything_else_is_none() {
        for writer in [
            Writer { volume: 0, opening: 0, drive: 0, number: None },
            Writer { volume: u64::MAX, opening: 0x1f, drive: u32::MAX, number: None },
            Writer { volume: 0, opening: 0, drive: 0, number: Some(0) },
            Writer { volume: 1, opening: 2, drive: 3, number: Some(u64::MAX) },
        ] {
            assert_eq!(Writer::parse(&writer.to_string()), Some(writer));
        }
        for text in [
            "",
            "1",
            "1-2",
            "1-2-",
            "1-2-3-",
            "1-2-3-4-5",
            "-1-2-3",
            "+1-2-3",
            "1-2-100000000",
            "g-2-3",
            "1 -2-3",
            "1-2-3-+4",
            "1-2-3-10000000000000000",
        ] {
            assert_eq!(Writer::parse(&format!("{CONTEXT_EXCLUSIVE}{text}")), None, "{text}");
        }
        assert_eq!(Writer::parse("evenkeel:range-flush"), None);
    }

    #[test]
    fn a_session_supersedes_earlier_ones_of_its_volume_and_yields_to_later_ones() {
        let later = Writer { opening: 1, drive: 1, number: Some(6), ..WRITER };
        assert!(later.supersedes(WRITER) && !WRITER.supersedes(later));
        assert!(WRITER.yields_to(later) && !later.yields_to(WRITER));
        // Neither had been told of the other by the drive.
        let at_once = Writer { opening: 3, ..WRITER };
        assert!(at_once.supersedes(WRITER) && WRITER.yields_to(at_once));
        assert!(WRITER.supersedes(WRITER) && !WRITER.yields_to(WRITER), "the same drive is opened once more");
        let beside = Writer { drive: 1, ..WRITER };
        assert!(!WRITER.supersedes(beside) && !WRITER.yields_to(beside));
        let other = Writer { volume: 9, ..later };
        assert!(!WRITER.supersedes(other) && !WRITER.yields_to(other) && !other.supersedes(WRITER));
    }

    #[test]
    fn of_programs_that_name_no_number_the_last_one_counts_and_none_ends_one_that_does() {
        let old = Writer { opening: 7, number: None, ..WRITER };
        let older = Writer { opening: 3, ..old };
        assert!(older.supersedes(old) && old.supersedes(older) && !old.yields_to(older));
        assert!(WRITER.supersedes(old) && !WRITER.yields_to(old));
        assert!(!old.supersedes(WRITER) && old.yields_to(WRITER));
    }
}
