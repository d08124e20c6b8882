//! Where a probe stands.

/// Where a probe stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// What is being done.
    pub stage: Stage,
    /// Runs made in this stage.
    pub done: u32,
    /// Runs expected in this stage.
    pub expected: u32,
    /// Seconds left, by the pilot's estimate and the pace since.
    pub left_s: f64,
    /// The buffer being written.
    pub buffer_bytes: u64,
}

/// Parts of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// A short look at every point.
    Pilot,
    /// The runs that count.
    Rounds,
    /// Disturbed runs again.
    Repeats,
    /// Until the next session begins.
    Pause,
    /// One size for hours: seconds take the place of runs.
    Soak,
}

/// Somebody who wants to know where a probe stands.
pub trait Observer {
    /// A run is about to begin.
    fn progress(&mut self, progress: Progress);
}
