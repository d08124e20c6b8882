//! The NBD protocol over any [`crate::net::ByteStream`]: what both sides share, and the client. The server is a front end:
//! [`crate::front::nbd`].
//!
//! ```text
//! proto         every byte of the protocol
//! uri           where an export is
//! tls           streams within streams
//! client        the side that asks; NbdDrive makes a drive of it
//! input, buffer_pool, send_queue    bytes on their way in and out
//! ```
//!
//! All of it runs on one thread and knows the world as [`evenkeel_engine::env::Env`]. What the other side sends
//! is hostile: it is bounded before anything is allocated for it, and ends its own connection at worst.

pub(crate) mod buffer_pool;
pub mod client;
pub(crate) mod input;
pub mod proto;
pub(crate) mod send_queue;
pub mod tls;
pub mod uri;
