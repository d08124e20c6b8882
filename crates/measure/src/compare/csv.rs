//! Comparisons as rows: one a pair of probes and buffer size.

use csv::{Error, Writer};

use super::report::{Comparisons, Judged, Verdict};

/// All comparisons as CSV, with a header; a figure that could not be had is empty.
///
/// # Errors
///
/// None in practice: it writes to memory.
pub fn comparisons_csv(all: &Comparisons) -> Result<String, Error> {
    let mut writer = Writer::from_writer(Vec::new());
    writer.write_record([
        "a",
        "b",
        "buffer_bytes",
        "a_throughput_bytes_per_s",
        "b_throughput_bytes_per_s",
        "a_p99_s",
        "b_p99_s",
        "throughput_ratio",
        "throughput_ratio_low",
        "throughput_ratio_high",
        "throughput_verdict",
        "p99_ratio",
        "p99_ratio_low",
        "p99_ratio_high",
        "p99_verdict",
        "words",
    ])?;
    let figure = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    for comparison in &all.comparisons {
        for point in &comparison.points {
            let mut row = vec![comparison.a.clone(), comparison.b.clone(), point.buffer_bytes.to_string()];
            row.extend(
                [point.a_throughput_bytes_per_s, point.b_throughput_bytes_per_s].map(|rate| rate.to_string()),
            );
            row.extend([point.a_p99_s, point.b_p99_s].map(figure));
            for judged in [Some(point.throughput), point.p99] {
                let interval = judged.and_then(|judged: Judged| judged.interval);
                row.push(figure(judged.map(|judged| judged.ratio)));
                row.push(figure(interval.map(|[low, _]| low)));
                row.push(figure(interval.map(|[_, high]| high)));
                row.push(judged.map_or("", |judged| name(judged.verdict)).to_owned());
            }
            row.push(point.words.clone());
            writer.write_record(row)?;
        }
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::NoDifferenceShown => "no-difference-shown",
        Verdict::Withheld => "withheld",
    }
}
