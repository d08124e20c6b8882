//! What a comparison found, in sentences. Each claims a difference only where a verdict does.

use super::report::{Comparison, Design, Judged, PointComparison, Verdict};

/// A verdict on one size in words.
pub(super) fn at_size((a, b): (&str, &str), throughput: &Judged, p99: Option<&Judged>) -> String {
    let mut words = match throughput.verdict {
        Verdict::Faster => format!("{b} has {} times the throughput of {a}", times(throughput.ratio)),
        Verdict::Slower => format!("{b} has only {} times the throughput of {a}", times(throughput.ratio)),
        Verdict::NoDifferenceShown => format!("no difference shown: ratio {}", times(throughput.ratio)),
        Verdict::Withheld => return format!("no verdict: ratio {}", times(throughput.ratio)),
    };
    words += &between(throughput);
    match p99 {
        Some(p99) if p99.verdict == Verdict::Faster => {
            words += &format!("; its p99 is only {} times as long{}", times(p99.ratio), between(p99));
        }
        Some(p99) if p99.verdict == Verdict::Slower => {
            words += &format!("; its p99 is {} times as long{}", times(p99.ratio), between(p99));
        }
        _ => {}
    }
    words
}

/// A ratio to two digits, or three near 1, where it is a number.
fn times(ratio: f64) -> String {
    if (ratio - 1.0).abs() < 0.02 {
        format!("{ratio:.3}")
    } else if ratio.is_finite() {
        format!("{ratio:.2}")
    } else {
        crate::report::format::NOT_AVAILABLE.to_owned()
    }
}

fn between(judged: &Judged) -> String {
    judged.interval.map_or_else(
        || " (too few runs to tell)".to_owned(),
        |[low, high]| format!(" ({} to {})", times(low), times(high)),
    )
}

/// The whole in one sentence.
pub(super) fn overall(design: Design, found: &Comparison) -> String {
    let (a, b) = (&found.a, &found.b);
    if let Some(why) = &found.withheld {
        return format!("no verdict on {a} and {b}: {why}");
    }
    let all = found.points.len();
    let count = |verdict| found.points.iter().filter(|point| point.throughput.verdict == verdict).count();
    let (faster, slower) = (count(Verdict::Faster), count(Verdict::Slower));
    let subject = match design {
        Design::Pairs => String::new(),
        Design::Sessions if found.sessions == [1, 1] => "these two sessions differ: ".to_owned(),
        Design::Sessions => format!("these {} sessions differ: ", found.sessions[0] + found.sessions[1]),
    };
    let unlike = match found.unlike.as_slice() {
        [] => String::new(),
        unlike => format!(" (measured in unlike ways: {})", unlike.join("; ")),
    };
    let rates = match (faster, slower, found.throughout.verdict) {
        (0, 0, Verdict::NoDifferenceShown | Verdict::Withheld) => return none_shown(design, found) + &unlike,
        (0, 0, verdict) => {
            let word = if verdict == Verdict::Faster { "faster" } else { "slower" };
            format!(
                "{b} is {word} than {a} over all sizes together, by a factor of {}{}; at no single size is that shown",
                times(found.throughout.ratio),
                between(&found.throughout)
            )
        }
        (_, 0, _) => format!("{b} is faster than {a} at {faster} of {all} sizes{}", span(&found.points)),
        (0, _, _) => format!("{b} is slower than {a} at {slower} of {all} sizes{}", span(&found.points)),
        _ => format!(
            "neither wins: {b} is faster than {a} at {faster} of {all} sizes and slower at {slower}{}",
            span(&found.points)
        ),
    };
    format!("{subject}{rates}{}{unlike}", p99_too(&found.points))
}

fn none_shown(design: Design, found: &Comparison) -> String {
    let p99 = p99_too(&found.points);
    let (a, b) = (&found.a, &found.b);
    if !p99.is_empty() {
        return format!("no difference in throughput between {a} and {b} is shown{p99}");
    }
    let too_few = found.judged().all(|(_, judged)| judged.interval.is_none());
    let what = match design {
        Design::Pairs => format!("no difference of half a percent or more between {a} and {b} is shown"),
        Design::Sessions => format!("that these sessions of {a} and {b} differ is not shown"),
    };
    match (too_few, found.throughout.interval) {
        (true, _) => format!("{what}: there are too few runs to tell"),
        (false, Some([low, high])) => {
            format!("{what}: over all sizes the ratio lies between {} and {}", times(low), times(high))
        }
        (false, None) => what,
    }
}

fn p99_too(points: &[PointComparison]) -> String {
    let count =
        |verdict| points.iter().filter(|point| point.p99.is_some_and(|p99| p99.verdict == verdict)).count();
    match (count(Verdict::Faster), count(Verdict::Slower)) {
        (0, 0) => String::new(),
        (shorter, 0) => format!("; its p99 is shorter at {shorter}"),
        (0, longer) => format!("; its p99 is longer at {longer}"),
        (shorter, longer) => format!("; its p99 is shorter at {shorter} and longer at {longer}"),
    }
}

fn span(points: &[PointComparison]) -> String {
    let shown = points.iter().filter(|point| point.throughput.verdict != Verdict::NoDifferenceShown);
    let ratios: Vec<f64> = shown.map(|point| point.throughput.ratio).collect();
    let (low, high) =
        ratios.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), &ratio| (low.min(ratio), high.max(ratio)));
    let unknown = match points.len() - ratios.len() {
        0 => String::new(),
        unknown => format!("; at {unknown} none is shown"),
    };
    match high - low {
        narrow if narrow < 0.005 => format!(", by a factor of {}{unknown}", times(low)),
        _ => format!(", by factors from {} to {}{unknown}", times(low), times(high)),
    }
}
