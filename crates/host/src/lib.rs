//! The machine under evenkeel: the only system calls and the only unsafe code of the project.
pub mod method;
pub mod stack;
