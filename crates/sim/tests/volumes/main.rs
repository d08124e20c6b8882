//! Stories of volumes, on one drive and on mirrors: one program, since each would compile the engine anew.

#[path = "../machine/mod.rs"]
mod machine;

mod bulk;
mod check;
mod costs;
mod discards;
mod events;
mod everywhere;
mod failures;
mod fresh;
mod grow;
mod hostile;
mod limits;
mod log_damage;
mod log_renewal;
mod mends;
mod mirror_log_renewal;
mod moved;
mod older_states;
mod promises;
mod races;
mod ring;
mod ring_grow;
mod ring_log_copy;
mod ring_log_on_members;
mod ring_logs;
mod ring_rebuild;
mod ring_rejoin;
mod roots;
mod salvage;
mod salvage_mirror;
mod salvage_stripes;
mod stripes;
mod stripes_blocked;
mod volume_as_device;
mod volume_model;
