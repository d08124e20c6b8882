//! What lies below a volume: one drive, or several behind which each byte has copies.

use evenkeel_engine::either::Either;
use evenkeel_engine::mirror_log::MirrorLog;
use evenkeel_engine::ring::Ring;

use super::member::MemberDrive;
use super::mirror::MirrorDrive;
use crate::event_loop::Loop;

/// The ring of a mirror's members.
pub type MemberRing = Ring<Loop, MirrorDrive>;

/// The log of a mirror: on devices of its own, or on the members.
pub type LogDevices = MirrorLog<Loop, MirrorDrive, MirrorDrive>;

/// Where a volume's pages are.
pub type HomeDevice = Either<MemberDrive, MemberRing>;

/// Where its log is.
pub type LogDevice = Either<MemberDrive, LogDevices>;
