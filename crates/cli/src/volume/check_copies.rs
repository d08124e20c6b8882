//! What `evenkeel check` looks at in a mirror: every copy of every page, and who takes part.

use std::path::Path;

use evenkeel_engine::env::Env;
use evenkeel_engine::error::Error;
use evenkeel_engine::layout::mirror::log_devices::LogDeviceState;
use evenkeel_engine::ring::MemberState;
use evenkeel_engine::volume::{CheckReport, ScrubMode, check};
use evenkeel_host::event_loop::Loop;
use evenkeel_host::volume::OpenVolume;
use evenkeel_host::volume::member::Place;
use evenkeel_host::volume::mirror::Mirror;
use evenkeel_measure::report::format;

use serde_json::{Value, json};

use super::quoted;
use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::stdout::shown;

/// How often a rebuild that is waited for is looked at.
const LOOK_NS: u64 = 50_000_000;

/// How often what was repaired is looked for once more: it is written in its member's turn.
const LOOKS: usize = 3;

/// What was found.
pub(super) struct Looked {
    /// Of the volume.
    pub(super) report: CheckReport,
    /// Of its copies, where it has several.
    pub(super) copies: Option<Copies>,
}

/// What was found of the copies of a mirror.
pub(super) struct Copies {
    checked: u64,
    wrong: u64,
    repaired: u64,
    /// Members with wrong copies, and how many.
    wrong_on: Vec<(String, u64)>,
    lacking: Vec<Lacking>,
}

/// A member or log device that does not hold everything.
struct Lacking {
    place: String,
    why: String,
    /// Whether it is made whole without anybody's doing.
    is_rebuilt: bool,
}

/// Reads all of a volume; of a mirror every copy, and repairs them where that is wanted.
pub(super) async fn look(event_loop: &Loop, open: &OpenVolume, repair: bool) -> Result<Looked, Error> {
    let Some(mirror) = open.mirror() else {
        return Ok(Looked { report: check(&open.volume).await?, copies: None });
    };
    if repair {
        while is_rebuilding(mirror) {
            event_loop.sleep(LOOK_NS).await;
        }
    }
    let mode = if repair { ScrubMode::Repair } else { ScrubMode::ReadOnly };
    let first = open.volume.scrub(mode, u64::MAX).await?;
    let mut last = first.clone();
    for _ in 0..LOOKS {
        if !repair || last.wrong_copies == 0 {
            break;
        }
        event_loop.sleep(LOOK_NS).await;
        last = open.volume.scrub(mode, u64::MAX).await?;
    }
    // Which of the copies it happens to read says nothing that was not said by now.
    let mut report = check(&open.volume).await?;
    if !last.names_some() {
        report.damaged_pages.clone_from(&last.damaged_pages);
    }
    report.damaged_table_pages.clone_from(&last.damaged_table_pages);
    let copies = Copies {
        checked: first.copies_checked,
        wrong: first.wrong_copies,
        repaired: first.wrong_copies.saturating_sub(last.wrong_copies),
        wrong_on: wrong_on(mirror, &first.wrong_by_copy),
        lacking: lacking(mirror),
    };
    Ok(Looked { report, copies: Some(copies) })
}

fn wrong_on(mirror: &Mirror, wrong: &[u64]) -> Vec<(String, u64)> {
    if mirror.options().stripes.is_some() {
        // There it is a way to compute a page that is wrong, and any of several members may be why.
        return Vec::new();
    }
    let members = mirror.members();
    let named = members.iter().zip(wrong).filter(|(_, wrong)| **wrong > 0);
    named.map(|(member, &wrong)| (member.place.to_string(), wrong)).collect()
}

fn is_rebuilding(mirror: &Mirror) -> bool {
    mirror.ring.members().iter().any(|member| matches!(member.state, MemberState::Rebuilding { .. }))
}

fn lacking(mirror: &Mirror) -> Vec<Lacking> {
    let left_out = |place: &Place, why: Option<String>| Lacking {
        place: place.to_string(),
        why: why.unwrap_or_else(|| "not known why".to_owned()),
        is_rebuilt: false,
    };
    let members = mirror.members().into_iter().filter_map(|member| match member.status.state {
        MemberState::InSync => None,
        MemberState::Rebuilding { .. } => {
            let why = "it lacks writes".to_owned();
            Some(Lacking { place: member.place.to_string(), why, is_rebuilt: true })
        }
        _ => Some(left_out(&member.place, member.why)),
    });
    let logs = mirror.log_devices().into_iter().filter(|log| log.state != LogDeviceState::InSync);
    members.chain(logs.map(|log| left_out(&log.place, log.why))).collect()
}

impl Copies {
    /// What was found, in words.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "  and {} copies of pages on the members, {} wrong, {} repaired\n",
            format::count(self.checked),
            format::count(self.wrong),
            format::count(self.repaired)
        );
        for (place, wrong) in &self.wrong_on {
            text.push_str(&format!("  wrong on {}: {}\n", shown(place), format::count(*wrong)));
        }
        for Lacking { place, why, .. } in &self.lacking {
            text.push_str(&format!("  without {}: {}\n", shown(place), shown(why)));
        }
        text
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let wrong = |(place, copies): &(String, u64)| json!({ "path": place, "copies": copies });
        let lacking = |it: &Lacking| json!({ "path": it.place, "why": it.why, "is_rebuilt": it.is_rebuilt });
        json!({
            "checked": self.checked,
            "wrong": self.wrong,
            "mended": self.repaired,
            "wrong_on": self.wrong_on.iter().map(wrong).collect::<Vec<_>>(),
            "missing": self.lacking.iter().map(lacking).collect::<Vec<_>>(),
        })
    }

    /// Whether each is right, or was made so, and there.
    pub(super) fn are_right(&self) -> bool {
        self.wrong <= self.repaired && self.lacking.is_empty()
    }

    /// As [`Self::are_right`], and what to do where they are not.
    pub(super) fn verdict(&self, args: &CheckArgs) -> Result<(), Failure> {
        let (shown, vol) = (args.volume.display(), quoted(&args.volume));
        if self.wrong > self.repaired {
            let left = format::count(self.wrong - self.repaired);
            return Err(Failure::No(match args.repair {
                true => format!(
                    "{shown}: {left} copies could not be repaired: look after the drives, and replace that which fails"
                ),
                false => format!(
                    "{shown}: {left} copies are wrong while another is right; repair them: evenkeel check {vol} --repair"
                ),
            }));
        }
        match self.lacking.first() {
            None => Ok(()),
            Some(Lacking { place, why, is_rebuilt: true }) => Err(Failure::No(format!(
                "{shown}: without {place} ({why}); it is rebuilt while the volume is served"
            ))),
            Some(Lacking { place, why, is_rebuilt: false }) => Err(Failure::No(format!(
                "{shown}: without {place} ({why}); put another in its place: evenkeel replace {vol} {} NEW",
                quoted(Path::new(place))
            ))),
        }
    }
}
