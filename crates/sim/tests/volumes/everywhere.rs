//! A story that is cut, or killed, at each of its events.

use crate::machine::{Machine, Run, WHOLE_RUN};
use evenkeel_engine::volume::check;
use evenkeel_sim::cuts::{CutKind, CutPlan};

/// Cuts and kills the story at each of its events, three times with chance of its own, and hands what the volume holds then to
/// `judge`, with where that was. Whatever is found, nothing is damaged.
pub(crate) fn cut_everywhere<F: Future<Output = ()>>(
    machine: &Machine,
    story: impl Fn(Run) -> F,
    mut judge: impl FnMut(&[u8], &str),
) {
    let (ended, events) = machine.fork(1).run(WHOLE_RUN, &story);
    ended.unwrap();
    for at in 0..events {
        for kind in [CutKind::PowerCut, CutKind::Kill] {
            let mut ended = machine.fork(1);
            assert!(ended.run(CutPlan { at_event: Some(at), kind }, &story).0.is_err());
            for chance in 0..3 {
                let mut machine = ended.fork(chance);
                machine.strike(kind);
                let what = format!("{kind:?} at event {at} of {events}, chance {chance}");
                judge(&machine.contents(), &what);
                machine.run_whole(async |run| {
                    let volume = run.open().await.unwrap();
                    volume.checkpoint().await.unwrap();
                    assert!(check(&volume).await.unwrap().is_clean(), "{what}");
                });
            }
        }
    }
}
