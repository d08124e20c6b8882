//! Bytes of a write, divided into the pages of a file.
//!
//! 1. Whoever has the bytes divides and copies them, on any thread. A whole page is taken over as it is from then on: the
//!    thread of the file system copies nothing of it.
//! 2. Each page is memory of its own, so that what is kept of a large write takes no more than its pages.

use std::collections::VecDeque;

use crate::format::{BLOCK, BLOCK_BYTES, BlockBytes};

/// What a write puts into one page.
#[derive(Debug)]
pub(crate) enum Piece {
    /// All of it.
    Whole(Box<BlockBytes>),
    /// A part.
    Part(Vec<u8>),
}

impl Piece {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Whole(_) => BLOCK,
            Self::Part(bytes) => bytes.len(),
        }
    }
}

/// Bytes to be written from an offset of a file on.
#[derive(Debug)]
pub struct Payload {
    /// Of the first piece.
    offset: u64,
    pieces: VecDeque<Piece>,
    len: u64,
}

impl Payload {
    /// Copies `bytes`.
    pub fn new(offset: u64, bytes: &[u8]) -> Self {
        let mut pieces = VecDeque::with_capacity(bytes.len() / BLOCK + 2);
        let head = (BLOCK - (offset % BLOCK_BYTES) as usize) % BLOCK;
        let (head, rest) = bytes.split_at(head.min(bytes.len()));
        let mut part = |bytes: &[u8]| {
            if !bytes.is_empty() {
                pieces.push_back(Piece::Part(bytes.to_vec()));
            }
        };
        part(head);
        let (whole, tail) = rest.as_chunks::<BLOCK>();
        pieces.extend(whole.iter().map(|page| Piece::Whole(Box::new(*page))));
        if !tail.is_empty() {
            pieces.push_back(Piece::Part(tail.to_vec()));
        }
        Self { offset, pieces, len: bytes.len() as u64 }
    }

    /// Bytes that are left of it.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether none are.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where they are written to.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// What goes into the first page.
    pub(crate) fn first(&self) -> Option<&Piece> {
        self.pieces.front()
    }

    /// Takes that out.
    pub(crate) fn take_first(&mut self) -> Option<Piece> {
        let piece = self.pieces.pop_front()?;
        self.offset += piece.len() as u64;
        self.len -= piece.len() as u64;
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(offset: u64, len: usize) -> Vec<(u64, usize, bool)> {
        let bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
        let mut payload = Payload::new(offset, &bytes);
        assert_eq!((payload.offset(), payload.len(), payload.is_empty()), (offset, len as u64, len == 0));
        let mut found = Vec::new();
        let mut all = Vec::new();
        while payload.first().is_some() {
            let at = payload.offset();
            match payload.take_first().unwrap() {
                Piece::Whole(page) => {
                    found.push((at, BLOCK, true));
                    all.extend_from_slice(&page[..]);
                }
                Piece::Part(part) => {
                    found.push((at, part.len(), false));
                    all.extend_from_slice(&part);
                }
            }
        }
        assert_eq!(all, bytes);
        assert!(payload.is_empty());
        found
    }

    #[test]
    fn no_piece_lies_over_the_edge_of_a_page() {
        assert_eq!(pieces(0, 0), []);
        assert_eq!(pieces(10, 100), [(10, 100, false)]);
        assert_eq!(pieces(4000, 100), [(4000, 96, false), (4096, 4, false)]);
        assert_eq!(pieces(4096, 8192), [(4096, BLOCK, true), (8192, BLOCK, true)]);
        assert_eq!(pieces(1, 8192), [(1, 4095, false), (4096, BLOCK, true), (8192, 1, false)]);
    }
}
