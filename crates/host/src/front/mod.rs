//! Front ends: ways by which programs outside this process reach a device.
//!
//! ```text
//! nbd         a server of the NBD protocol
//! statistics  what clients asked for, counted
//! ```

pub mod nbd;
pub mod statistics;
