//! Comma-separated values: one row a point, for spreadsheets and statistics programs.
//!
//! Columns are named as in the JSON document, flattened with `_`, and figures are in its units (bytes,
//! seconds, bytes per second) with full precision. What is `null` there is empty here. Rows of the matrix
//! follow those of the probe in the same columns, told apart by `part`.

use ::csv::{Error, Writer, WriterBuilder};
use evenkeel_host::method::{FileState, Method};

use crate::probe::report::{Point, ProbeReport};

const COLUMNS: [&str; 32] = [
    "part",
    "method_asked",
    "file_state",
    "buffer_bytes",
    "method",
    "writes",
    "runs",
    "disturbed_runs",
    "throughput_bytes_per_s_mean",
    "throughput_bytes_per_s_sd",
    "throughput_bytes_per_s_ci95_low",
    "throughput_bytes_per_s_ci95_high",
    "throughput_bytes_per_s_relative_range",
    "writes_per_s",
    "latency_s_mean",
    "latency_s_sd",
    "latency_s_ci95_low",
    "latency_s_ci95_high",
    "latency_s_p50",
    "latency_s_p99",
    "latency_s_p999",
    "latency_s_max",
    "ratio",
    "ratio_ci95_low",
    "ratio_ci95_high",
    "device_writes_per_op",
    "device_flushes_per_op",
    "device_bytes_per_user_byte",
    "writers",
    "file_system",
    "device",
    "path",
];

/// Every point of the probe and of the matrix as CSV with a heading.
///
/// # Errors
///
/// None in practice: the text is made in memory.
pub fn probe_csv(report: &ProbeReport) -> Result<String, Error> {
    let mut writer = WriterBuilder::new().from_writer(Vec::new());
    probe_rows(&mut writer, report)?;
    for cell in report.matrix.iter().flat_map(|matrix| &matrix.cells) {
        for point in &cell.points {
            writer.write_record(row(report, "matrix", cell.method, cell.file_state, point))?;
        }
    }
    text(writer)
}

/// The points of the probe alone, separated by tabs: what a spreadsheet takes from the clipboard.
pub(super) fn points_tsv(report: &ProbeReport) -> Result<String, Error> {
    let mut writer = WriterBuilder::new().delimiter(b'\t').from_writer(Vec::new());
    probe_rows(&mut writer, report)?;
    text(writer)
}

fn probe_rows(writer: &mut Writer<Vec<u8>>, report: &ProbeReport) -> Result<(), Error> {
    writer.write_record(COLUMNS)?;
    for point in &report.points {
        writer.write_record(row(report, "points", report.method, report.file_state, point))?;
    }
    Ok(())
}

fn row(report: &ProbeReport, part: &str, asked: Method, state: FileState, point: &Point) -> [String; 32] {
    let (throughput, latency) = (&point.throughput_bytes_per_s, &point.latency_s);
    [
        part.to_owned(),
        asked.name().to_owned(),
        state.name().to_owned(),
        point.buffer_bytes.to_string(),
        point.method.name().to_owned(),
        point.writes.to_string(),
        point.runs.to_string(),
        point.disturbed_runs.to_string(),
        figure(throughput.mean),
        optional(throughput.sd),
        end(throughput.ci95, 0),
        end(throughput.ci95, 1),
        figure(throughput.relative_range),
        figure(point.writes_per_s()),
        figure(latency.mean),
        optional(latency.sd),
        end(latency.ci95, 0),
        end(latency.ci95, 1),
        optional(latency.p50),
        optional(latency.p99),
        optional(latency.p999),
        figure(latency.max),
        figure(point.ratio),
        end(point.ratio_ci95, 0),
        end(point.ratio_ci95, 1),
        optional(point.device_writes_per_op),
        optional(point.device_flushes_per_op),
        optional(point.device_bytes_per_user_byte),
        report.writers.to_string(),
        report.stack.file_system.clone(),
        report.stack.device.clone(),
        report.stack.path.clone(),
    ]
}

/// The shortest decimal that reads back as the same number; nothing for what is none.
fn figure(value: f64) -> String {
    if value.is_finite() { format!("{value:?}") } else { String::new() }
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(String::new, figure)
}

fn end(ci95: Option<[f64; 2]>, which: usize) -> String {
    optional(ci95.map(|ends| ends[which]))
}

fn text(writer: Writer<Vec<u8>>) -> Result<String, Error> {
    let bytes = writer.into_inner().map_err(|error| std::io::Error::from(error.error().kind()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::sample;

    fn rows(text: &str) -> Vec<std::collections::HashMap<String, String>> {
        ::csv::Reader::from_reader(text.as_bytes()).deserialize().map(Result::unwrap).collect()
    }

    #[test]
    fn there_is_a_row_for_every_point_of_probe_and_matrix() {
        for report in sample::all() {
            let cells = report.matrix.iter().flat_map(|matrix| &matrix.cells);
            let expected = report.points.len() + cells.map(|cell| cell.points.len()).sum::<usize>();
            assert_eq!(rows(&probe_csv(&report).unwrap()).len(), expected);
        }
    }

    #[test]
    fn figures_read_back_exactly_and_null_is_empty() {
        let report = sample::disk();
        let rows = rows(&probe_csv(&report).unwrap());
        for (row, point) in rows.iter().zip(&report.points) {
            let read = |column: &str| row[column].parse::<f64>().ok();
            assert_eq!(row["part"], "points");
            assert_eq!(row["file_state"], "written");
            assert_eq!(read("throughput_bytes_per_s_mean"), Some(point.throughput_bytes_per_s.mean));
            assert_eq!(read("latency_s_ci95_high"), point.latency_s.ci95.map(|ends| ends[1]));
            assert_eq!(read("latency_s_p99"), point.latency_s.p99);
        }
        let last = &rows[report.points.len() - 1];
        assert_eq!(last["latency_s_p99"], "");
        let matrix = &rows[report.points.len()];
        assert_eq!((&*matrix["part"], &*matrix["file_state"]), ("matrix", "fresh"));
    }

    #[test]
    fn columns_carry_the_names_of_the_json_document() {
        let json = serde_json::to_value(&sample::disk().points[0]).unwrap();
        let names = json
            .as_object()
            .unwrap()
            .iter()
            .filter(|(name, _)| !["run_data", "latency_histogram"].contains(&name.as_str()));
        for (name, value) in names {
            match value.as_object() {
                None if name == "ratio_ci95" => {}
                None => assert!(COLUMNS.contains(&name.as_str()), "{name}"),
                Some(inner) => {
                    for part in inner.keys() {
                        let column = format!("{name}_{part}");
                        assert!(COLUMNS.iter().any(|known| known.starts_with(&column)), "{column}");
                    }
                }
            }
        }
    }

    #[test]
    fn odd_numbers_are_left_out() {
        let text = probe_csv(&sample::odd()).unwrap();
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
}
