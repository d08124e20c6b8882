//! Commits: the data of files that are synced, and all metadata that is dirty.
//!
//! One commit is under way at a time. What asks for one meanwhile shares the next. Large data is written to its blocks and
//! flushed before the commit that maps them; small data is in the commit. Where nobody waits for large data, commits that
//! somebody waits for map a little of it each: it needs none of its own then.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::batch::Batch;
use crate::core::{Core, Page};
use crate::error::Errno;
use crate::format::inode::Kind;
use crate::format::{BLOCK, BLOCK_BYTES};
use crate::planted::{Bug, is_planted};
use crate::store::{CHANGE_BYTES, Extent, Store};

/// Pages of one file that a commit maps at most: others wait for it, and it is as long as it takes.
const MAPPED_PAGES: usize = 1024;

/// Pages whose blocks are taken at once.
const TAKEN_PAGES: usize = 32;

/// Pages for which nobody waits that a commit maps at most for which somebody does.
const RIDING_PAGES: usize = 128;

/// A page of a file that a commit maps or carries.
#[derive(Debug)]
pub(crate) struct Carried {
    pub(crate) index: u64,
    /// Where its bytes are already, if so.
    pub(crate) placed: Option<u32>,
    /// Whether they were written over what the file has there.
    pub(crate) is_in_place: bool,
    /// What of it becomes durable; nothing of a block that is only to be there.
    pub(crate) page: Option<Rc<Page>>,
}

/// A file whose data is to become durable.
#[derive(Debug, Default)]
pub(crate) struct Request {
    pub(crate) number: u32,
    pub(crate) pages: Vec<Carried>,
    /// How many of them are carried.
    pub(crate) next: usize,
    /// Bytes that the file has then.
    pub(crate) size: u64,
    /// Room reserved for blocks that are not pages.
    pub(crate) reserved: u64,
    /// Whether times are left to a later commit where nothing else of the inode changes.
    pub(crate) is_data_only: bool,
    /// Whether the file has more that is not committed, behind these pages.
    pub(crate) is_part: bool,
    /// Whether nobody waits for it but who writes much.
    pub(crate) is_in_background: bool,
}

/// A request in the queue, and whether it is done.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) request: RefCell<Request>,
    pub(crate) is_done: Cell<bool>,
}

/// What a commit is made of.
#[derive(Debug, Default)]
pub(crate) struct Commit {
    pub(crate) batch: Batch,
    /// File, page, and its bytes.
    pages: Vec<(u32, u64, Rc<Page>)>,
    freed: Vec<std::ops::Range<u32>>,
    pub(crate) done: Vec<Rc<Asked>>,
    /// Whether nobody waits for it but who writes much.
    pub(crate) is_in_background: bool,
    /// Bytes of data in it.
    pub(crate) data_bytes: u64,
}

impl<S: Store> Core<S> {
    /// Begins a commit with what is asked for, as far as it fits; what is left stays in `queue`. What nobody waits for comes
    /// behind all else, and is no more than [`RIDING_PAGES`] unless the commit is `in_background` itself.
    pub(crate) async fn begin_commit(
        &mut self,
        queue: &mut Vec<Rc<Asked>>,
        in_background: bool,
    ) -> Result<Commit, Errno> {
        let mut commit = Commit { is_in_background: in_background, ..Commit::default() };
        let is_late = |asked: &Rc<Asked>| asked.request.borrow().is_in_background;
        let (late, taken): (Vec<_>, Vec<_>) = std::mem::take(queue).into_iter().partition(is_late);
        commit.is_in_background &= taken.is_empty();
        let mut riding_pages = if in_background { usize::MAX } else { RIDING_PAGES };
        for asked in taken.into_iter().chain(late) {
            let mut request = asked.request.take();
            let mapped_max = match request.is_in_background {
                true => riding_pages.min(MAPPED_PAGES),
                false => MAPPED_PAGES,
            };
            let carried_before = request.next;
            let applied = match mapped_max {
                0 => Ok(false),
                _ => self.apply(&mut request, &mut commit, mapped_max).await,
            };
            if request.is_in_background {
                riding_pages = riding_pages.saturating_sub(request.next - carried_before);
            }
            asked.request.replace(request);
            if applied? {
                commit.done.push(asked);
            } else {
                queue.push(asked);
            }
        }
        commit.data_bytes = commit.batch.bytes();
        let limits = self.store.limits();
        let mut fine = Batch::default();
        self.cache.carry(&mut fine);
        let (cost, pages) = (fine.cost() + commit.batch.cost(), fine.pages() + commit.batch.pages());
        if cost > limits.bytes || pages > limits.pages {
            fine = self.cache.carry_coarsely(&fine);
        }
        commit.batch.append(fine);
        if !commit.batch.fits(limits) {
            return Err(Errno::TooBig);
        }
        commit.freed = self.freed.take();
        Ok(commit)
    }

    /// What it carried is durable.
    pub(crate) async fn end_commit(&mut self, commit: &Commit) -> Result<(), Errno> {
        self.cache.carried(commit.batch.blocks());
        for (number, index, page) in &commit.pages {
            self.page_carried(*number, *index, page);
        }
        for run in &commit.freed {
            self.discardable.insert(run.clone());
        }
        for asked in &commit.done {
            let (number, reserved) = (asked.request.borrow().number, asked.request.borrow().reserved);
            self.reserved_blocks = self.reserved_blocks.saturating_sub(reserved);
            asked.is_done.set(true);
            // It may have been made longer after its request was made, by bytes that the commit carried, or by none.
            let size = self.nodes.get(&number).filter(|node| node.dirty_pages() == 0).map(|node| node.size);
            let mut inode = self.inode(number).await?;
            if size.is_some_and(|size| size != inode.size) {
                self.settle(number, &mut inode);
            }
        }
        Ok(())
    }

    /// Maps and carries pages of a file as far as they fit, and maps no more than so many; whether that was all.
    async fn apply(
        &mut self,
        request: &mut Request,
        commit: &mut Commit,
        mapped_max: usize,
    ) -> Result<bool, Errno> {
        let number = request.number;
        let mut inode = self.inode(number).await?;
        if inode.kind() != Some(Kind::File) {
            return Err(Errno::Damaged);
        }
        let limits = self.store.limits();
        let old = inode;
        let (mut end, mut mapped) = (0, 0);
        // Blocks that were taken together, of which some are yet to be mapped.
        let mut taken = 0..0;
        while let Some(carried) = request.pages.get(request.next) {
            let index = carried.index;
            let page = match carried.placed {
                Some(_) => None,
                None => self.nodes.get(&number).and_then(|node| node.page(index)),
            };
            let (bytes, changes) =
                page.map_or((0, 0), |page| (page.ranges.bytes() as u64, 2 * page.ranges.iter().count() + 1));
            // A half is for the metadata.
            let is_too_much = commit.batch.cost() + bytes + changes as u64 * CHANGE_BYTES > limits.bytes / 2
                || commit.batch.pages() + changes > limits.pages / 2;
            mapped += usize::from(carried.placed.is_some());
            // What was taken is mapped by the same commit.
            let is_taken = carried.placed.is_some_and(|block| taken.contains(&block));
            let is_enough = self.is_full() || mapped > mapped_max || is_too_much && !commit.pages.is_empty();
            if is_enough && !is_taken {
                break;
            }
            match carried.placed {
                Some(_) if carried.is_in_place => {}
                Some(block) => {
                    if !taken.contains(&block) {
                        taken = placed_run(&request.pages[request.next..], mapped_max - mapped + 1);
                        self.take_placed(taken.clone()).await?;
                    }
                    self.map_set(&mut inode, index, block).await?;
                }
                None => {
                    let Some(page) = self.nodes.get_mut(&number).and_then(|node| node.snapshot(index)) else {
                        request.next += 1;
                        continue;
                    };
                    let mut block = self.map_one(&inode, index).await?;
                    let is_fresh = block == 0;
                    if is_fresh {
                        let goal = self.goal_behind(number, &inode, index).await?;
                        block = self.take_block(goal).await?;
                        self.map_set(&mut inode, index, block).await?;
                        page.is_ahead.set(true);
                    }
                    put_page(&mut commit.batch, block, &page, is_fresh && !is_planted(Bug::FreshDataKeeps));
                    request.pages[request.next].page = Some(page);
                }
            }
            let carried = &request.pages[request.next];
            self.release(number, index);
            if let Some(page) = &carried.page {
                end = index * BLOCK_BYTES + page.ranges.end() as u64;
                commit.pages.push((number, index, Rc::clone(page)));
            }
            if carried.page.is_none() {
                end = (index + 1) * BLOCK_BYTES;
            }
            request.next += 1;
        }
        let is_all = request.next == request.pages.len();
        let is_end = is_all && !request.is_part;
        let covered = if is_end { request.size } else { end.min(request.size) };
        if !is_planted(Bug::SizeLate) {
            inode.size = inode.size.max(covered);
        }
        if request.is_data_only && inode == old {
            return Ok(is_all);
        }
        if let Some(node) = self.nodes.get_mut(&number)
            && is_end
            && let Some(written) = node.written
        {
            (inode.mtime, inode.ctime) = (written, written.max(inode.ctime));
            node.written = None;
        }
        self.put_inode(number, &inode);
        Ok(is_all)
    }

    /// Where the block behind the one before had better be.
    pub(crate) async fn goal_behind(
        &mut self,
        number: u32,
        inode: &crate::format::inode::Inode,
        index: u64,
    ) -> Result<u32, Errno> {
        let before = match index {
            0 => 0,
            index => self.map_one(inode, index - 1).await?,
        };
        Ok(if before != 0 { before.saturating_add(1) } else { self.goal_of(number, inode) })
    }
}

/// Blocks in a row in which the first pages were placed, which lie in a row too: of so many pages at most, and of no more
/// than [`TAKEN_PAGES`], since all of them are mapped by one commit.
fn placed_run(pages: &[Carried], pages_max: usize) -> std::ops::Range<u32> {
    let Some((first, block)) = pages.first().and_then(|first| Some((first.index, first.placed?))) else {
        return 0..0;
    };
    let follows = |(at, carried): &(usize, &Carried)| {
        let is_next = carried.index == first + *at as u64;
        is_next && !carried.is_in_place && carried.placed == block.checked_add(*at as u32)
    };
    let count = pages.iter().take(pages_max.min(TAKEN_PAGES)).enumerate().take_while(follows).count();
    block..block + count as u32
}

/// Puts the bytes of a page into a commit; if its block is newly taken, with zeros beside them.
fn put_page(batch: &mut Batch, block: u32, page: &Page, is_fresh: bool) {
    let at = u64::from(block) * BLOCK_BYTES;
    let mut zero_from = 0;
    for range in page.ranges.iter() {
        if is_fresh {
            batch.zero(Extent::new(at + zero_from as u64, (range.start - zero_from) as u64));
            zero_from = range.end;
        }
        batch.write(at + range.start as u64, &page.bytes[range]);
    }
    if is_fresh {
        batch.zero(Extent::new(at + zero_from as u64, (BLOCK - zero_from) as u64));
    }
}
