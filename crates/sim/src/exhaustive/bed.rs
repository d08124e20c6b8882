//! What a small volume lies on, and which of it a cut may take along.

use std::collections::BTreeSet;
use std::rc::Rc;

use evenkeel_engine::error::Error;
use evenkeel_engine::layout::{JournalStore, PageStore};
use evenkeel_engine::options::{CreateOptions, OpenOptions};
use evenkeel_engine::volume::Volume;

use super::lives::Machine;
use crate::arena::SimArena;
use crate::drive::SimDrive;
use crate::executor::SimEnv;
use crate::image::Image;
use crate::oracle::Violation;

/// The volume on the drives of a bed.
pub(super) type VolumeOn<B> = Volume<SimEnv, SimArena, <B as Bed>::Home, <B as Bed>::Log>;

/// Drives between two lives, or at a moment of one.
#[derive(Clone)]
pub(super) struct Drives {
    pub(super) images: Vec<Image>,
    /// Which of them have everything: of each kind, any of these is enough.
    pub(super) have_all: Vec<bool>,
    /// Whether one was taken away for good that may have held what no other does.
    pub(super) may_lack: bool,
}

/// Some drives and how a volume comes to lie on them.
pub(super) trait Bed: Clone + 'static {
    /// Where the pages are.
    type Home: PageStore;
    /// Where the log is.
    type Log: JournalStore;
    /// What tells of the drives while the volume is open.
    type Parts: Clone + 'static;

    /// Whether drives stand in for each other, so that some may be lost.
    const IS_REDUNDANT: bool;

    /// Bytes of each drive.
    fn drive_bytes(&self, create: &CreateOptions) -> Vec<u64>;

    /// What a drive is called.
    fn name(&self, drive: usize) -> String;

    /// Drives of one kind, which stand in for each other, have one number.
    fn kind(&self, drive: usize) -> usize;

    /// Of so many kinds none that remains may have everything: the volume then knows it by those of the others.
    fn kinds_without_max(&self) -> usize;

    /// Whether the system keeps what it reads of this drive in memory.
    fn is_cached(&self, drive: usize) -> bool;

    /// Makes a volume.
    async fn create(
        &self,
        env: SimEnv,
        drives: Vec<Option<SimDrive>>,
        options: CreateOptions,
        number: u64,
    ) -> Result<(), Error>;

    /// Opens it; `None` is a drive that is not there.
    async fn open(
        &self,
        env: SimEnv,
        arena: SimArena,
        drives: Vec<Option<SimDrive>>,
        options: OpenOptions,
    ) -> Result<(VolumeOn<Self>, Self::Parts), Error>;

    /// Which drives have everything, as an open volume has it.
    fn have_all(&self, parts: &Self::Parts) -> Vec<bool>;

    /// Whether the volume may refuse to open, with all that there is or with a part of it.
    fn may_refuse(&self, drives: &Drives, there: &[bool]) -> bool;

    /// Which drives are there in the life before the one whose crashes are tried, if there must be one.
    fn there_before(&self) -> Option<Vec<bool>>;

    /// Which are there in that one.
    fn there(&self) -> Vec<bool>;

    /// What happens to the drives while clients work.
    async fn go_on(machine: Rc<Machine<Self>>);

    /// Waits until every drive that can has everything, and looks at all of them.
    async fn settle(machine: &Machine<Self>, volume: &VolumeOn<Self>) -> Result<(), Violation>;
}

/// Every choice of drives that may be there, all of them first: some of each kind, and of each kind but one at most one that
/// has everything.
pub(super) fn choices<B: Bed>(bed: &B, have_all: &[bool]) -> Vec<Vec<bool>> {
    let drives = have_all.len();
    if !B::IS_REDUNDANT {
        return vec![vec![true; drives]];
    }
    let choice = |lost: u32| -> Vec<bool> { (0..drives).map(|drive| lost >> drive & 1 == 0).collect() };
    let is_some_of_each = |there: &Vec<bool>| {
        let is_there = |kind: usize| (0..drives).any(|drive| bed.kind(drive) == kind && there[drive]);
        (0..drives).all(|drive| is_there(bed.kind(drive)))
    };
    let is_tried = |there: &Vec<bool>| {
        is_some_of_each(there) && kinds_without(bed, have_all, there) <= bed.kinds_without_max()
    };
    (0..1 << drives).map(choice).filter(is_tried).collect()
}

/// Kinds of which none that is there has everything.
pub(super) fn kinds_without<B: Bed>(bed: &B, have_all: &[bool], there: &[bool]) -> usize {
    let drives = 0..have_all.len();
    let with: BTreeSet<usize> = drives
        .clone()
        .filter(|&drive| there[drive] && have_all[drive])
        .map(|drive| bed.kind(drive))
        .collect();
    let kinds: BTreeSet<usize> = drives.map(|drive| bed.kind(drive)).collect();
    kinds.difference(&with).count()
}
