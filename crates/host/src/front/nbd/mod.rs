//! The server's side of NBD, over any [`crate::net::ByteStream`].
//!
//! ```text
//! server      one connection after another: handshake, then requests side by side
//! setup       how a server (crate::service) has it as a front end
//! export      what is served
//! limits      what a client may ask for
//! admission   who has how many bytes in flight
//! fuzzing     any bytes as a session, in virtual time
//! ```
//!
//! The bytes of the protocol, which server and client share, are in [`crate::nbd`].

mod admission;
pub mod export;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod limits;
pub mod server;
mod setup;

pub use setup::NbdSetup;
