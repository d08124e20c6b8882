//! The parts of a page that are sentences: recommendation, warnings, the stack, the model, how to read.

use maud::{Markup, html};

use crate::probe::curve;
use crate::probe::report::{Model, PhaseRange, Point, ProbeReport, Rule, Warning, WarningCode};
use crate::report::format;
use crate::report::page::{Fact, card, facts, known};

/// So many warnings are folded into a line.
const FOLDED_FROM: usize = 3;

/// The recommendation, and what to expect of it.
pub(super) fn headline(report: &ProbeReport) -> Markup {
    let recommendation = report.recommendation.as_ref();
    let chosen = recommendation.and_then(|recommendation| recommendation.buffer_bytes);
    let point = report.points.iter().find(|point| Some(point.buffer_bytes) == chosen);
    html! {
        header.top {
            p.eyebrow {
                "evenkeel probe of " code { (report.stack.path) }
                " · " (report.stack.file_system) " on " code { (report.stack.device) }
                " · " (report.method.name()) " over a " (report.file_state.name()) " file"
            }
            h1 {
                @match (recommendation, chosen) {
                    _ if report.matrix.is_some() => {
                        "Use " (report.method.name()) " over a " (report.file_state.name()) " file"
                        @if let Some(size) = chosen { ", " (format::bytes(size)) " at a time" }
                    },
                    (_, Some(size)) => { "Use a buffer of " (format::bytes(size)) },
                    (Some(recommendation), None) if recommendation.undecided_bytes.is_empty() => {
                        "No measured buffer meets the goals"
                    },
                    (Some(_), None) => "No measured buffer is known to meet the goals",
                    (None, None) if report.like.is_some() => {
                        @if let Some(like) = &report.like { "As " (like.program.name()) " commits" }
                    },
                    (None, None) => "No buffer is recommended",
                }
            }
            @if let Some(like) = &report.like {
                p.reason { (format::sentence(&like.sentence())) }
                p.muted { (like.source) "." }
            }
            @match recommendation {
                None if report.like.is_some() => {},
                Some(recommendation) => p.reason { (format::sentence(&recommendation.reason)) },
                None => p.reason { "Too little was measured to choose among the buffer sizes." },
            }
            @if report.quick {
                p.reason { "This was a quick look: fewer runs, and so wider intervals." }
            }
            @if let Some(recommendation) = recommendation {
                div.tiles {
                    @if let Some(point) = point { (expectations(report, point)) }
                    (tile("Rule", rule(recommendation.rule), None))
                    @let others = recommendation.also_bytes.iter().filter(|&&size| Some(size) != chosen);
                    @let others: Vec<_> = others.map(|&size| format::bytes(size)).collect();
                    @if chosen.is_some() && !others.is_empty() {
                        @let name = match recommendation.rule {
                            Rule::Both => "Also give both",
                            _ => "Cannot be told apart from it",
                        };
                        (tile(name, &others.join(", "), None))
                    }
                }
            }
        }
    }
}

fn expectations(report: &ProbeReport, point: &Point) -> Markup {
    let throughput = point.throughput_bytes_per_s.mean;
    let highest =
        report.points.iter().map(|point| point.throughput_bytes_per_s.mean).fold(f64::NAN, f64::max);
    let lowest = report.points.iter().map(|point| point.latency_s.mean).fold(f64::NAN, f64::min);
    let share = format!("{} of the highest measured", format::percent(throughput / highest));
    let times = format!("{} times the lowest measured", format::number_short(point.latency_s.mean / lowest));
    html! {
        (tile("Throughput", &format::rate(throughput), Some(&share)))
        (tile("Latency of a write", &format::seconds(point.latency_s.mean), Some(&times)))
    }
}

fn tile(name: &str, figure: &str, note: Option<&str>) -> Markup {
    html! {
        div.tile {
            p.name { (name) }
            p.figure { (figure) }
            @if let Some(note) = note { p.note { (note) } }
        }
    }
}

fn rule(rule: Rule) -> &'static str {
    match rule {
        Rule::BestRatio => "most throughput per latency",
        Rule::MinThroughput => "smallest with the throughput asked for",
        Rule::MaxLatency => "largest within the latency asked for",
        Rule::Both => "smallest that meets both goals",
        Rule::GroupCommit => "soonest durable by group commit",
    }
}

/// The warnings, each with the stack that it is about where there are several. One that takes the ground from under the
/// figures is there in full; three or more, and all others, are to be opened, so that they do not push the charts out of
/// sight.
pub(crate) fn warnings(warnings: &[(Option<&str>, &Warning)]) -> Markup {
    let (serious, mut folded): (Vec<_>, Vec<_>) =
        warnings.iter().copied().partition(|(_, warning)| is_serious(warning.code));
    let mut codes: Vec<WarningCode> = serious.iter().map(|(_, warning)| warning.code).collect();
    codes.dedup();
    let in_full = if codes.len() < FOLDED_FROM { codes } else { Vec::new() };
    let of_code = |code: WarningCode| {
        serious.iter().filter(move |(_, warning)| warning.code == code).copied().collect::<Vec<_>>()
    };
    if in_full.is_empty() {
        folded.splice(0..0, serious.iter().copied());
    }
    html! {
        @for code in in_full {
            aside.callout.serious role="note" {
                h2 { (about(code)) }
                @let (shown, more) = few(of_code(code));
                @for (label, warning) in shown {
                    p { @if let Some(label) = label { b { (label) ": " } } (format::sentence(&warning.message)) }
                }
                @if more > 0 { p { "And " (format::counted(more as u64, "more such stack")) "." } }
            }
        }
        @if !folded.is_empty() {
            details.callout.serious[folded.iter().any(|(_, warning)| is_serious(warning.code))] role="note" {
                summary { (format::counted(folded.len() as u64, "warning")) ": " (names(&folded).join(" · ")) }
                @for (label, warning) in &folded {
                    p {
                        b { @if let Some(label) = label { (label) ", " } (about(warning.code)) ": " }
                        (format::sentence(&warning.message))
                    }
                }
            }
        }
    }
}

/// The first few, and how many there are besides.
fn few<T>(mut all: Vec<T>) -> (Vec<T>, usize) {
    let more = all.len().saturating_sub(FOLDED_FROM - 1);
    all.truncate(FOLDED_FROM - 1);
    (all, more)
}

fn names(warnings: &[(Option<&str>, &Warning)]) -> Vec<&'static str> {
    let mut names: Vec<&str> = Vec::new();
    for (_, warning) in warnings {
        let name = about(warning.code);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn is_serious(code: WarningCode) -> bool {
    matches!(code, WarningCode::TooFastToBeTrue | WarningCode::MostlyDisturbed)
}

fn about(code: WarningCode) -> &'static str {
    match code {
        WarningCode::MostlyDisturbed => "Most runs were disturbed",
        WarningCode::TooFastToBeTrue => "Too fast to be true",
        WarningCode::VariesTooMuch => "Varies too much",
        WarningCode::NetworkFileSystem => "Network file system",
        WarningCode::LoopDevice => "Loop device",
        WarningCode::FellBackToBuffered => "Fell back to the page cache",
        WarningCode::CutShort => "Cut short",
        WarningCode::ModelDisagrees => "Measurement and model disagree",
        WarningCode::Disturbed => "Disturbed from outside",
        WarningCode::NearlyFull => "Nearly full",
    }
}

/// What was measured, and how.
pub(super) fn stack(report: &ProbeReport) -> Markup {
    card("The stack", facts(&stack_facts(report)))
}

/// The stack and the way it was written to, a name and a fact at a time.
pub(crate) fn stack_facts(report: &ProbeReport) -> Vec<Fact> {
    let stack = &report.stack;
    let yes = |answer: Option<bool>, yes: &'static str, no: &'static str| {
        known(answer.map(|answer| if answer { yes } else { no }))
    };
    let mut list = vec![
        ("Path", html! { code { (stack.path) } }),
        ("File system", html! { (stack.file_system) }),
        ("Mount options", options(&stack.mount_options)),
        ("Device", html! { code { (stack.device) } }),
        ("Model", known(stack.device_model.as_deref())),
    ];
    if let Some(file) = &stack.loop_file {
        list.push(("Loop file", html! { code { (file) } }));
    }
    if stack.in_memory {
        list.push(("Data stays", html! { span.attention { "in this machine's memory" } }));
    }
    if stack.over_network {
        list.push(("Data goes", html! { span.attention { "to another machine, over a network" } }));
    }
    if let (Some(free), Some(size)) = (stack.free_bytes, stack.size_bytes) {
        list.push(("Space left", html! { (format::bytes(free)) " of " (format::bytes(size)) }));
    }
    list.extend([
        ("Scheduler", known(stack.scheduler.as_deref())),
        ("Write cache", known(stack.write_cache.as_deref())),
        ("FUA writes", yes(stack.fua, "supported", "not supported")),
        ("Rotating", yes(stack.rotational, "yes", "no")),
        ("Kernel", html! { (stack.kernel) }),
        ("Method", html! { code { (report.method.name()) } }),
        ("File state", html! { (report.file_state.name()) }),
        ("Writers", html! { (format::count(u64::from(report.writers))) }),
        ("Runs a size", html! { (format::count(u64::from(report.runs))) }),
    ]);
    list
}

/// Mount options, with places between them where a line may end.
fn options(options: &str) -> Markup {
    html! {
        code {
            @for (place, option) in options.split(',').enumerate() {
                @if place > 0 { "," wbr; }
                (option)
            }
        }
    }
}

/// The fitted line and the phases, in words and numbers.
pub(super) fn model(report: &ProbeReport) -> Markup {
    let facts_shown = [model_facts(report), phase_facts(report)].concat();
    let content = html! {
        @for sentence in curve::sentences(report) { p { (sentence) } }
        @if facts_shown.is_empty() {
            p.muted { "The measured points show neither a line nor phases." }
        } @else {
            (facts(&facts_shown))
        }
    };
    card("The model", content)
}

/// The parameters of the fitted line, where there is one, with where they may lie.
pub(crate) fn model_facts(report: &ProbeReport) -> Vec<Fact> {
    let Some(model) = &report.model else {
        return Vec::new();
    };
    let [fixed, bandwidth, optimum] = parameters(model);
    vec![
        ("l, fixed latency", html! { (fixed) }),
        (
            if report.writers > 1 { "B, bandwidth of one writer" } else { "B, bandwidth" },
            html! { (bandwidth) },
        ),
        ("l × B, best ratio", html! { (optimum) }),
        ("R² of log latency", html! { (r2(model.r2)) }),
    ]
}

/// l, B and their product: where each may lie, or the fitted ones of an older document, which say that they are fitted.
pub(crate) fn parameters(model: &Model) -> [String; 3] {
    let named = |fitted: f64, interval: Option<[f64; 2]>, name: fn(f64) -> String| match interval {
        Some(ends) => curve::between(ends, name),
        None => format!("fitted {}, no interval", name(fitted)),
    };
    [
        named(model.fixed_latency_s, model.fixed_latency_interval_s, format::seconds),
        named(model.bandwidth_bytes_per_s, model.bandwidth_interval_bytes_per_s, format::rate),
        named(model.optimum_bytes, model.optimum_interval_bytes, format::bytes_f64),
    ]
}

/// The ranges of the phases, where they are shown.
pub(crate) fn phase_facts(report: &ProbeReport) -> Vec<Fact> {
    let Some(phases) = curve::shown_phases(report) else {
        return Vec::new();
    };
    vec![
        ("I constant latency", range(phases.constant_latency)),
        ("II both grow", range(phases.both_grow)),
        ("III constant throughput", range(phases.constant_throughput)),
        (
            "Slope, typical runs",
            html! {
                (format::number_short(phases.middle_slope))
                span.muted { " (0: constant latency, 1: constant throughput)" }
            },
        ),
    ]
}

fn r2(share: f64) -> String {
    if share.is_finite() { format!("{share:.4}") } else { format::NOT_AVAILABLE.to_owned() }
}

fn range(range: Option<PhaseRange>) -> Markup {
    match range {
        Some(range) => {
            html! { (format::bytes_f64(range.from_bytes)) " to " (format::bytes_f64(range.to_bytes)) }
        }
        None => html! { span.muted { "not shown by these runs and sizes" } },
    }
}

/// What the figures are, and how far to trust them.
pub(crate) fn how_to_read() -> Markup {
    let content = html! {
        div.reading {
            p {
                b { "The trade. " }
                "A larger buffer spreads the fixed cost of a synchronous write over more bytes, so \
                 throughput grows, but each write, and each record waiting in it, takes longer. \
                 Throughput over latency weighs one against the other. On a line l + x/B it peaks where \
                 a write's bytes take as long as its fixed cost: at half of the top throughput and twice \
                 the least latency. In proportion, a larger buffer gains less throughput than it costs latency, and \
                 a smaller one loses more throughput than it saves latency."
            }
            p {
                b { "The phases. " }
                "While the fixed cost rules, latency stays constant and throughput grows with the buffer: \
                 a larger buffer is free. Where the bytes rule, throughput stays constant and only \
                 latency grows: a larger buffer is in vain. Between the two both grow, and there the \
                 choice lies. Latency or throughput counts as constant where it is shown to grow by less \
                 than half over four times the size or more. Sizes of which the runs do not show what \
                 they do are in no phase, and not shaded."
            }
            p {
                b { "The line. " }
                "l and B are ranges of what a typical run may have, as much wider as the points lie off the \
                 line. Phases and ranges are wrong on at most 1 page in 100."
            }
            p {
                b { "Intervals. " }
                "Each run is one data point. A 95\u{a0}% interval is Student's t over the runs' means, with \
                 one degree of freedom less than there are runs: were the whole probe repeated many \
                 times, 95 in 100 such intervals would contain the true mean. Sizes whose intervals \
                 overlap are hard to tell apart. One run has no interval."
            }
            p {
                b { "Percentiles. " }
                "Medians and percentiles are over single writes, not over runs. Where too few writes were \
                 timed for one (20 for the median, 1,000 for p99, 10,000 for p99.9) it reads n/a rather \
                 than a guess."
            }
            p {
                b { "The device. " }
                "Writes and flushes per write are what reached the block device, by its own counters, for \
                 one synchronous write; bytes per byte is what reached it for one byte of the user's. \
                 Above 1, file system and journal add to what was written. Other programs on the same \
                 device count too."
            }
            p {
                b { "Units. " }
                "Sizes are binary (1 KiB is 1,024 bytes), rates decimal (1 MB/s is 1,000,000 bytes per \
                 second), us is a millionth of a second."
            }
        }
    };
    card("How to read this", content)
}

/// Where the figures come from.
pub(crate) fn provenance(report: &ProbeReport) -> Markup {
    html! {
        p {
            "Measured by evenkeel " (report.evenkeel_version)
            ", begun " (format::moment(report.started_unix_s))
            ", took " (format::duration(report.duration_s))
            ", seed " (format::count(report.seed)) "."
        }
    }
}
