//! The loads that all servers get.

use crate::load::{Load, Operation, Place};

/// What lies below the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disk {
    /// The folder's file system.
    AsItIs,
    /// The same, where each flush and each durable write takes 1 ms more.
    SlowFlushes,
}

/// A load, and the rate to reach.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) disk: Disk,
    pub(crate) operation: Operation,
    pub(crate) connections: usize,
    pub(crate) depth: usize,
    /// Least rate as a multiple of the best peer's, in the steady state.
    pub(crate) least_ratio: f64,
}

const KIB: usize = 1 << 10;

impl Case {
    /// The load on a volume of `size_bytes`.
    pub(crate) fn load(&self, size_bytes: u64, seconds: f64, seed: u64) -> Load {
        Load {
            operation: self.operation,
            place: Place::Random,
            connections: self.connections,
            depth: self.depth,
            request_bytes: 4 * KIB,
            size_bytes,
            seconds,
            seed,
        }
    }
}

/// All of them.
pub(crate) const CASES: &[Case] = &[
    Case {
        name: "write-flush-1",
        about: "write then flush, 1 connection",
        disk: Disk::AsItIs,
        operation: Operation::WriteFlush,
        connections: 1,
        depth: 1,
        least_ratio: 1.0,
    },
    Case {
        name: "write-flush-8",
        about: "write then flush, 8 connections",
        disk: Disk::AsItIs,
        operation: Operation::WriteFlush,
        connections: 8,
        depth: 1,
        least_ratio: 1.3,
    },
    Case {
        name: "write-flush-32",
        about: "write then flush, 32 connections",
        disk: Disk::AsItIs,
        operation: Operation::WriteFlush,
        connections: 32,
        depth: 1,
        least_ratio: 1.5,
    },
    Case {
        name: "fua-1",
        about: "FUA, 1 deep",
        disk: Disk::AsItIs,
        operation: Operation::Fua,
        connections: 1,
        depth: 1,
        least_ratio: 1.0,
    },
    Case {
        name: "fua-32",
        about: "FUA, 32 deep",
        disk: Disk::AsItIs,
        operation: Operation::Fua,
        connections: 1,
        depth: 32,
        least_ratio: 1.7,
    },
    Case {
        name: "read-1",
        about: "random read, 1 deep",
        disk: Disk::AsItIs,
        operation: Operation::Read,
        connections: 1,
        depth: 1,
        least_ratio: 1.0,
    },
    Case {
        name: "read-32",
        about: "random read, 32 deep",
        disk: Disk::AsItIs,
        operation: Operation::Read,
        connections: 1,
        depth: 32,
        least_ratio: 1.0,
    },
    Case {
        name: "slow-flush-32",
        about: "write then flush, 32 connections, flushes 1 ms slower",
        disk: Disk::SlowFlushes,
        operation: Operation::WriteFlush,
        connections: 32,
        depth: 1,
        least_ratio: 1.5,
    },
];
