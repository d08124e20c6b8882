//! The files of a data set: names, folders and sizes, which follow from a seed alone.
//!
//! As Filebench makes them: sizes, entries of a folder and depths are gamma distributed with shape 1.5; the mean depth
//! is the logarithm of the number of files to the base of the mean width. Each folder draws anew how deep the tree is
//! below it, and holds files where that is not deeper than itself. Unlike there, the outermost folder does so only where
//! the mean says it: with Filebench, all files of a fileserver land in one folder when it happens to draw 1.

use std::fmt::Write;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Gamma};

use super::spec::FileWorkload;

/// Shape of all gamma distributions here.
const SHAPE: f64 = 1.5;
/// Folders lie no deeper than this.
const DEPTH_MAX: u32 = 32;
/// A file is at most so many times the mean: at shape 1.5 one in 10^19 would be larger.
const SIZE_PER_MEAN_MAX: f64 = 30.0;

/// Names and sizes of all files that there may be.
#[derive(Debug, Clone)]
pub struct Tree {
    /// Folders below the data set's own, parents before their children.
    folders: Vec<String>,
    files: Vec<Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Index of the folder, plus 1; 0 for the data set's own.
    folder: u32,
    size_bytes: u64,
    is_preallocated: bool,
}

/// A gamma distribution of this mean.
fn gamma(mean: f64) -> Gamma<f64> {
    Gamma::new(SHAPE, mean / SHAPE).expect("shape and scale are more than nothing")
}

impl Tree {
    /// Those of a seed.
    pub fn new(spec: &FileWorkload, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let width = f64::from(spec.mean_dir_width);
        let mean_depth = f64::from(spec.files).ln() / width.ln();
        let mut growing = Growing {
            tree: Self { folders: Vec::new(), files: Vec::with_capacity(spec.files as usize) },
            files: spec.files as usize,
            sizes: gamma(spec.mean_size_bytes as f64),
            size_bytes_max: spec.mean_size_bytes as f64 * SIZE_PER_MEAN_MAX,
            widths: gamma(width),
            depths: gamma(mean_depth.max(1.0)),
            is_flat: mean_depth < 1.5,
        };
        growing.folder(0, 1, &mut random);
        let mut tree = growing.tree;
        let mut order: Vec<usize> = (0..tree.files.len()).collect();
        order.shuffle(&mut random);
        let preallocated = (f64::from(spec.files) * spec.preallocated_share).round() as usize;
        for &file in &order[..preallocated.min(order.len())] {
            tree.files[file].is_preallocated = true;
        }
        tree
    }

    /// How many files there may be.
    pub fn len(&self) -> u32 {
        self.files.len() as u32
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The folders, parents first.
    pub fn folders(&self) -> &[String] {
        &self.folders
    }

    /// The size that a file is given when all of it is written.
    pub fn size_bytes(&self, file: u32) -> u64 {
        self.files[file as usize].size_bytes
    }

    /// Whether a file is there when the run begins.
    pub fn is_preallocated(&self, file: u32) -> bool {
        self.files[file as usize].is_preallocated
    }

    /// Writes the name of a file, relative to the data set's folder, into `path`.
    pub fn name(&self, file: u32, path: &mut String) {
        path.clear();
        if let Some(at) = self.files[file as usize].folder.checked_sub(1) {
            path.push_str(&self.folders[at as usize]);
            path.push('/');
        }
        let _a_string_takes_all = write!(path, "f{file:07}");
    }
}

struct Growing {
    tree: Tree,
    files: usize,
    sizes: Gamma<f64>,
    size_bytes_max: f64,
    widths: Gamma<f64>,
    depths: Gamma<f64>,
    is_flat: bool,
}

impl Growing {
    /// Fills a folder with files or, above the depth that it draws, with folders. The outermost is filled until no file is
    /// left to place.
    fn folder(&mut self, folder: u32, depth: u32, random: &mut StdRng) {
        let drawn = (self.depths.sample(random) as u32).clamp(1, DEPTH_MAX);
        let is_root = folder == 0;
        // The outermost folder would take all files if it happened to draw 1.
        let is_leaf = if is_root { self.is_flat } else { depth >= drawn };
        let width = (self.widths.sample(random).round() as usize).max(1);
        let mut entries = 0;
        while self.tree.files.len() < self.files && (is_root || entries < width) {
            entries += 1;
            if is_leaf {
                let size_bytes = self.sizes.sample(random).min(self.size_bytes_max).ceil().max(1.0) as u64;
                self.tree.files.push(Entry { folder, size_bytes, is_preallocated: false });
            } else {
                let name = match folder.checked_sub(1) {
                    None => format!("d{entries:05}"),
                    Some(at) => format!("{}/d{entries:05}", self.tree.folders[at as usize]),
                };
                self.tree.folders.push(name);
                let child = self.tree.folders.len() as u32;
                self.folder(child, depth + 1, random);
            }
        }
    }
}

/// A seed of its own for each part of a study.
pub fn seed_of(seed: u64, parts: &[&str]) -> u64 {
    use std::hash::Hasher;
    let mut hash = twox_hash::XxHash3_64::with_seed(seed);
    for part in parts {
        hash.write(part.as_bytes());
        hash.write(&[0]);
    }
    hash.finish()
}

/// A length from 1 to `max`, each as likely as another.
pub(super) fn append_bytes(random: &mut StdRng, max: u64) -> usize {
    random.random_range(1..=max) as usize
}
