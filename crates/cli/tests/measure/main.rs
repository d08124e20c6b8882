//! Commands that measure: probes, replays, drives, studies, reproduction, the simulator, and tuning.

mod advice;
mod compare;
mod drive;
mod drive_file_systems;
mod goals;
mod page;
mod probe;
mod probe_leftovers;
mod replay;
mod reproduce;
mod results;
mod sim;
mod study;
mod study_report;
mod study_shared;
mod tune;
mod ways;

#[path = "../support/mod.rs"]
mod support;

#[path = "../../../measure/src/study/made_up.rs"]
#[expect(unreachable_pub, reason = "the library's tests include it too")]
mod made_up;
