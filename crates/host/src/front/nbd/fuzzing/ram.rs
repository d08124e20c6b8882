//! An export in memory that knows what of it is durable.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_engine::device::{Durability, Extent, FlushScope};
use evenkeel_engine::env::Env;
use evenkeel_sim::executor::SimEnv;

use crate::front::device::RequestError;
use crate::front::nbd::export::{BlockSizes, Export};

/// Bytes that are allocated together.
const PAGE_BYTES: usize = 4096;

struct State {
    bytes: RefCell<Vec<u8>>,
    durable: RefCell<Vec<u8>>,
    allocated: RefCell<Vec<bool>>,
    flushes: RefCell<Vec<Option<Extent>>>,
    failing: Cell<Option<i32>>,
}

/// Bytes in memory. A clone is another handle to them.
#[derive(Clone)]
pub struct RamExport {
    state: Rc<State>,
    name: &'static str,
    sizes: BlockSizes,
    is_read_only: bool,
    /// The executor in whose time requests take theirs.
    env: Option<SimEnv>,
}

impl RamExport {
    /// `size_bytes` zeros.
    pub fn new(size_bytes: usize) -> Self {
        let state = State {
            bytes: RefCell::new(vec![0; size_bytes]),
            durable: RefCell::new(vec![0; size_bytes]),
            allocated: RefCell::new(vec![false; size_bytes.div_ceil(PAGE_BYTES)]),
            flushes: RefCell::default(),
            failing: Cell::new(None),
        };
        let sizes = BlockSizes::default();
        Self { state: Rc::new(state), name: "ram", sizes, is_read_only: false, env: None }
    }

    /// This export, refusing writes.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.is_read_only = true;
        self
    }

    /// This export with other block sizes.
    #[must_use]
    pub fn with_sizes(mut self, sizes: BlockSizes) -> Self {
        self.sizes = sizes;
        self
    }

    /// This export, with requests that take any time and end in any order.
    #[must_use]
    pub fn taking_time(mut self, env: SimEnv) -> Self {
        self.env = Some(env);
        self
    }

    /// From now on every request fails with `errno`, or none does.
    pub fn fail_with(&self, errno: Option<i32>) {
        self.state.failing.set(errno);
    }

    /// What it holds.
    pub fn bytes(&self) -> Vec<u8> {
        self.state.bytes.borrow().clone()
    }

    /// What of it a power cut would leave.
    pub fn durable(&self) -> Vec<u8> {
        self.state.durable.borrow().clone()
    }

    /// The flushes so far: of a range, or of everything.
    pub fn flushes(&self) -> Vec<Option<Extent>> {
        self.state.flushes.borrow().clone()
    }

    async fn pass_time(&self) -> Result<(), RequestError> {
        if let Some(env) = &self.env {
            let drawn = env.random();
            if drawn & 3 != 0 {
                env.sleep(drawn >> 48).await;
            }
        }
        match self.state.failing.get() {
            Some(errno) => Err(RequestError { errno, message: "told to fail".into() }),
            None => Ok(()),
        }
    }

    fn change(
        &self,
        extent: Extent,
        durability: Durability,
        is_allocated: Option<bool>,
        change: impl FnOnce(&mut [u8]),
    ) {
        let range = extent.offset as usize..extent.end() as usize;
        change(&mut self.state.bytes.borrow_mut()[range.clone()]);
        let mut allocated = self.state.allocated.borrow_mut();
        let size = self.state.bytes.borrow().len();
        for page in range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES) {
            let page_end = ((page + 1) * PAGE_BYTES).min(size);
            let is_whole = range.start <= page * PAGE_BYTES && page_end <= range.end;
            match is_allocated {
                Some(false) if !is_whole => {}
                Some(state) => allocated[page] = state,
                None => {}
            }
        }
        if durability == Durability::Durable {
            self.make_durable(extent);
        }
    }

    fn make_durable(&self, extent: Extent) {
        let range = extent.offset as usize..extent.end() as usize;
        self.state.durable.borrow_mut()[range.clone()].copy_from_slice(&self.state.bytes.borrow()[range]);
    }
}

impl Export for RamExport {
    fn size_bytes(&self) -> u64 {
        self.state.bytes.borrow().len() as u64
    }

    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &str {
        "bytes in memory"
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn block_sizes(&self) -> BlockSizes {
        self.sizes
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), RequestError> {
        self.pass_time().await?;
        into.copy_from_slice(&self.state.bytes.borrow()[offset as usize..][..into.len()]);
        Ok(())
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), RequestError> {
        self.pass_time().await?;
        let extent = Extent::new(offset, bytes.len() as u64);
        self.change(extent, durability, Some(true), |held| held.copy_from_slice(bytes));
        Ok(())
    }

    async fn flush(&self, scope: FlushScope<'_>) -> Result<(), RequestError> {
        self.pass_time().await?;
        match scope {
            FlushScope::Whole => {
                self.state.flushes.borrow_mut().push(None);
                self.make_durable(Extent::new(0, self.size_bytes()));
            }
            FlushScope::Ranges(ranges) => {
                for &range in ranges {
                    self.state.flushes.borrow_mut().push(Some(range));
                    self.make_durable(range);
                }
            }
        }
        Ok(())
    }

    async fn write_zeroes(
        &self,
        extent: Extent,
        durability: Durability,
        no_hole: bool,
    ) -> Result<(), RequestError> {
        self.pass_time().await?;
        self.change(extent, durability, Some(no_hole), |held| held.fill(0));
        Ok(())
    }

    async fn discard(&self, extent: Extent, durability: Durability) -> Result<(), RequestError> {
        self.write_zeroes(extent, durability, false).await
    }

    async fn allocation(&self, extent: Extent, runs_max: usize) -> Result<Vec<(u64, bool)>, RequestError> {
        self.pass_time().await?;
        let mut found = Vec::new();
        let mut at = extent.offset;
        while at < extent.end() && found.len() < runs_max {
            let page = at / PAGE_BYTES as u64;
            let end = extent.end().min((page + 1) * PAGE_BYTES as u64);
            found.push((end - at, self.state.allocated.borrow()[page as usize]));
            at = end;
        }
        Ok(found)
    }
}
