//! Refuses values of `evenkeel serve` and `mount` with which no volume is served well.

use evenkeel_host::conditions::Machine;
use evenkeel_host::volume::tuned::TURN_MS;
use evenkeel_measure::report::format;

use crate::args::MirrorArgs;
use crate::failure::Failure;

/// Least memory for pages.
const CACHE_MIN_BYTES: u64 = 1 << 20;

/// Least rate of a rebuild or a scrub: at less it does not end.
const RATE_MIN_BYTES_PER_S: f64 = 65_536.0;

/// That nothing was typed with which no volume could be served well, such as milliseconds for seconds.
pub(super) fn check_values(mirror: &MirrorArgs, cache_bytes: Option<u64>) -> Result<(), Failure> {
    let &MirrorArgs { turn, rest, rest_max, answer_max, rebuild_rate, scrub_rate, .. } = mirror;
    let refused = |what: &str, why: &str| Err(Failure::Unusable(format!("{what}: {why}")));
    let within = |name: &str, value_s: f64, least_s: f64, most_s: f64| match value_s {
        _ if value_s < least_s => refused(
            &format!("{name} {}", format::seconds(value_s)),
            &format!("choose {} at least", format::seconds(least_s)),
        ),
        _ if value_s > most_s => refused(
            &format!("{name} {}", format::duration(value_s)),
            &format!("choose {} at most", format::duration(most_s)),
        ),
        _ => Ok(()),
    };
    let [least_s, most_s] = [TURN_MS.start(), TURN_MS.end()].map(|&ms| ms as f64 / 1e3);
    turn.map_or(Ok(()), |turn_s| within("--turn", turn_s, least_s, most_s))?;
    within("--rest-max", rest_max, 0.0, 60.0)?;
    // What fails for being late is lost until it is rebuilt: a busy drive is not that.
    within("--answer-max", answer_max, 0.1, 3600.0)?;
    within("--scrub-every", mirror.scrub_every.0.unwrap_or(1.0), 1.0, f64::INFINITY)?;
    if rest > rest_max {
        let (rest, rest_max) = (format::seconds(rest), format::seconds(rest_max));
        return refused(
            &format!("--rest {rest}"),
            &format!(
                "it is longer than --rest-max, {rest_max}, after which a member is read anyway; choose less, or more for that"
            ),
        );
    }
    for (name, rate) in [("--rebuild-rate", rebuild_rate), ("--scrub-rate", scrub_rate)] {
        if rate < RATE_MIN_BYTES_PER_S {
            return refused(
                &format!("{name} {rate} bytes in a second"),
                "choose 64KiB/s at least, such as 64MiB/s",
            );
        }
    }
    if let Some(bytes) = cache_bytes.filter(|&bytes| bytes < CACHE_MIN_BYTES) {
        return refused(&format!("--cache {bytes}"), "choose 1m at least, such as 64m");
    }
    let memory_bytes = Machine::this().memory_bytes;
    if let Some(cache) = cache_bytes.filter(|&cache| memory_bytes > 0 && cache > memory_bytes) {
        return refused(
            &format!("--cache {}", format::bytes_f64(cache as f64)),
            &format!(
                "this machine has {} of memory; choose less, such as 64m",
                format::bytes_f64(memory_bytes as f64)
            ),
        );
    }
    Ok(())
}
