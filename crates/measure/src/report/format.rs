//! Figures for people: sizes, times, rates and shares, the same on the page, in the charts and in the
//! terminal.
//!
//! Sizes are binary (KiB), rates decimal and always MB/s so that a column compares at a glance, times us, ms
//! or s. Fractions keep three significant digits without trailing zeros. What is not a finite number reads
//! `n/a`.

/// What stands where a figure could not be had.
pub const NOT_AVAILABLE: &str = "n/a";

const KIBI: f64 = 1024.0;
const SIZE_UNITS: [(&str, f64); 6] = [
    ("KiB", KIBI),
    ("MiB", KIBI * KIBI),
    ("GiB", KIBI * KIBI * KIBI),
    ("TiB", KIBI * KIBI * KIBI * KIBI),
    ("PiB", KIBI * KIBI * KIBI * KIBI * KIBI),
    ("EiB", KIBI * KIBI * KIBI * KIBI * KIBI * KIBI),
];
const TIME_UNITS: [(&str, f64); 3] = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];

/// Words with a capital and a full stop.
pub fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let capital = letters.next().into_iter().flat_map(char::to_uppercase);
    capital.chain(letters).chain(std::iter::once('.')).collect()
}

/// A number without a unit, to three significant digits (integers are kept whole): `0.0512`, `2.41`, `2340`.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return NOT_AVAILABLE.to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor();
    if !(-5.0..12.0).contains(&magnitude) {
        return format!("{value:.2e}");
    }
    let decimals = (2.0 - magnitude).clamp(0.0, 8.0) as usize;
    let digits = format!("{value:.decimals$}");
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.').to_owned() } else { digits }
}

/// A number near 1 to two decimals at most, for multiples and counts per write: `1`, `1.03`, `12.8`.
pub fn number_short(value: f64) -> String {
    let rounded = (value * 100.0).round() / 100.0;
    if rounded.is_finite() && value.abs() < 10.0 { number(rounded) } else { number(value) }
}

/// The value in the smallest unit in which it stays below `limit` once rounded, so that 999.6 us reads 1 ms.
fn in_unit(value: f64, units: &[(&str, f64)], limit: f64) -> String {
    if !value.is_finite() {
        return NOT_AVAILABLE.to_owned();
    }
    for (at, (name, size)) in units.iter().enumerate() {
        let digits = number(value / size);
        let rounded = digits.parse::<f64>().unwrap_or(f64::INFINITY);
        if rounded.abs() < limit || at + 1 == units.len() {
            return format!("{digits} {name}");
        }
    }
    NOT_AVAILABLE.to_owned()
}

/// A size in bytes: `512 B`, `4 KiB`, `4097 B`, `1.5 MiB`. Below a MiB it is exact, so that no two buffers share
/// a name.
pub fn bytes(size: u64) -> String {
    if size < 1024 || (size < 1 << 20 && !size.is_multiple_of(1024)) {
        format!("{size} B")
    } else {
        in_unit(size as f64, &SIZE_UNITS, KIBI)
    }
}

/// A size in bytes that was computed, to three digits: it may be fractional, or no size at all.
pub fn bytes_f64(size: f64) -> String {
    match size {
        size if !size.is_finite() || size < 0.0 => NOT_AVAILABLE.to_owned(),
        size if size.round() < 1024.0 => format!("{} B", size.round()),
        size => in_unit(size, &SIZE_UNITS, KIBI),
    }
}

/// A size in bytes for the ticks of an axis: `512`, `4K`, `1M`.
pub fn bytes_short(size: u64) -> String {
    bytes(size).replace(" B", "").replace(' ', "").replace("iB", "")
}

/// A time in seconds: `34 us`, `2.41 ms`, `1.2 s`.
pub fn seconds(time: f64) -> String {
    if time == 0.0 { "0 s".to_owned() } else { in_unit(time, &TIME_UNITS, 1000.0) }
}

/// A rate in bytes per second: `212 MB/s`, `0.512 MB/s`.
pub fn rate(bytes_per_s: f64) -> String {
    in_unit(bytes_per_s, &[("MB/s", 1e6)], f64::INFINITY)
}

/// Throughput over latency in bytes per second squared: `25.1 MB/s per ms`.
pub fn ratio(bytes_per_s2: f64) -> String {
    in_unit(bytes_per_s2, &[("MB/s per ms", RATIO_UNIT)], f64::INFINITY)
}

/// One MB/s per ms, in bytes per second squared.
pub const RATIO_UNIT: f64 = 1e9;

/// A share (1 is the whole): `0.03 %`, `1.2 %`, `12 %`.
pub fn percent(share: f64) -> String {
    let percents = share * 100.0;
    if !percents.is_finite() {
        return NOT_AVAILABLE.to_owned();
    }
    let decimals = match percents.abs() {
        0.0 => 0,
        small if small < 0.095 => 2,
        middling if middling < 9.95 => 1,
        _ => 0,
    };
    let digits = if percents.abs() < 1e6 { format!("{percents:.decimals$}") } else { number(percents) };
    let digits =
        if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { &digits };
    format!("{} %", if digits == "-0" { "0" } else { digits })
}

/// A 95 % interval around a mean, relative to it: `±1.2 %`, or both sides where they differ
/// (`-1.1 / +1.4 %`).
pub fn interval(mean: f64, ci95: Option<[f64; 2]>) -> String {
    let Some([low, high]) = ci95 else {
        return NOT_AVAILABLE.to_owned();
    };
    if mean <= 0.0 {
        return NOT_AVAILABLE.to_owned();
    }
    let (below, above) = (percent((mean - low) / mean), percent((high - mean) / mean));
    if below == NOT_AVAILABLE || above == NOT_AVAILABLE {
        NOT_AVAILABLE.to_owned()
    } else if below == above {
        format!("±{below}")
    } else {
        format!("-{} / +{above}", below.trim_end_matches(" %"))
    }
}

/// A count with its thousands apart: `12,345`.
pub fn count(many: u64) -> String {
    let digits = many.to_string();
    let mut apart = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            apart.push(',');
        }
        apart.push(digit);
    }
    apart
}

/// How many of what: `1 run`, `2 runs`.
pub fn counted(many: u64, what: &str) -> String {
    let ending = if many == 1 { "" } else { "s" };
    format!("{} {what}{ending}", count(many))
}

/// A length of time in seconds as people say it: `42 s`, `3 min 5 s`, `2 h 10 min`.
pub fn duration(length_s: f64) -> String {
    if !length_s.is_finite() || length_s < 0.0 {
        return NOT_AVAILABLE.to_owned();
    }
    if length_s < 59.5 {
        return seconds(length_s);
    }
    let whole = length_s.round() as u64;
    let (hours, minutes, rest) = (whole / 3600, whole / 60 % 60, whole % 60);
    if hours > 0 { format!("{hours} h {minutes} min") } else { format!("{minutes} min {rest} s") }
}

/// A moment in seconds since 1970-01-01 UTC: `2026-01-31 12:00 UTC`.
pub fn moment(unix_s: u64) -> String {
    // The civil calendar from a day count, in years that begin on 1 March so that the leap day comes last.
    const LAST_SHOWN_S: u64 = 253_402_300_799; // 9999-12-31 23:59:59
    if unix_s > LAST_SHOWN_S {
        return NOT_AVAILABLE.to_owned();
    }
    let (days, second_of_day) = (unix_s / 86_400 + 719_468, unix_s % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute) = (second_of_day / 3600, second_of_day / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ODD: [f64; 8] =
        [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, f64::MIN_POSITIVE, -0.0, 5e-324];

    #[test]
    fn sizes_change_unit_at_powers_of_1024() {
        for (size, shown) in [
            (0, "0 B"),
            (1, "1 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1536 B"),
            (4096, "4 KiB"),
            (1000 * 1024, "1000 KiB"),
            ((1 << 20) - 1, "1048575 B"),
            (1 << 20, "1 MiB"),
            (3 << 19, "1.5 MiB"),
            (16 << 20, "16 MiB"),
            (1 << 30, "1 GiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(bytes(size), shown);
        }
        assert_eq!(bytes_f64(523_400.3), "511 KiB");
        assert_eq!(bytes_f64(-1.0), NOT_AVAILABLE);
        for (size, shown) in [(512, "512"), (4096, "4K"), (1 << 20, "1M"), (3 << 19, "1.5M")] {
            assert_eq!(bytes_short(size), shown);
        }
    }

    #[test]
    fn times_change_unit_where_rounding_says_so() {
        for (time, shown) in [
            (0.0, "0 s"),
            (0.25e-6, "0.25 us"),
            (34e-6, "34 us"),
            (999.4e-6, "999 us"),
            (999.6e-6, "1 ms"),
            (1e-3, "1 ms"),
            (2.414e-3, "2.41 ms"),
            (9.996e-3, "10 ms"),
            (0.9994, "999 ms"),
            (0.9996, "1 s"),
            (1.2, "1.2 s"),
            (3700.0, "3700 s"),
            (-2e-3, "-2 ms"),
        ] {
            assert_eq!(seconds(time), shown);
        }
    }

    #[test]
    fn rates_are_always_megabytes() {
        for (per_s, shown) in [
            (0.0, "0 MB/s"),
            (51_200.0, "0.0512 MB/s"),
            (999_600.0, "1 MB/s"),
            (2.12e8, "212 MB/s"),
            (2.3376e9, "2338 MB/s"),
        ] {
            assert_eq!(rate(per_s), shown);
        }
        assert_eq!(ratio(2.5e10), "25 MB/s per ms");
    }

    #[test]
    fn shares_and_intervals_round_by_size() {
        for (share, shown) in [
            (0.0, "0 %"),
            (0.0003, "0.03 %"),
            (0.000_001, "0 %"),
            (-0.000_001, "0 %"),
            (0.0123, "1.2 %"),
            (0.02, "2 %"),
            (0.0996, "10 %"),
            (0.123, "12 %"),
            (1.5, "150 %"),
        ] {
            assert_eq!(percent(share), shown);
        }
        assert_eq!(interval(100.0, Some([98.0, 102.0])), "±2 %");
        assert_eq!(interval(100.0, Some([99.0, 104.0])), "-1 / +4 %");
        assert_eq!(interval(100.0, None), NOT_AVAILABLE);
        assert_eq!(interval(0.0, Some([0.0, 0.0])), NOT_AVAILABLE);
    }

    #[test]
    fn counts_durations_and_moments_read_as_people_write_them() {
        for (many, shown) in [(0, "0"), (999, "999"), (1000, "1,000"), (12_345_678, "12,345,678")] {
            assert_eq!(count(many), shown);
        }
        assert_eq!([counted(1, "run"), counted(2000, "run")], ["1 run", "2,000 runs"]);
        for (length, shown) in
            [(0.4, "400 ms"), (59.6, "1 min 0 s"), (185.0, "3 min 5 s"), (7800.0, "2 h 10 min")]
        {
            assert_eq!(duration(length), shown);
        }
        for (unix, shown) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_769_860_800, "2026-01-31 12:00 UTC"),
            (4_102_444_799, "2099-12-31 23:59 UTC"),
            (u64::MAX, NOT_AVAILABLE),
        ] {
            assert_eq!(moment(unix), shown);
        }
    }

    #[test]
    fn odd_values_are_shown_without_nan_or_infinity() {
        for value in ODD {
            let shown = [
                number(value),
                bytes_f64(value),
                seconds(value),
                rate(value),
                ratio(value),
                percent(value),
                interval(value, Some([value, 1.0])),
                interval(1.0, Some([value, value])),
                duration(value),
            ];
            for text in shown {
                assert!(!text.to_lowercase().contains("nan") && !text.contains("inf"), "{value}: {text}");
                assert!(text.len() < 400, "{value}: {text}");
            }
        }
    }
}
