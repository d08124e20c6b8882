//! What a durable write costs, by its size: l + x/B.

use std::rc::Rc;

use evenkeel_engine::device::{Device, Durability};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::DeviceError;

use crate::fit::{Model, fit_model};
use crate::replay::Payload;
use crate::stats::median;

/// Sizes that are written.
const SIZES: [usize; 9] =
    [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20];

/// Of the bytes.
const SEED: u64 = 1;

/// Writes of each size.
const WRITES: usize = 24;

/// One durable write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Its bytes.
    pub bytes: u64,
    /// How long it took.
    pub took_ns: u64,
}

/// Writes to a device, one after the other as a log does, sizes in turns. What it holds is lost.
///
/// # Errors
///
/// Those of the device.
pub async fn sample<E: Env, D: Device>(env: &E, device: &Rc<D>) -> Result<Vec<Sample>, DeviceError> {
    let size_bytes = device.geometry().size_bytes;
    let mut bytes = vec![0; SIZES[SIZES.len() - 1]];
    Payload::new(SEED).fill(0, &mut bytes);
    let mut samples = Vec::new();
    let mut offset = 0;
    // The first round warms up.
    for round in 0..=WRITES {
        for len in SIZES {
            if offset + len as u64 > size_bytes {
                offset = 0;
            }
            let began_ns = env.now_ns();
            device.write(offset, &bytes[..len], Durability::Durable).await?;
            if round > 0 {
                samples.push(Sample { bytes: len as u64, took_ns: env.now_ns() - began_ns });
            }
            offset += len as u64;
        }
    }
    Ok(samples)
}

/// l and B of a typical write, if they show.
pub fn fit(samples: &[Sample]) -> Option<Model> {
    let typical = |len: usize| {
        let took: Vec<f64> = samples
            .iter()
            .filter(|sample| sample.bytes == len as u64)
            .map(|sample| sample.took_ns as f64 * 1e-9)
            .collect();
        median(&took).map(|took_s| (len as f64, took_s))
    };
    let points: Vec<(f64, f64)> = SIZES.into_iter().filter_map(typical).collect();
    fit_model(&points)
}
