//! How much a storage stack varies, and which of its parameters is to blame: a study of many configurations, each
//! run many times.

pub mod sampling;
