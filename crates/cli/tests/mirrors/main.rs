//! Volumes of several members: lost, replaced, taken back, and mixed up.

mod events;
mod full_disk;
mod life;
mod log_replace;
mod mistakes;
mod mixed_up;
mod nbd;
mod rejoin;
mod replace;
mod replace_again;
mod stripes;

#[path = "../support/mod.rs"]
mod support;
