//! The metadata context by which a client asks to be the only one that writes.
//!
//! ```text
//! evenkeel:exclusive:VOLUME-OPENING-DRIVE     three numbers, hexadecimal
//! ```

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
}

impl Writer {
    /// Whether a session of `self` ends one of `other` that began before it: both are of one volume, and `other` is of
    /// an opening that is over, or of a connection to the same drive that was given up.
    pub fn supersedes(self, other: Self) -> bool {
        self.volume == other.volume && (self.opening != other.opening || self.drive == other.drive)
    }

    /// What the name of a context says; `None` where it is no such context.
    pub fn parse(name: &str) -> Option<Self> {
        let mut numbers = name.strip_prefix(CONTEXT_EXCLUSIVE)?.split('-');
        let mut next = || numbers.next().filter(|digits| digits.bytes().all(|it| it.is_ascii_hexdigit()));
        let volume = u64::from_str_radix(next()?, 16).ok()?;
        let opening = u64::from_str_radix(next()?, 16).ok()?;
        let drive = u32::from_str_radix(next()?, 16).ok()?;
        numbers.next().is_none().then_some(Self { volume, opening, drive })
    }
}

/// The name of the context.
impl fmt::Display for Writer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { volume, opening, drive } = self;
        write!(out, "{CONTEXT_EXCLUSIVE}{volume:x}-{opening:x}-{drive:x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written_and_anything_else_is_none() {
        for writer in [
            Writer { volume: 0, opening: 0, drive: 0 },
            Writer { volume: u64::MAX, opening: 0x1f, drive: u32::MAX },
        ] {
            assert_eq!(Writer::parse(&writer.to_string()), Some(writer));
        }
        for text in
            ["", "1", "1-2", "1-2-", "1-2-3-4", "-1-2-3", "+1-2-3", "1-2-100000000", "g-2-3", "1 -2-3"]
        {
            assert_eq!(Writer::parse(&format!("{CONTEXT_EXCLUSIVE}{text}")), None, "{text}");
        }
        assert_eq!(Writer::parse("evenkeel:range-flush"), None);
    }

    #[test]
    fn a_session_supersedes_those_of_its_volume_that_are_not_of_its_own_opening() {
        let writer = Writer { volume: 1, opening: 2, drive: 0 };
        assert!(writer.supersedes(Writer { opening: 3, ..writer }));
        assert!(writer.supersedes(Writer { opening: 3, drive: 1, ..writer }));
        assert!(writer.supersedes(writer), "the same drive is opened once more");
        assert!(!writer.supersedes(Writer { drive: 1, ..writer }));
        assert!(!writer.supersedes(Writer { volume: 9, ..writer }));
    }
}
