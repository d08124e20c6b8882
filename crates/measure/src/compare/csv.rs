//! Comparisons as rows: one a pair of probes and buffer size.

use csv::{Error, Writer};

use super::Comparisons;

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
        "throughput_ratio",
        "throughput_ratio_ci95_low",
        "throughput_ratio_ci95_high",
        "latency_ratio",
        "latency_ratio_ci95_low",
        "latency_ratio_ci95_high",
        "welch_t",
        "welch_degrees_of_freedom",
        "welch_p_holm",
        "mann_whitney_p_holm",
        "words",
    ])?;
    for comparison in &all.comparisons {
        for point in &comparison.points {
            let throughput = point.throughput_ratio_ci95;
            let latency = point.latency_ratio_ci95;
            let mut row = vec![comparison.a.clone(), comparison.b.clone(), point.buffer_bytes.to_string()];
            let figures = [
                Some(point.a_throughput_bytes_per_s),
                Some(point.b_throughput_bytes_per_s),
                Some(point.throughput_ratio),
                throughput.map(|[low, _]| low),
                throughput.map(|[_, high]| high),
                Some(point.latency_ratio),
                latency.map(|[low, _]| low),
                latency.map(|[_, high]| high),
                point.welch_t,
                point.welch_degrees_of_freedom,
                point.welch_p_holm,
                point.mann_whitney_p_holm,
            ];
            row.extend(figures.map(|figure| figure.map_or(String::new(), |figure| figure.to_string())));
            row.push(point.words.clone());
            writer.write_record(row)?;
        }
    }
    let bytes = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
