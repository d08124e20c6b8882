//! Discards and zeroings of long ranges: a few bytes on the wire, and long work.
//!
//! 1. A connection has [`UNDER_WAY_MAX`] of them under way; further ones wait, in the order of coming.
//! 2. One that waits while its client goes is not begun: nobody is owed its answer, and the server's stop does not wait
//!    for the work.

use std::cell::Cell;

use crate::nbd::proto::command;
use crate::nbd::proto::transmission::Request;
use crate::wait::Notify;

/// From so many bytes on a change is a long one.
const LONG_BYTES: u64 = 1 << 20;

/// Long changes of one connection at a time.
const UNDER_WAY_MAX: u32 = 4;

/// The long changes of one connection.
#[derive(Debug, Default)]
pub(super) struct LongChanges {
    under_way: Cell<u32>,
    changed: Notify,
}

/// A long change under way, until this is dropped; or another request, which counts for nothing.
pub(super) struct UnderWay<'a>(Option<&'a LongChanges>);

impl LongChanges {
    /// Waits until `request` may be begun, if it is a long change; `None` once `is_gone` says that its client went.
    pub(super) async fn begin(&self, request: &Request, is_gone: impl Fn() -> bool) -> Option<UnderWay<'_>> {
        let is_change = matches!(request.command, command::TRIM | command::WRITE_ZEROES);
        if !is_change || request.len < LONG_BYTES {
            return Some(UnderWay(None));
        }
        self.changed
            .until(|| match self.under_way.get() {
                _ if is_gone() => Some(None),
                UNDER_WAY_MAX.. => None,
                under_way => {
                    self.under_way.set(under_way + 1);
                    Some(Some(UnderWay(Some(self))))
                }
            })
            .await
    }

    /// The client went: those that wait are to look.
    pub(super) fn client_gone(&self) {
        self.changed.all();
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(changes) = self.0 {
            changes.under_way.set(changes.under_way.get() - 1);
            changes.changed.all();
        }
    }
}
