//! Tells the database again and again that this machine is alive, while its runs take their time.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use postgres::Client;

use super::Part;
use super::address::Address;
use crate::study::store::StoreError;

/// So often within a lease.
const BEATS: u32 = 4;

/// Goes on until it is dropped; then the machine counts as gone, and others may take what it leaves.
pub(super) struct Heartbeat {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeat {
    /// Starts it, over a connection of its own.
    pub(super) fn start(address: Address, part: Part, lease: Duration) -> Result<Self, StoreError> {
        let (stop, stopped) = mpsc::channel();
        let beats = move || {
            let mut client = None;
            while stopped.recv_timeout(lease / BEATS) == Err(RecvTimeoutError::Timeout) {
                // What cannot be told now is told the next time; a lease lasts several.
                let _a_later_one_may_come_through = beat(&mut client, &address, &part, lease);
            }
            let _the_lease_ends_by_itself = beat(&mut client, &address, &part, Duration::ZERO);
        };
        let thread = thread::Builder::new().name("heartbeat".to_owned()).spawn(beats);
        let thread = thread.map_err(|error| StoreError::Postgres(format!("no thread to be had: {error}")))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _a_panic_there_is_no_reason_for_one_here = thread.join();
        }
    }
}

fn beat(
    kept: &mut Option<Client>,
    address: &Address,
    part: &Part,
    lease: Duration,
) -> Result<(), StoreError> {
    let mut client = match kept.take() {
        Some(client) => client,
        None => address.connect()?,
    };
    let tell = "UPDATE machine SET alive_until = now() + make_interval(secs => $3)
                WHERE id = $1 AND session = $2";
    client.execute(tell, &[&part.machine, &part.session, &lease.as_secs_f64()])?;
    *kept = Some(client);
    Ok(())
}
