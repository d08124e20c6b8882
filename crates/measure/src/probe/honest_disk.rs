//! The description of a disk in virtual time.

use evenkeel_host::stack::Stack;

/// A disk that keeps its word.
pub(crate) fn honest_disk() -> Stack {
    Stack {
        path: "/srv".to_owned(),
        file_system: "xfs".to_owned(),
        mount_options: "rw,noatime".to_owned(),
        device: "/dev/sda".to_owned(),
        device_model: None,
        loop_file: None,
        scheduler: Some("none".to_owned()),
        write_cache: Some("write through".to_owned()),
        fua: Some(true),
        rotational: Some(false),
        in_memory: false,
        over_network: false,
        size_bytes: Some(100 << 30),
        free_bytes: Some(50 << 30),
        kernel: "6.1".to_owned(),
    }
}
