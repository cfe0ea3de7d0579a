//! Distinguishes new events from seen ones. A reply contains the latest events, and may contain an event whose id lies
//! between those of an earlier reply. So the ids are remembered as long as they may occur again.

use std::collections::BTreeSet;

use serde_json::Value;

use midex_domain::limits;

/// The events that were seen.
#[derive(Debug, Default)]
pub(super) struct SeenEvents {
    seen_ids: BTreeSet<u64>,
    /// Events up to this id existed before the first poll, or are too old to occur in a reply.
    seen_up_to: u64,
}

impl SeenEvents {
    /// Takes the events of the first reply and returns the last `limit` of those that are shown. The others are never
    /// printed.
    pub(super) fn take_first_reply(
        &mut self,
        mut events: Vec<Value>,
        limit: usize,
        is_shown: impl Fn(&Value) -> bool,
    ) -> Vec<Value> {
        self.seen_up_to = oldest_id(&events).saturating_sub(1);
        self.seen_ids = events.iter().map(event_id).collect();
        events.retain(is_shown);
        events.split_off(events.len().saturating_sub(limit))
    }

    /// Whether events may be missing between the seen ones and the first event of this reply.
    pub(super) fn has_gap(&self, events: &[Value]) -> bool {
        let is_full = events.len() >= limits::TELEMETRY_LIMIT_MAX;
        is_full && !events.iter().any(|event| self.has_seen(event_id(event)))
    }

    /// Takes the events of a reply and returns the new ones.
    pub(super) fn take_new_events(&mut self, mut events: Vec<Value>) -> Vec<Value> {
        let oldest = oldest_id(&events);
        events.retain(|event| !self.has_seen(event_id(event)));
        self.seen_ids.extend(events.iter().map(event_id));
        if events.len() + self.seen_ids.len() > 4 * limits::TELEMETRY_LIMIT_MAX {
            self.seen_ids = self.seen_ids.split_off(&oldest);
            self.seen_up_to = self.seen_up_to.max(oldest.saturating_sub(1));
        }
        events
    }

    fn has_seen(&self, id: u64) -> bool {
        id <= self.seen_up_to || self.seen_ids.contains(&id)
    }
}

/// The id of an event.
pub(super) fn event_id(event: &Value) -> u64 {
    event["id"].as_u64().unwrap_or_default()
}

/// The largest id of these events.
pub(super) fn newest_id(events: &[Value]) -> u64 {
    events.iter().map(event_id).max().unwrap_or_default()
}

fn oldest_id(events: &[Value]) -> u64 {
    events.iter().map(event_id).min().unwrap_or_default()
}

/// The events sorted by id, without duplicates.
pub(super) fn sort_events(mut events: Vec<Value>) -> Vec<Value> {
    events.sort_by_key(event_id);
    events.dedup_by_key(|event| event_id(event));
    events
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn events_with_ids(ids: impl IntoIterator<Item = u64>) -> Vec<Value> {
        ids.into_iter().map(|id| json!({ "id": id })).collect()
    }

    fn event_ids(events: &[Value]) -> Vec<u64> {
        events.iter().map(event_id).collect()
    }

    #[test]
    fn each_new_event_is_shown_once() {
        let mut window = SeenEvents::default();
        assert_eq!(
            event_ids(&window.take_first_reply(events_with_ids(1..=9), 2, |_| true)),
            [8, 9]
        );
        assert!(window.take_new_events(events_with_ids(1..=9)).is_empty());
        assert_eq!(event_ids(&window.take_new_events(events_with_ids(5..=11))), [10, 11]);
        // An event may be missing from a reply although later ones are in it.
        assert_eq!(event_ids(&window.take_new_events(events_with_ids([10, 11, 14]))), [14]);
        assert_eq!(event_ids(&window.take_new_events(events_with_ids([10, 12, 14, 15]))), [12, 15]);
    }

    #[test]
    fn gap_between_replies_is_noticed() {
        let limit = limits::TELEMETRY_LIMIT_MAX as u64;
        let mut window = SeenEvents::default();
        window.take_first_reply(events_with_ids(limit..2 * limit), 0, |_| true);
        assert!(!window.has_gap(&events_with_ids(2 * limit..2 * limit + 5)));
        assert!(!window.has_gap(&events_with_ids(2 * limit - 1..3 * limit - 1)));
        assert!(window.has_gap(&events_with_ids(2 * limit..3 * limit)));
    }

    #[test]
    fn seen_events_are_limited() {
        let limit = limits::TELEMETRY_LIMIT_MAX as u64;
        let mut window = SeenEvents::default();
        window.take_first_reply(events_with_ids(1..=limit), 20, |event| {
            event_id(event).is_multiple_of(2)
        });
        for round in 1..20 {
            let start = round * limit / 2;
            assert_eq!(
                window.take_new_events(events_with_ids(start..start + limit)).len() as u64,
                limit / 2 - u64::from(round < 2)
            );
            assert!(window.seen_ids.len() as u64 <= 5 * limit);
        }
        assert!(window.take_new_events(events_with_ids([1, 2, 3])).is_empty());
    }
}
