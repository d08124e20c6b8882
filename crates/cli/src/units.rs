//! Sizes, times and rates as people type them.
//!
//! `k`, `m` and `g` after a size are powers of 1024, as in `4k`; in a rate `MB` is a million bytes and `MiB`
//! 1024 x 1024, as everywhere else in this program's output.

use evenkeel_measure::quantity::{positive, split};
pub(crate) use evenkeel_measure::quantity::{seconds, size};

/// Buffer sizes: `4k..16m` doubles from the first to the last, `4k,12k,1m` names each. Ascending, distinct.
pub(crate) fn sizes(text: &str) -> Result<Vec<u64>, String> {
    let mut found = Vec::new();
    for part in text.split(',') {
        match part.split_once("..") {
            Some((first, last)) => {
                let (first, last) = (size(first)?, size(last)?);
                if first > last {
                    return Err(format!("`{part}`: the first size is larger than the last"));
                }
                found.extend(
                    std::iter::successors(Some(first), |size| size.checked_mul(2))
                        .take_while(|&size| size <= last),
                );
            }
            None => found.push(size(part)?),
        }
    }
    found.sort_unstable();
    found.dedup();
    match found.iter().find(|&&size| size > SIZE_MAX) {
        Some(size) => {
            Err(format!("a buffer of {size} bytes is larger than 1 GiB, the largest that is measured"))
        }
        None => Ok(found),
    }
}

/// Largest buffer that is measured: one system call writes at most 2 GiB.
const SIZE_MAX: u64 = 1 << 30;

/// A time, or none: `100ms`, `0`.
pub(crate) fn seconds_or_none(text: &str) -> Result<f64, String> {
    let (number, _) = split(text);
    match number.parse() {
        Ok(0.0) => seconds(&text.replacen(number, "1", 1)).map(|_| 0.0),
        _ => seconds(text),
    }
}

/// Bytes per second: `200MB/s`, `100MiB/s`, `50M`, `1GB`.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text.strip_suffix("/s").unwrap_or(text));
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(format!("`{text}` is not a rate such as 200MB/s or 100MiB/s")),
    };
    positive(number, factor).ok_or_else(|| format!("`{text}` is not a rate such as 200MB/s or 100MiB/s"))
}

/// As [`rate`], with its unit: a bare number is one that somebody else reads in another unit.
pub(crate) fn rate_with_unit(text: &str) -> Result<f64, String> {
    match split(text.strip_suffix("/s").unwrap_or(text)) {
        (number, "") if !number.is_empty() => {
            Err(format!("`{text}` has no unit: type {number}MB/s or {number}MiB/s"))
        }
        _ => rate(text),
    }
}

/// As [`seconds`], with its unit.
pub(crate) fn seconds_with_unit(text: &str) -> Result<f64, String> {
    match split(text) {
        (number, "") if !number.is_empty() => {
            Err(format!("`{text}` has no unit: type {number}ms or {number}s"))
        }
        _ => seconds(text),
    }
}

/// A count per second: `5000`, `5k`, `5k/s`.
pub(crate) fn frequency(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text.strip_suffix("/s").unwrap_or(text));
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        _ => {
            return Err(format!("`{text}` is not a number per second such as 5000 or 5k/s"));
        }
    };
    positive(number, factor)
        .ok_or_else(|| format!("`{text}` is not a number per second such as 5000 or 5k/s"))
}

/// A whole number of things, one at least: digits alone.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no whole number above 0: type 3000000 for three million");
    text.parse().ok().filter(|&count| count > 0).ok_or_else(wrong)
}

/// How many times, from 0 to 100.
pub(crate) fn times(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(times) if (0.0..=100.0).contains(&times) => Ok(times),
        _ => Err(format!("`{text}` is no number from 0 to 100")),
    }
}

/// A share: `5%` or `0.05`.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let found = match text.strip_suffix('%') {
        Some(number) => positive(number.trim(), 0.01),
        None => positive(text, 1.0),
    };
    found
        .filter(|&share| share < 1.0)
        .ok_or_else(|| format!("`{text}` is not a share between 0 and 1, such as 5% or 0.05"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("4k"), Ok(4096));
        assert_eq!(size("16 MiB"), Ok(16 << 20));
        for wrong in ["", "k", "4x", "-4k", "4.5k", "0", "99999999999999999999", "99999999999g"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_range_of_sizes_doubles_and_a_list_is_put_in_order() {
        assert_eq!(sizes("4k..16k"), Ok(vec![4096, 8192, 16384]));
        assert_eq!(sizes("4k..15k"), Ok(vec![4096, 8192]));
        assert_eq!(sizes("1m,4k,4k"), Ok(vec![4096, 1 << 20]));
        assert_eq!(sizes("512,4k..8k"), Ok(vec![512, 4096, 8192]));
        for wrong in ["16k..4k", "4k..", "..", ",", "2g", "1..99999999999999999999"] {
            assert!(sizes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_and_rates_take_the_usual_units() {
        assert_eq!(seconds("120s"), Ok(120.0));
        assert_eq!(seconds("2m"), Ok(120.0));
        assert_eq!(seconds("2.5ms"), Ok(2.5e-3));
        for none in ["0", "0s", "0.0ms"] {
            assert_eq!(seconds_or_none(none), Ok(0.0), "{none}");
        }
        assert_eq!(seconds_or_none("10ms"), seconds("10ms"));
        assert!(seconds_or_none("0y").is_err() && seconds_or_none("-0.5s").is_err());
        assert_eq!(rate("200MB/s"), Ok(200e6));
        assert_eq!(rate("1MiB/s"), Ok(1_048_576.0));
        assert_eq!(rate_with_unit("200MB/s"), Ok(200e6));
        assert_eq!(rate_with_unit("200").unwrap_err(), "`200` has no unit: type 200MB/s or 200MiB/s");
        assert_eq!(rate_with_unit("5/s").unwrap_err(), "`5/s` has no unit: type 5MB/s or 5MiB/s");
        assert_eq!(seconds_with_unit("2ms"), Ok(2e-3));
        assert_eq!(seconds_with_unit("2").unwrap_err(), "`2` has no unit: type 2ms or 2s");
        assert_eq!(frequency("5k/s"), Ok(5000.0));
        assert_eq!(share("5%"), Ok(0.05));
        assert_eq!(share("0.05"), Ok(0.05));
        for wrong in ["", "s", "1y", "0s", "-1s", "1..2s"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
        assert_eq!(count("3000000"), Ok(3_000_000));
        for wrong in ["", "0", "-1", "3000k", "3e6", "1,000", "99999999999999999999"] {
            assert!(count(wrong).unwrap_err().ends_with("type 3000000 for three million"), "{wrong}");
        }
        assert!(share("100%").is_err() && share("nan").is_err() && rate("inf").is_err());
    }
}
