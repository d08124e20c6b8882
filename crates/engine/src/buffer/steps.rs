//! How much work the buffer did, for tests: they count it, where a clock would tell of the machine.

/// Entries of lists and pieces of units that were looked at.
#[derive(Default)]
pub(super) struct Steps {
    #[cfg(test)]
    so_far: std::cell::Cell<u64>,
}

#[cfg(test)]
impl Steps {
    /// Counts some more.
    pub(super) fn add(&self, steps: usize) {
        self.so_far.set(self.so_far.get() + steps as u64);
    }

    /// All of them.
    pub(super) fn so_far(&self) -> u64 {
        self.so_far.get()
    }
}

#[cfg(not(test))]
impl Steps {
    /// Nobody asks.
    #[allow(clippy::unused_self, reason = "nothing is counted")]
    pub(super) fn add(&self, _: usize) {}
}
