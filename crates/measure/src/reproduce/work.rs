//! The points of all figures, side by side on the processors that there are.
//!
//! 1. However many figures run, no more points are under way at once than were allowed.
//! 2. Results come in the order of what they were asked for, whatever finished first.
//! 3. Once a stop is asked for, no point begins.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use super::machine::Measuring;

/// Why a figure has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Halted {
    /// The caller asked to stop.
    Stopped,
    /// It needs what is not here; why.
    Unavailable(String),
}

impl fmt::Display for Halted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => out.write_str("stopped"),
            Self::Unavailable(reason) => out.write_str(reason),
        }
    }
}

impl std::error::Error for Halted {}

/// Who is told how far the work is, and may end it. Called from several threads.
pub trait Observer: Sync {
    /// So many points more are to be run.
    fn planned(&self, points: usize);

    /// A point is done.
    fn done(&self);

    /// Whether to stop.
    fn is_stopped(&self) -> bool;
}

/// An observer that is told nothing and never stops.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn planned(&self, _points: usize) {}

    fn done(&self) {}

    fn is_stopped(&self) -> bool {
        false
    }
}

/// Runs points.
pub struct Work<'a> {
    observer: &'a dyn Observer,
    measuring: Measuring<'a>,
    traces: Option<&'a Path>,
    at_once: usize,
    free: Mutex<usize>,
    freed: Condvar,
}

impl fmt::Debug for Work<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Work").field("at_once", &self.at_once).finish_non_exhaustive()
    }
}

/// So many of the points that may be under way at once.
struct Places<'a, 'o>(&'a Work<'o>, usize);

impl Drop for Places<'_, '_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += self.1;
        self.0.freed.notify_all();
    }
}

impl<'a> Work<'a> {
    /// Up to `at_once` points under way at once, at least one.
    pub fn new(at_once: usize, observer: &'a dyn Observer) -> Self {
        let at_once = at_once.max(1);
        let (free, freed) = (Mutex::new(at_once), Condvar::new());
        Self { observer, measuring: Measuring::NotAsked, traces: None, at_once, free, freed }
    }

    /// With what figures need that measure.
    #[must_use]
    pub fn measuring_on(self, measuring: Measuring<'a>) -> Self {
        Self { measuring, ..self }
    }

    /// Whether figures may measure.
    pub fn measuring(&self) -> Measuring<'a> {
        self.measuring
    }

    /// With a folder of traces.
    #[must_use]
    pub fn with_traces(self, traces: Option<&'a Path>) -> Self {
        Self { traces, ..self }
    }

    /// Where traces are, if anywhere.
    pub fn traces(&self) -> Option<&'a Path> {
        self.traces
    }

    /// Whether to stop: for points that take long, to ask now and then and answer [`Halted::Stopped`].
    pub fn is_stopped(&self) -> bool {
        self.observer.is_stopped()
    }

    /// `run` for each of `points`; the results in their order.
    ///
    /// # Errors
    ///
    /// [`Halted::Stopped`] where a stop was asked for, else the first error of a point.
    pub fn each<P: Sync, R: Send>(
        &self,
        points: &[P],
        run: impl Fn(&P) -> Result<R, Halted> + Sync,
    ) -> Result<Vec<R>, Halted> {
        self.observer.planned(points.len());
        let next = AtomicUsize::new(0);
        let results: Mutex<Vec<Option<Result<R, Halted>>>> =
            Mutex::new(points.iter().map(|_| None).collect());
        std::thread::scope(|scope| {
            let work = || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(point) = points.get(number) else { return };
                    let result = self.in_places(1, || run(point));
                    let is_halted = result.is_err();
                    results.lock().unwrap_or_else(PoisonError::into_inner)[number] = Some(result);
                    if is_halted {
                        next.store(points.len(), Ordering::Relaxed);
                    }
                }
            };
            // A point's panic ends the scope with it.
            for _ in 0..self.at_once.min(points.len()) {
                scope.spawn(work);
            }
        });
        let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        let first_error = results.iter().flatten().find_map(|result| result.as_ref().err().cloned());
        match first_error {
            Some(error) => Err(error),
            None => results.into_iter().map(|result| result.unwrap_or(Err(Halted::Stopped))).collect(),
        }
    }

    /// `run` for each of `points`, one after another and nothing beside them: for what is measured in real time.
    ///
    /// # Errors
    ///
    /// As [`Self::each`].
    pub fn each_alone<P, R>(
        &self,
        points: &[P],
        run: impl Fn(&P) -> Result<R, Halted>,
    ) -> Result<Vec<R>, Halted> {
        self.observer.planned(points.len());
        points.iter().map(|point| self.in_places(self.at_once, || run(point))).collect()
    }

    /// Runs a point once so many places are free, which it takes.
    fn in_places<R>(&self, places: usize, run: impl FnOnce() -> Result<R, Halted>) -> Result<R, Halted> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while *free < places {
            free = self.freed.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= places;
        drop(free);
        let _places = Places(self, places);
        if self.observer.is_stopped() {
            return Err(Halted::Stopped);
        }
        let result = run();
        self.observer.done();
        result
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_points() {
        for at_once in [1, 2, 7] {
            let work = Work::new(at_once, &Silent);
            let points: Vec<u64> = (0..100).collect();
            assert_eq!(
                work.each(&points, |&point| Ok(point * 2)),
                Ok((0..100).map(|point| point * 2).collect())
            );
        }
    }

    #[test]
    fn no_more_points_are_under_way_than_were_allowed_over_all_figures() {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = Work::new(2, &Silent);
        let run = |_: &u64| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::yield_now();
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| work.each(&[0; 50], run));
            }
        });
        assert!(most.into_inner() <= 2);
    }

    #[test]
    fn what_runs_alone_has_nothing_beside_it() {
        let now = AtomicUsize::new(0);
        let work = Work::new(3, &Silent);
        let beside = |_: &u64| {
            now.fetch_add(1, Ordering::SeqCst);
            std::thread::yield_now();
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        };
        let alone = |&point: &u64| {
            assert_eq!(now.load(Ordering::SeqCst), 0);
            Ok(point)
        };
        std::thread::scope(|scope| {
            scope.spawn(|| work.each(&[0; 200], beside));
            scope.spawn(|| work.each(&[0; 200], beside));
            assert_eq!(work.each_alone(&[1, 2, 3], alone), Ok(vec![1, 2, 3]));
        });
    }

    #[test]
    fn after_a_stop_no_point_begins() {
        struct After(AtomicUsize, AtomicBool);
        impl Observer for After {
            fn planned(&self, _: usize) {}
            fn done(&self) {
                if self.0.fetch_add(1, Ordering::SeqCst) == 2 {
                    self.1.store(true, Ordering::SeqCst);
                }
            }
            fn is_stopped(&self) -> bool {
                self.1.load(Ordering::SeqCst)
            }
        }
        let observer = After(AtomicUsize::new(0), AtomicBool::new(false));
        let work = Work::new(1, &observer);
        assert_eq!(work.each(&[0; 50], |_| Ok(())), Err(Halted::Stopped));
        assert_eq!(observer.0.into_inner(), 3);
    }

    #[test]
    fn a_point_that_cannot_be_run_says_why() {
        let work = Work::new(2, &Silent);
        let run =
            |&point: &u64| if point == 3 { Err(Halted::Unavailable("no disk".to_owned())) } else { Ok(()) };
        assert_eq!(work.each(&[1, 2, 3, 4], run), Err(Halted::Unavailable("no disk".to_owned())));
    }
}
