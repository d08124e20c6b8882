//! The devices that a trace names.

use std::collections::HashMap;

/// Devices that a trace may name.
pub const DEVICES_MAX: usize = 4096;

/// A device, by the order in which the trace first named it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct DeviceId(pub u32);

impl DeviceId {
    /// As a place in a list.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Names of devices, in the order in which they were first named.
#[derive(Debug, Clone, Default)]
pub struct Devices {
    names: Vec<String>,
    known: HashMap<String, DeviceId>,
    /// The device of the access before: often the next one's too.
    last: DeviceId,
}

impl Devices {
    /// The names.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The device of that name, new or known.
    pub(super) fn named(&mut self, name: &str) -> Result<DeviceId, String> {
        if self.names.get(self.last.index()).is_some_and(|last| last == name) {
            return Ok(self.last);
        }
        self.last = match self.known.get(name) {
            Some(&known) => known,
            None if name.is_empty() => return Err("the device has no name".to_owned()),
            None if self.names.len() == DEVICES_MAX => {
                return Err(format!("more than {DEVICES_MAX} devices; this is no block trace"));
            }
            None => {
                let new = DeviceId(self.names.len() as u32);
                self.names.push(name.to_owned());
                self.known.insert(name.to_owned(), new);
                new
            }
        };
        Ok(self.last)
    }
}
