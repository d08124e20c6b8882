//! Any bytes as a request of the kernel.

use super::abi::Malformed;
use super::abi::request::{Head, Operation};

/// Reads bytes as a request, as one of each kind where their head says another, and as one that comes in two parts; what they
/// ask for lies within them.
///
/// # Panics
///
/// Where something that was read does not.
pub fn fuzz_request(bytes: &[u8]) {
    let told = Head::decode(bytes).map(|head| head.opcode);
    for opcode in told.into_iter().chain(0..64) {
        let at = bytes.first().map_or(0, |&byte| usize::from(byte).min(bytes.len()));
        let (fixed, rest) = bytes.split_at(at);
        let asked = [Operation::decode(opcode, bytes), Operation::decode_parts(opcode, fixed, rest)];
        assert!(asked.into_iter().all(|operation| asked_bytes(operation) <= bytes.len()));
    }
}

/// Bytes of names and data.
fn asked_bytes(operation: Result<Operation<'_>, Malformed>) -> usize {
    match operation {
        Ok(Operation::Write(write)) => write.data.len(),
        Ok(Operation::ForgetAll(forgets)) => 16 * forgets.iter().count(),
        Ok(Operation::SetXattr { name, value, .. }) => name.len() + 1 + value.len(),
        Ok(Operation::Rename { name, new_name, .. }) => name.len() + new_name.len() + 2,
        Ok(Operation::SymLink { name, target }) => name.len() + target.len() + 2,
        Ok(Operation::Lookup { name } | Operation::Create { name, .. }) => name.len() + 1,
        _ => 0,
    }
}
