//! The NBD server and client, over connections in memory, in virtual time.

mod fuzz;
