//! A copy-on-write list for the items of a `foreach`: thousands of visits, of which a transition changes a few.

use std::{collections::BTreeSet, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{ItemCounts, Visit};

/// The number of items in a block. A change copies the pointers of one block and one pointer per block.
const ITEMS_PER_BLOCK: usize = 128;

/// The items of a step's latest visit that were opened so far, in the order of the list.
///
/// Invariant: every block but the last holds `ITEMS_PER_BLOCK` items, and `open` holds the numbers of the items that are open. So
/// the cost of a transition depends on the number of items that it changes, not on the length of the list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ItemVisits {
    blocks: Vec<Arc<Vec<Arc<Visit>>>>,
    open: BTreeSet<u32>,
}

impl ItemVisits {
    /// The number of items.
    pub fn len(&self) -> usize {
        let last = self.blocks.last().map_or(0, |block| block.len());
        self.blocks.len().saturating_sub(1) * ITEMS_PER_BLOCK + last
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The item with this number, from 0.
    pub fn get(&self, item: u32) -> Option<&Visit> {
        let item = item as usize;
        let block = self.blocks.get(item / ITEMS_PER_BLOCK)?;
        block.get(item % ITEMS_PER_BLOCK).map(|visit| &**visit)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Visit> {
        let all = self.blocks.iter().flat_map(|block| block.iter());
        all.map(|visit| &**visit)
    }

    /// The open items, in order.
    pub fn open_items(&self) -> impl Iterator<Item = &Visit> {
        self.open.iter().filter_map(|item| self.get(*item))
    }

    /// How the items that were opened have ended so far.
    pub fn count_ends(&self) -> ItemCounts {
        let mut counts = ItemCounts::default();
        for end in self.iter().filter_map(|item| item.closed.as_ref()) {
            let count = match (&end.output, &end.failure) {
                (_, Some(_)) => &mut counts.failed,
                (Some(_), None) => &mut counts.succeeded,
                (None, None) => &mut counts.skipped,
            };
            *count += 1;
        }
        counts
    }

    /// The number of open items.
    pub fn open_count(&self) -> usize {
        self.open.len()
    }

    pub(super) fn push(&mut self, visit: Visit) {
        let item = u32::try_from(self.len()).unwrap_or(u32::MAX);
        self.mark_item_open(item, visit.awaiting.is_some());
        match self.blocks.last_mut() {
            Some(block) if block.len() < ITEMS_PER_BLOCK => {
                Arc::make_mut(block).push(Arc::new(visit));
            }
            _ => self.blocks.push(Arc::new(vec![Arc::new(visit)])),
        }
    }

    pub(super) fn update_item(&mut self, item: u32, change: impl FnOnce(&mut Visit)) {
        let at = item as usize;
        let block = self.blocks.get_mut(at / ITEMS_PER_BLOCK).map(Arc::make_mut);
        let Some(visit) = block.and_then(|block| block.get_mut(at % ITEMS_PER_BLOCK)) else {
            return;
        };
        let visit = Arc::make_mut(visit);
        change(visit);
        let is_open = visit.awaiting.is_some();
        self.mark_item_open(item, is_open);
    }

    fn mark_item_open(&mut self, item: u32, is_open: bool) {
        if is_open {
            self.open.insert(item);
        } else {
            self.open.remove(&item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        clock::Timestamp,
        event::{Row, VisitId, WaitCondition},
        id::{ExecutionId, StepId},
        limits,
    };

    fn open_item_visit(item: u32) -> Visit {
        let row = Row {
            execution_id: ExecutionId::parse("e").unwrap(),
            revision: 1,
            at: Timestamp::from_milliseconds(0),
            events: Vec::new(),
        };
        let visit_id = VisitId::for_step_work(StepId::parse("each").unwrap(), 1, Some(item));
        Visit::open(&row, &visit_id, Some(WaitCondition::Unknown))
    }

    /// The number of blocks that the two lists do not share.
    fn count_unshared_blocks(one: &ItemVisits, other: &ItemVisits) -> usize {
        let blocks = one.blocks.iter().zip(&other.blocks);
        blocks.filter(|(one, other)| !Arc::ptr_eq(one, other)).count()
    }

    #[test]
    fn a_change_copies_one_block_however_many_items_there_are() {
        let most = u32::try_from(limits::FOREACH_ITEMS_MAX).unwrap();
        let mut items = ItemVisits::default();
        for item in 0..most {
            items.push(open_item_visit(item));
            items.update_item(item, |visit| visit.awaiting = None);
        }
        assert_eq!((items.len(), items.open_count()), (most as usize, 0));
        let before = items.clone();
        items.update_item(most / 2, |visit| visit.attempt += 1);
        assert_eq!(count_unshared_blocks(&before, &items), 1);
        assert_eq!(items.get(most / 2).unwrap().attempt, 2);
        assert_eq!(before.get(most / 2).unwrap().attempt, 1);
        items.push(open_item_visit(most));
        assert_eq!(count_unshared_blocks(&before, &items), 2);
        assert_eq!(items.open_items().map(|visit| visit.item).collect::<Vec<_>>(), [Some(most)]);
        assert_eq!(items.iter().count(), most as usize + 1);
    }
}
