//! Volumes that are made small and grow while their clients work.
//!
//! At any moment a volume has the size that was acknowledged last, or the one that is being tried. Once an opening has
//! served one of them it stays.

use std::cell::Cell;
use std::rc::Rc;

use evenkeel_engine::env::Env;
use evenkeel_engine::error::Error;
use evenkeel_engine::format::PAGE_BYTES;

use crate::oracle::Violation;
use crate::places::Places;
use crate::random::Random;
use crate::testbed::Testbed;
use crate::workload::{Habits, Workload};

/// How a volume grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Growths {
    /// Bytes that it has at first.
    pub first_bytes: u64,
    /// How often it grows.
    pub count: u64,
    /// Whether what its drives grow by holds what somebody left there.
    pub into_noise: bool,
}

impl Growths {
    /// A volume with some of its clients' places, and a stripe for each client, which gets the others as it grows; `None`
    /// where there are not enough.
    pub(crate) fn draw(habits: &Habits, random: &mut Random) -> Option<Self> {
        let least = habits.stripe_bytes * (habits.clients - 1) / PAGE_BYTES + 1;
        let all = habits.places.pages() as u64;
        if least >= all {
            return None;
        }
        let pages = least + random.below(all - least);
        let count = (1 + random.below(3)).min(all - pages);
        Some(Self { count, into_noise: random.coin(), first_bytes: size_with(habits.places, pages) })
    }

    /// The sizes that the volume has, one after the other.
    pub fn sizes(&self, places: Places) -> Vec<u64> {
        let (first, all) = (places.within(self.first_bytes).pages() as u64, places.pages() as u64);
        let between =
            (1..=self.count).map(|growth| size_with(places, first + (all - first) * growth / self.count));
        std::iter::once(self.first_bytes).chain(between).collect()
    }
}

/// Bytes of a volume with so many of the known pages.
fn size_with(places: Places, known_pages: u64) -> u64 {
    (places.page_on_volume(known_pages as usize - 1) + 1) * PAGE_BYTES
}

/// The size of a volume, as far as is known. A clone is another handle to the same.
#[derive(Debug, Clone)]
pub(crate) struct KnownSize(Rc<Known>);

#[derive(Debug)]
struct Known {
    sizes: Vec<u64>,
    /// Which of them it has at least, and at most.
    acknowledged: Cell<usize>,
    tried: Cell<usize>,
}

impl KnownSize {
    /// Of a new volume that is to have these sizes.
    pub(crate) fn new(sizes: Vec<u64>) -> Self {
        Self(Rc::new(Known { sizes, acknowledged: Cell::default(), tried: Cell::default() }))
    }

    /// How often it has grown.
    pub(crate) fn growths(&self) -> usize {
        self.0.acknowledged.get()
    }

    /// The sizes that it had, up to that which it has at least.
    pub(crate) fn so_far(&self) -> &[u64] {
        &self.0.sizes[..=self.0.acknowledged.get()]
    }

    /// Which of the sizes a volume of `size_bytes` has.
    ///
    /// # Errors
    ///
    /// That it may not have it.
    pub(crate) fn judge(&self, size_bytes: u64) -> Result<usize, Violation> {
        let Known { sizes, acknowledged, tried } = &*self.0;
        let may_be = acknowledged.get()..=tried.get();
        may_be.clone().find(|&number| sizes[number] == size_bytes).ok_or_else(|| {
            Violation::of(format!("it has {size_bytes} bytes, which is none of {:?}", &sizes[may_be]))
        })
    }

    /// The volume was opened, and has `size_bytes`.
    ///
    /// # Errors
    ///
    /// As [`Self::judge`].
    pub(crate) fn found(&self, size_bytes: u64) -> Result<(), Violation> {
        let found = self.judge(size_bytes)?;
        self.0.acknowledged.set(found);
        self.0.tried.set(found);
        Ok(())
    }
}

/// Makes a volume grow while its clients work.
pub(crate) struct Grower {
    pub(crate) known: KnownSize,
    /// How likely each step is; 0 where it does not grow.
    pub(crate) share: f64,
    pub(crate) random: Random,
}

impl Grower {
    /// `make_room` gives the drives room for so many bytes of a home device, and `judge_refusal` says whether that may
    /// have been refused.
    pub(crate) async fn grow<T: Testbed>(
        mut self,
        workload: &Workload<T>,
        make_room: impl Fn(u64, &mut Random),
        judge_refusal: impl Fn(&Error) -> Result<(), Violation>,
    ) {
        let known = Rc::clone(&self.known.0);
        while known.acknowledged.get() + 1 < known.sizes.len() && self.random.chance(self.share) {
            let most_ns = 1 << self.random.below(24);
            workload.env.sleep(self.random.below(most_ns)).await;
            let next = known.acknowledged.get() + 1;
            let grown = async {
                let needed_bytes = workload.volume.now().plan_growth(known.sizes[next])?.home_bytes;
                make_room(needed_bytes, &mut self.random);
                known.tried.set(next);
                workload.volume.now().grow(known.sizes[next]).await
            };
            let grown = grown.await;
            if workload.env.is_stopped() {
                return;
            }
            let judged = match grown {
                Ok(()) => {
                    known.acknowledged.set(next);
                    Ok(())
                }
                Err(error) => {
                    known.tried.set(known.acknowledged.get());
                    judge_refusal(&error).and_then(|()| self.known.found(workload.volume.now().size_bytes()))
                }
            };
            if let Err(violation) = judged {
                workload.violation.borrow_mut().get_or_insert(violation);
                return;
            }
        }
    }
}
