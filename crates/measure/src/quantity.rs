//! Sizes and times as people type them, on the command line and in files.
//!
//! `k`, `m` and `g` after a size are powers of 1024, as in `4k`.

/// A size in bytes: `4096`, `4k`, `4KiB`, `16m`, `1g`.
///
/// # Errors
///
/// One line that says what was expected.
pub fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return Err(format!("`{text}` is not a size such as 4096, 4k or 16m")),
    };
    let whole: u64 = number.parse().map_err(|_| format!("`{text}` is not a size such as 4096, 4k or 16m"))?;
    match whole.checked_mul(factor) {
        Some(0) => Err(format!("`{text}`: a size is at least one byte")),
        Some(bytes) => Ok(bytes),
        None => Err(format!("`{text}` is more bytes than can be counted")),
    }
}

/// Seconds: `120`, `120s`, `2m`, `1h`, `2.5ms`, `300us`.
///
/// # Errors
///
/// One line that says what was expected.
pub fn seconds(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "s" => 1.0,
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("`{text}` is not a time such as 120s, 2m or 2.5ms")),
    };
    positive(number, factor).ok_or_else(|| format!("`{text}` is not a time such as 120s, 2m or 2.5ms"))
}

/// A number as it is typed, and what stands after it.
pub fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// The number times `factor`, if it is more than nothing.
pub fn positive(number: &str, factor: f64) -> Option<f64> {
    let value = number.parse::<f64>().ok()? * factor;
    (value.is_finite() && value > 0.0).then_some(value)
}
