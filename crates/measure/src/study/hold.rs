//! Steps on a device that somebody else may hold for a moment.
//!
//! A mount namespace that is made while a file system is mounted (a container that starts, a service with a private
//! `/tmp`) has a copy of that mount. The device stays in use after the unmount here, until the copy goes too.
//!
//! 1. A step is taken when nobody holds the device, and once more where it failed: one failure may be of the moment.
//! 2. A device that is held is waited for, up to a bound. Past it, that is a failure that may pass, and no property of the
//!    configuration.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::runner::StageError;
use crate::report::format;

/// How long a device that somebody holds is waited for.
const HELD_MAX: Duration = Duration::from_secs(60);
/// How long between two looks at it, or two tries.
const PAUSE: Duration = Duration::from_millis(500);
/// What programs say of a device that somebody holds, in the C locale.
const HELD_WORDS: [&str; 4] = ["resource busy", "in use", "already mounted", "is mounted"];

/// Who holds a device, and the time that passes.
pub(super) trait Holders {
    /// Fails with `ResourceBusy` while somebody else holds the device.
    fn check(&mut self) -> io::Result<()>;

    /// Lets time pass; answers whether the study is to stop.
    fn pause(&mut self, time: Duration) -> bool;
}

/// Takes a step when nobody else holds the device.
pub(super) fn when_free(
    holders: &mut dyn Holders,
    node: &Path,
    mut step: impl FnMut() -> Result<(), StageError>,
) -> Result<(), StageError> {
    let (mut waited, mut has_failed) = (Duration::ZERO, false);
    loop {
        let why = match is_held(holders, node)? {
            true => "it is in use by another program or mount namespace".to_owned(),
            false => match step() {
                Err(StageError::Unmountable(why)) => {
                    // Somebody may have come between the look and the step.
                    let was_held = HELD_WORDS.iter().any(|words| why.contains(words));
                    if has_failed && !was_held && !is_held(holders, node)? {
                        return Err(StageError::Unmountable(why));
                    }
                    has_failed |= !was_held;
                    why
                }
                ended => return ended,
            },
        };
        if waited >= HELD_MAX {
            let (node, time) = (node.display(), format::duration(waited.as_secs_f64()));
            return Err(StageError::Passing(format!("{node}: waited {time} for it: {why}")));
        }
        if holders.pause(PAUSE) {
            return Err(StageError::Interrupted);
        }
        waited += PAUSE;
    }
}

fn is_held(holders: &mut dyn Holders, node: &Path) -> Result<bool, StageError> {
    match holders.check() {
        Ok(()) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(true),
        Err(error) => Err(StageError::Fatal(format!("{}: unusable: {error}", node.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that is held until some moment, in a time of its own.
    #[derive(Default)]
    struct Device {
        now: Duration,
        held_until: Duration,
        /// Whoever looks is not told.
        is_secret: bool,
        stops_at: Option<Duration>,
    }

    impl Device {
        fn is_held(&self) -> bool {
            self.now < self.held_until
        }

        /// As mkfs refuses a device that is in use.
        fn mkfs(&self, is_sound: bool) -> Result<(), StageError> {
            match (self.is_held(), is_sound) {
                (true, _) => {
                    Err(unmountable("mkfs.xfs failed: cannot open /dev/loop0: Device or resource busy"))
                }
                (false, false) => Err(unmountable("mkfs.xfs failed: Invalid value 1k for -i size option")),
                (false, true) => Ok(()),
            }
        }
    }

    fn unmountable(why: &str) -> StageError {
        StageError::Unmountable(why.to_owned())
    }

    struct Shared<'a>(&'a std::cell::RefCell<Device>);

    impl Holders for Shared<'_> {
        fn check(&mut self) -> io::Result<()> {
            let device = self.0.borrow();
            match device.is_held() && !device.is_secret {
                true => Err(io::ErrorKind::ResourceBusy.into()),
                false => Ok(()),
            }
        }

        fn pause(&mut self, time: Duration) -> bool {
            let mut device = self.0.borrow_mut();
            device.now += time;
            device.stops_at.is_some_and(|stops_at| device.now >= stops_at)
        }
    }

    /// What comes of mkfs on it, and how often that was tried.
    fn made(device: Device, is_sound: bool) -> (Result<(), StageError>, u32) {
        let (device, mut tries) = (std::cell::RefCell::new(device), 0);
        let ended = when_free(&mut Shared(&device), Path::new("/dev/loop0"), || {
            tries += 1;
            device.borrow().mkfs(is_sound)
        });
        (ended, tries)
    }

    #[test]
    fn a_device_that_is_held_for_a_moment_is_waited_for() {
        let held_until = Duration::from_secs(5);
        assert_eq!(made(Device { held_until, ..Device::default() }, true), (Ok(()), 1));
        // Held anew between each look and the step.
        let (ended, tries) = made(Device { held_until, is_secret: true, ..Device::default() }, true);
        assert_eq!(ended, Ok(()));
        assert!(tries > 2, "{tries}");
    }

    #[test]
    fn a_device_that_stays_held_is_a_failure_that_may_pass() {
        for is_secret in [false, true] {
            let held_until = Duration::from_secs(3600);
            let (ended, _) = made(Device { held_until, is_secret, ..Device::default() }, true);
            let Err(StageError::Passing(why)) = ended else { panic!("{ended:?}") };
            assert!(why.starts_with("/dev/loop0: waited 1 min 0 s for it: "), "{why}");
        }
        let stops_at = Some(Duration::from_secs(2));
        let held_until = Duration::from_secs(3600);
        let (ended, _) = made(Device { held_until, stops_at, ..Device::default() }, true);
        assert_eq!(ended, Err(StageError::Interrupted));
    }

    #[test]
    fn what_fails_twice_on_a_free_device_is_the_configuration_s() {
        let (ended, tries) = made(Device::default(), false);
        assert_eq!(ended, Err(unmountable("mkfs.xfs failed: Invalid value 1k for -i size option")));
        assert_eq!(tries, 2);
        // It was in use at first, and that does not count.
        let held_until = Duration::from_secs(5);
        let (ended, tries) = made(Device { held_until, is_secret: true, ..Device::default() }, false);
        assert!(matches!(ended, Err(StageError::Unmountable(why)) if why.contains("Invalid value")));
        assert_eq!(tries, 12);
    }
}
