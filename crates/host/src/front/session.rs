//! Who is connected to a front end, and what it does for them.

use std::net::IpAddr;
use std::rc::Rc;

use super::statistics::Statistics;

/// A client that connects.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Its name on a status page.
    pub(super) name: Rc<str>,
    /// The clients whose connections count together, where that is known.
    pub(super) group: Option<Group>,
}

/// A network or process that may make any number of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    Network(IpAddr),
    Process(u32),
}

impl Peer {
    /// A client at an address, that connected by `way`. Whoever has one address of IPv6 has all of its /64.
    pub fn at(way: &str, address: IpAddr) -> Self {
        let address = address.to_canonical();
        let network = match address {
            IpAddr::V6(address) => IpAddr::V6((address.to_bits() & !u128::from(u64::MAX)).into()),
            address @ IpAddr::V4(_) => address,
        };
        Self { name: format!("{way} {address}").into(), group: Some(Group::Network(network)) }
    }

    /// A process of this machine.
    pub fn process(way: &str, pid: u32) -> Self {
        Self { name: format!("{way} pid {pid}").into(), group: Some(Group::Process(pid)) }
    }
}

impl From<&str> for Peer {
    fn from(name: &str) -> Self {
        Self { name: name.into(), group: None }
    }
}

/// A connection as a status page shows it.
#[derive(Debug, Clone)]
pub struct ConnectionStatus {
    /// A number of its own.
    pub id: u64,
    /// The name of its client, as [`super::Front::serve`] was told.
    pub peer: Rc<str>,
    /// When it began, on the clock of `Env::now_ns`.
    pub began_ns: u64,
    /// Whether the transmission phase has begun.
    pub is_open: bool,
    /// Whether TLS protects it.
    pub has_tls: bool,
    /// Requests that are not answered yet.
    pub requests_in_flight: u32,
    /// Their bytes.
    pub in_flight_bytes: u64,
    /// What it did.
    pub statistics: Statistics,
}

/// A front end as a status page shows it.
#[derive(Debug, Clone)]
pub struct FrontStatus {
    /// What it did, with connections that have ended.
    pub statistics: Statistics,
    /// Bytes of requests that are not answered yet.
    pub in_flight_bytes: u64,
    /// The most there were.
    pub in_flight_peak_bytes: u64,
    /// The most that there may be with the largest number of connections.
    pub in_flight_max_bytes: u64,
    /// Connections so far.
    pub connections_accepted: u64,
    /// Connections that were refused because there were too many.
    pub connections_refused: u64,
    /// Connections that were ended in their handshake to make room for others.
    pub connections_evicted: u64,
    /// Those there are.
    pub connections: Vec<ConnectionStatus>,
    /// The file system, where it is one that is mounted.
    pub file_system: Option<FileSystemFigures>,
}

/// Threads that are told to have waited most.
pub const WAITERS_MAX: usize = 5;

/// A thread that waited for what it made durable, in the last 30 to 60 seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaiterFigures {
    /// Its number, which is the process's where that has one thread.
    pub thread: u32,
    /// How often it waited.
    pub fsyncs: u64,
    /// For how long in all, in nanoseconds.
    pub waited_ns: u64,
}

/// A mounted file system as a status page shows it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FileSystemFigures {
    /// Bytes of its blocks, without those of its tables.
    pub size_bytes: u64,
    /// Bytes of free ones.
    pub free_bytes: u64,
    /// Bytes of those of them that anybody may take.
    pub available_bytes: u64,
    /// Inodes.
    pub inodes: u64,
    /// Free ones.
    pub free_inodes: u64,
    /// Calls of fsync and fdatasync a second, lately.
    pub fsyncs_per_s: f64,
    /// Commits.
    pub commits: u64,
    /// Bytes of data that commits carried.
    pub data_bytes: u64,
    /// Bytes of metadata that commits carried.
    pub metadata_bytes: u64,
    /// Bytes of data that were written to their blocks before a commit.
    pub written_bytes: u64,
    /// Bytes of data that are not committed.
    pub dirty_bytes: u64,
    /// Files in memory.
    pub known_files: u64,
    /// Who waited most, lately: the first one most.
    pub waiters: [Option<WaiterFigures>; WAITERS_MAX],
}
