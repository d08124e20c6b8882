//! The allocator, told how a server uses it.

#![allow(unsafe_code)]

/// From this size on memory goes back to the system when it is freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const RETURNED_FROM_BYTES: libc::c_int = 128 << 10;

/// Heaps of the allocator: each keeps what was freed in it for itself.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const HEAPS_MAX: libc::c_int = 2;

/// From here on the memory of large buffers goes back to the system when they are freed. Unless told, glibc takes it
/// for its heap from the first such buffer on, where whatever small lies behind it keeps it from being given back:
/// what a server takes would follow from the worst moment of its life.
pub fn give_back_what_is_large() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (option, value) in [(libc::M_MMAP_THRESHOLD, RETURNED_FROM_BYTES), (libc::M_ARENA_MAX, HEAPS_MAX)] {
        // SAFETY: the call takes two numbers, and refuses values that it does not know.
        let _as_it_was_is_fine = unsafe { libc::mallopt(option, value) };
    }
}

/// Gives memory that was freed back to the system, wherever in the allocator's heaps it lies. Others who want memory
/// meanwhile wait for it.
pub fn give_back_what_is_free() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: the call takes a number of bytes that stay at the end of the heap.
    let _whether_there_was_any = unsafe { libc::malloc_trim(0) };
}
