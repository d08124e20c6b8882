//! Front ends: ways by which programs outside this process reach a device.
//!
//! ```text
//! device      what is served: any device, and what some know of themselves
//! nbd         a server of the NBD protocol
//! statistics  what clients asked for, counted
//! ```

pub mod device;
pub mod nbd;
pub mod statistics;
