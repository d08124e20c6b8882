//! The NBD protocol, both sides of it, over any [`crate::net::ByteStream`].
//!
//! ```text
//! server        one connection after another: handshake, then requests side by side
//!   export        what is served
//!   limits        what a client may ask for; accounts: who has how many bytes in flight
//!   statistics    what was done
//! client        the other side; NbdDrive makes a device of it
//! uri           where an export is
//! tls           streams within streams
//! proto         every byte of the protocol
//! input, outbox, pool, wait    bytes on their way in and out
//! ```
//!
//! All of it runs on one thread and knows the world as [`evenkeel_engine::env::Env`]. What the other side sends
//! is hostile: it is bounded before anything is allocated for it, and ends its own connection at worst.

mod accounts;
pub mod client;
pub mod export;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod input;
pub mod limits;
mod outbox;
mod pool;
pub mod proto;
pub mod server;
pub mod statistics;
pub mod tls;
pub mod uri;
pub(crate) mod wait;
