//! Which method over which file state to use, and what it saves.

use super::point_at;
use super::report::MatrixCell;
use crate::report::format;

/// Where the combination with the least latency stands: at the smallest size that all have, where the choice
/// matters most. `None` where there is no cell.
pub(super) fn main_cell(cells: &[MatrixCell]) -> Option<usize> {
    let size = common_sizes(cells).into_iter().next();
    let latency = |cell: &MatrixCell| {
        size.and_then(|size| point_at(&cell.points, size)).map_or(f64::INFINITY, |point| point.latency_s.mean)
    };
    (0..cells.len()).min_by(|&a, &b| latency(&cells[a]).total_cmp(&latency(&cells[b])))
}

/// One sentence a size: the fastest combination, what it saves over a plain append, and what an append
/// costs over an overwrite with the same method.
pub(super) fn advice(cells: &[MatrixCell]) -> Vec<String> {
    common_sizes(cells).into_iter().filter_map(|size| advice_at(cells, size)).collect()
}

fn advice_at(cells: &[MatrixCell], size: u64) -> Option<String> {
    let latency = |cell: &MatrixCell| point_at(&cell.points, size).map(|point| point.latency_s.mean);
    let timed = || cells.iter().filter_map(|cell| latency(cell).map(|latency_s| (cell, latency_s)));
    let (best, best_s) = timed().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let (worst, worst_s) = timed().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let mut sentence = format!(
        "{}: {} over a file that is {} takes {}",
        format::bytes(size),
        best.method,
        best.file_state,
        format::seconds(best_s)
    );
    let same_method = timed().find(|(cell, _)| {
        cell.method == best.method && cell.file_state != best.file_state && cell.file_state.name() == "fresh"
    });
    if let Some((_, fresh_s)) = same_method {
        sentence.push_str(&format!(", {:.1} times faster than {} appending", fresh_s / best_s, best.method));
    }
    if (worst.method, worst.file_state) != (best.method, best.file_state) {
        sentence.push_str(&format!(
            "; the slowest, {} over one that is {}, takes {:.1} times as long",
            worst.method,
            worst.file_state,
            worst_s / best_s
        ));
    }
    Some(sentence)
}

fn common_sizes(cells: &[MatrixCell]) -> Vec<u64> {
    let Some(first) = cells.first() else {
        return Vec::new();
    };
    let everywhere = |size: &u64| cells.iter().all(|cell| point_at(&cell.points, *size).is_some());
    first.points.iter().map(|point| point.buffer_bytes).filter(everywhere).collect()
}
