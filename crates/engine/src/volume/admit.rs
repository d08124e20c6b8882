//! Writes are let in, one after another, where the drives take long turns: as [`super::throttle`] says.

use super::Inner;
use super::throttle::{Answer, Demand, Entry};
use crate::buffer::queue::Lane;
use crate::counters::add;
use crate::device::Device;
use crate::env::{Arena, Env};
use crate::format::PAGE_BYTES;
use crate::join;

impl<E: Env, A: Arena, H: Device, L: Device> Inner<E, A, H, L> {
    /// A place for a write of so many bytes, which it keeps until all of it is buffered; `None` where nobody waits.
    pub(super) fn enter(&self, bytes: u64) -> Option<Entry<'_>> {
        let lane = Lane::for_bytes(bytes, self.options.tuning.small_max_bytes);
        self.home.device.state().is_some().then(|| self.throttle.enter(lane))
    }

    /// Waits until the next `bytes` of a write may come.
    pub(super) async fn let_in(&self, entry: Option<&Entry<'_>>, bytes: u64) {
        let Some(Entry { lane, place, has_waited }) = entry else { return };
        let came_ns = self.env.now_ns();
        place.first().await;
        let mut now_ns = self.env.now_ns();
        while self.log.failure().is_none() {
            let changes = self.throttle.changes();
            let until_ns = match self.throttle.ask(*lane, now_ns, self.demand(bytes)) {
                Answer::Now => break,
                Answer::At(until_ns) => until_ns,
                Answer::Later => u64::MAX,
            };
            let mut was_asked = false;
            let change = self.changed.until(|| {
                let is_over = self.throttle.changes() != changes || self.log.failure().is_some();
                let has_changed = is_over || (until_ns == u64::MAX && was_asked);
                was_asked = true;
                has_changed.then_some(())
            });
            match until_ns {
                u64::MAX => change.await,
                _ => drop(join::first(change, self.env.sleep(until_ns - now_ns)).await),
            }
            now_ns = self.env.now_ns();
        }
        if now_ns > came_ns {
            add(&self.counters.throttled_writes, u64::from(!has_waited.replace(true)));
            add(&self.counters.throttled_ns, now_ns - came_ns);
        }
    }

    fn demand(&self, bytes: u64) -> Demand {
        let queued = self.buffer.borrow().queued_bytes() as u64;
        let (dirty, uncovered) = (self.home.dirty_pages() as u64, self.home.uncovered_pages() as u64);
        let (dirty_max, images_max) =
            (self.limits.dirty_pages_max as u64, self.limits.image_pages_max as u64);
        let in_part = u64::from(!bytes.is_multiple_of(PAGE_BYTES));
        let kinds = [
            (self.log.used_bytes() + queued, self.limits.commit_used_max, bytes),
            (dirty + queued / PAGE_BYTES, dirty_max, bytes.div_ceil(PAGE_BYTES)),
            (uncovered, images_max, in_part),
        ];
        let nothing = Demand { fill: 0.0, bytes, part: 0.0, is_quiet: queued == 0 };
        kinds.into_iter().fold(nothing, |demand, (used, max, wanted)| Demand {
            fill: demand.fill.max(used as f64 / max.max(1) as f64),
            part: demand.part.max(wanted as f64 / max.saturating_sub(used) as f64),
            ..demand
        })
    }
}
