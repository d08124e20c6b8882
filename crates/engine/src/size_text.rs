//! Sizes in messages, in the units of who reads them.

const UNITS: [(&str, u64); 6] = [
    ("EiB", 1 << 60),
    ("PiB", 1 << 50),
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
];

/// A size to three digits: `512 bytes`, `64 MiB`, `1.07 GiB`.
pub fn size(bytes: u64) -> String {
    let Some((unit, factor)) = UNITS.iter().find(|(_, factor)| bytes >= *factor) else {
        return format!("{bytes} bytes");
    };
    let number = bytes as f64 / *factor as f64;
    let decimals = if number < 9.995 { 2 } else { usize::from(number < 99.95) };
    let digits = format!("{number:.decimals$}");
    let digits = match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => &digits,
    };
    format!("{digits} {unit}")
}

/// The same where each byte counts, since it is to be typed: `1134592 bytes (1.08 MiB)`.
pub fn exact_size(bytes: u64) -> String {
    if bytes < 1024 { size(bytes) } else { format!("{bytes} bytes ({})", size(bytes)) }
}

/// Two sizes that are compared: each byte counts where they look alike to three digits.
pub fn sizes(one: u64, other: u64) -> (String, String) {
    match one != other && size(one) == size(other) {
        true => (exact_size(one), exact_size(other)),
        false => (size(one), size(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_sizes_that_differ_look_different() {
        let texts = |one: &str, other: &str| (one.to_owned(), other.to_owned());
        assert_eq!(sizes(32 << 20, 64 << 20), texts("32 MiB", "64 MiB"));
        assert_eq!(sizes(32 << 20, 32 << 20), texts("32 MiB", "32 MiB"));
        let near = (32 << 20) + 4096;
        let told = texts("33554432 bytes (32 MiB)", "33558528 bytes (32 MiB)");
        assert_eq!(sizes(32 << 20, near), told);
    }

    #[test]
    fn sizes_have_units_that_people_use() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1000, "1000 bytes"),
            (1024, "1 KiB"),
            (64 << 20, "64 MiB"),
            (1_147_483_648, "1.07 GiB"),
            (215_169_449_984, "200 GiB"),
            (10 << 30, "10 GiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn what_is_to_be_typed_loses_no_byte() {
        for (bytes, text) in
            [(512, "512 bytes"), (4096, "4096 bytes (4 KiB)"), (1_134_592, "1134592 bytes (1.08 MiB)")]
        {
            assert_eq!(exact_size(bytes), text);
        }
    }
}
