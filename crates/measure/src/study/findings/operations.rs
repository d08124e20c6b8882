//! What is said of operations.

use crate::report::format::{counted, number_short};
use crate::study::analysis::{OperationBesideRepeats, OperationCorrelation};
use crate::study::report::StudyReport;

/// Which operations' latency goes with throughput.
pub(super) fn operations(report: &StudyReport) -> Option<String> {
    let (rows, beside) = (&report.operation_correlations, &report.operations_beside_repeats);
    let runs = beside.iter().map(|row| row.runs).max();
    let configurations = rows.iter().map(|row| row.configurations).max();
    let among: Vec<String> = [
        runs.map(|most| format!("up to {}", counted(most as u64, "run"))),
        configurations.map(|most| format!("the ranges of up to {}", counted(most as u64, "configuration"))),
    ]
    .into_iter()
    .flatten()
    .collect();
    if among.is_empty() {
        return None;
    }
    let said: Vec<String> =
        [beside_repeats(beside), between_configurations(rows)].into_iter().flatten().collect();
    Some(match said.as_slice() {
        [] => format!(
            "For no operation is it found that its latency goes with throughput, among {} of a file system.",
            among.join(" and ")
        ),
        said => said.join(" "),
    })
}

fn beside_repeats(rows: &[OperationBesideRepeats]) -> Option<String> {
    let found: Vec<_> = rows.iter().filter(|row| row.found).collect();
    let best = found.iter().min_by(|one, other| one.coefficient.total_cmp(&other.coefficient))?;
    Some(format!(
        "On {} under {}, runs in which {} takes longer than in their repeats are slower: a correlation of {} over {} runs. \
         That is found for {} of {} operations, workloads and file systems.",
        best.file_system,
        best.workload,
        best.operation,
        number_short(best.coefficient),
        best.runs,
        found.len(),
        rows.len()
    ))
}

fn between_configurations(rows: &[OperationCorrelation]) -> Option<String> {
    let found: Vec<_> = rows.iter().filter(|row| row.found).collect();
    let best = found.iter().max_by(|one, other| one.coefficient.total_cmp(&other.coefficient))?;
    Some(format!(
        "On {} under {}, the range of throughput goes with that of the latency of {}: r = {} over {} configurations{}. That \
         is found for {} of {} operations, workloads and file systems.",
        best.file_system,
        best.workload,
        best.operation,
        number_short(best.coefficient),
        best.configurations,
        best.ci95.map_or_else(String::new, |[low, high]| format!(
            " (95 % interval {} to {})",
            number_short(low),
            number_short(high)
        )),
        found.len(),
        rows.len()
    ))
}
