//! Subscriptions to the transitions of executions, awake or asleep: of one execution, or of all.
//!
//! A transition costs work only for the listeners of its execution. A listener gives each of its topics a name. A
//! transition marks the names of its topics, and a marked name stays in the listener's queue, once, until the listener
//! takes it. So a slow listener holds up no other one, and its queue is bounded by the number of its names.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use midex_domain::ExecutionId;

/// The name that a listener gives to one of its topics.
pub type TopicName = Arc<str>;

/// What a listener can subscribe to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topic {
    /// One execution.
    Execution(ExecutionId),
    /// Any execution.
    Executions,
}

/// Publishes durable transitions to listeners. Keeps no entry for an execution without listeners. Cheap to clone.
#[derive(Clone, Default)]
pub struct Notifier(Arc<Mutex<SubscriptionTable>>);

#[derive(Default)]
struct SubscriptionTable {
    by_execution: HashMap<ExecutionId, Subscribers>,
    all_executions: Subscribers,
    last_number: u64,
}

/// Subscriptions by the number of their listener.
type Subscribers = HashMap<u64, Subscription>;

/// A listener's subscription to one topic, under one or more names.
struct Subscription {
    pending: Arc<PendingNames>,
    names: HashSet<TopicName>,
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Notifier({} executions)", self.lock().by_execution.len())
    }
}

impl Notifier {
    fn lock(&self) -> MutexGuard<'_, SubscriptionTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether any listener has a subscription.
    pub(super) fn has_subscriptions(&self) -> bool {
        let subscriptions = self.lock();
        !subscriptions.by_execution.is_empty() || !subscriptions.all_executions.is_empty()
    }

    /// A new listener, without subscriptions.
    pub fn new_listener(&self) -> Listener {
        let mut subscriptions = self.lock();
        subscriptions.last_number += 1;
        Listener {
            number: subscriptions.last_number,
            notifier: self.clone(),
            pending: Arc::default(),
        }
    }

    /// Marks the listeners of an execution, after a transition of it became durable.
    pub(super) fn notify(&self, id: &ExecutionId) {
        let subscriptions = self.lock();
        let subscribers = subscriptions.by_execution.get(id).into_iter();
        let all = subscribers.chain([&subscriptions.all_executions]);
        for subscription in all.flat_map(HashMap::values) {
            subscription.pending.mark(&subscription.names);
        }
    }

    /// How many executions have listeners.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.lock().by_execution.len()
    }
}

impl SubscriptionTable {
    fn subscribers(&mut self, topic: &Topic) -> &mut Subscribers {
        match topic {
            Topic::Execution(id) => self.by_execution.entry(id.clone()).or_default(),
            Topic::Executions => &mut self.all_executions,
        }
    }

    fn unsubscribe(&mut self, number: u64, topic: &Topic, name: &TopicName) {
        let subscribers = self.subscribers(topic);
        if let Some(subscription) = subscribers.get_mut(&number) {
            subscription.names.remove(name);
            if subscription.names.is_empty() {
                subscribers.remove(&number);
            }
        }
        if let Topic::Execution(id) = topic
            && self.by_execution.get(id).is_some_and(HashMap::is_empty)
        {
            self.by_execution.remove(id);
        }
    }
}

/// The names of one listener, and which of them are marked.
#[derive(Default)]
struct PendingNames {
    state: Mutex<PendingState>,
    wake: Notify,
}

#[derive(Default)]
struct PendingState {
    names: HashMap<TopicName, NamedTopic>,
    /// The marked names, the longest waiting first. Each name is in the queue at most once.
    queue: VecDeque<TopicName>,
}

struct NamedTopic {
    topic: Option<Topic>,
    is_marked: bool,
}

impl PendingNames {
    fn lock(&self) -> MutexGuard<'_, PendingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mark<'a>(&self, names: impl IntoIterator<Item = &'a TopicName>) {
        let mut state = self.lock();
        for name in names {
            if let Some(named_topic) = state.names.get_mut(name)
                && !named_topic.is_marked
            {
                named_topic.is_marked = true;
                state.queue.push_back(name.clone());
            }
        }
        if !state.queue.is_empty() {
            self.wake.notify_one();
        }
    }
}

/// A subscriber that names its topics. Dropping it ends its subscriptions.
pub struct Listener {
    number: u64,
    notifier: Notifier,
    pending: Arc<PendingNames>,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listener({} names)", self.len())
    }
}

impl Listener {
    /// Subscribes to `topic` under this name, from now on. Without a topic, only [`Listener::mark`] marks the name.
    /// Returns false, and changes nothing, if the listener has the name already.
    pub fn subscribe(&self, name: &TopicName, topic: Option<Topic>) -> bool {
        let mut subscriptions = self.notifier.lock();
        let mut state = self.pending.lock();
        if state.names.contains_key(name) {
            return false;
        }
        if let Some(topic) = &topic {
            let subscription = subscriptions.subscribers(topic).entry(self.number);
            let subscription = subscription.or_insert_with(|| Subscription {
                pending: self.pending.clone(),
                names: HashSet::new(),
            });
            subscription.names.insert(name.clone());
        }
        let named_topic = NamedTopic { topic, is_marked: false };
        state.names.insert(name.clone(), named_topic);
        true
    }

    /// Removes this name with its subscription and its mark. Returns false if the listener has no such name.
    pub fn remove(&self, name: &str) -> bool {
        let mut subscriptions = self.notifier.lock();
        let mut state = self.pending.lock();
        let Some((name, named_topic)) = state.names.remove_entry(name) else {
            return false;
        };
        if named_topic.is_marked {
            state.queue.retain(|waiting| *waiting != name);
        }
        if let Some(topic) = &named_topic.topic {
            subscriptions.unsubscribe(self.number, topic, &name);
        }
        true
    }

    /// Marks these names, as if their topics had moved. Names that the listener does not have are ignored.
    pub fn mark<'a>(&self, names: impl IntoIterator<Item = &'a TopicName>) {
        self.pending.mark(names);
    }

    /// Whether the listener has this name.
    pub fn has_name(&self, name: &str) -> bool {
        self.pending.lock().names.contains_key(name)
    }

    /// How many names the listener has.
    pub fn len(&self) -> usize {
        self.pending.lock().names.len()
    }

    /// Whether the listener has no names.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a name is marked, so that [`Listener::take_marked_name`] returns one.
    pub fn has_marked_name(&self) -> bool {
        !self.pending.lock().queue.is_empty()
    }

    /// Takes the marked name that has waited longest. From now on it can be marked again.
    pub fn take_marked_name(&self) -> Option<TopicName> {
        let mut state = self.pending.lock();
        let name = state.queue.pop_front()?;
        if let Some(named_topic) = state.names.get_mut(&name) {
            named_topic.is_marked = false;
        }
        Some(name)
    }

    /// Waits until a name is marked. Only one task may wait at a time.
    pub async fn wait_for_change(&self) {
        while !self.has_marked_name() {
            // A mark between the check and this wait is not lost: `Notify` stores its permit.
            self.pending.wake.notified().await;
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut subscriptions = self.notifier.lock();
        let names = std::mem::take(&mut self.pending.lock().names);
        for (name, named_topic) in &names {
            if let Some(topic) = &named_topic.topic {
                subscriptions.unsubscribe(self.number, topic, name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn execution_id(text: &str) -> ExecutionId {
        ExecutionId::parse(text).expect("an id")
    }

    fn execution_topic(text: &str) -> Topic {
        Topic::Execution(execution_id(text))
    }

    fn take_all_names(listener: &Listener) -> Vec<String> {
        std::iter::from_fn(|| listener.take_marked_name()).map(|name| name.to_string()).collect()
    }

    #[tokio::test]
    async fn listeners_are_notified_and_leave_no_entries() {
        let notifier = Notifier::default();
        notifier.notify(&execution_id("one"));
        let (first, second) = (notifier.new_listener(), notifier.new_listener());
        assert!(first.subscribe(&"a".into(), Some(execution_topic("one"))));
        assert!(!first.subscribe(&"a".into(), Some(execution_topic("two"))), "it has the name");
        assert!(second.subscribe(&"b".into(), Some(execution_topic("one"))));
        assert!(first.take_marked_name().is_none(), "what was before is not heard of");
        notifier.notify(&execution_id("one"));
        notifier.notify(&execution_id("two"));
        first.wait_for_change().await;
        assert_eq!(take_all_names(&first), ["a"]);
        assert_eq!(notifier.len(), 1);
        drop(second);
        assert_eq!(notifier.len(), 1);
        assert!(first.remove("a") && !first.remove("a"));
        assert_eq!((notifier.len(), first.len()), (0, 0));
        assert!(first.subscribe(&"a".into(), Some(execution_topic("one"))));
        drop(first);
        assert_eq!(notifier.len(), 0);
    }

    #[test]
    fn only_listeners_of_an_execution_are_notified() {
        let notifier = Notifier::default();
        let (mine, yours, all) =
            (notifier.new_listener(), notifier.new_listener(), notifier.new_listener());
        mine.subscribe(&"mine".into(), Some(execution_topic("mine")));
        yours.subscribe(&"yours".into(), Some(execution_topic("yours")));
        all.subscribe(&"list".into(), Some(Topic::Executions));
        all.subscribe(&"files".into(), None);
        notifier.notify(&execution_id("mine"));
        assert_eq!(take_all_names(&mine), ["mine"]);
        assert!(take_all_names(&yours).is_empty());
        assert_eq!(take_all_names(&all), ["list"]);
        all.mark([&"files".into(), &"unknown".into()]);
        assert_eq!(take_all_names(&all), ["files"], "what it has no name for is nothing");
    }

    #[test]
    fn repeated_changes_mark_a_name_once_in_order() {
        let notifier = Notifier::default();
        let listener = notifier.new_listener();
        for name in ["a", "b", "c"] {
            listener.subscribe(&name.into(), Some(execution_topic(name)));
        }
        for _ in 0..1000 {
            notifier.notify(&execution_id("b"));
            notifier.notify(&execution_id("a"));
        }
        assert_eq!(listener.take_marked_name().as_deref(), Some("b"));
        notifier.notify(&execution_id("b"));
        notifier.notify(&execution_id("c"));
        assert_eq!(take_all_names(&listener), ["a", "b", "c"], "who moves most is not first");
    }

    #[test]
    fn removed_names_are_forgotten() {
        let notifier = Notifier::default();
        let listener = notifier.new_listener();
        listener.subscribe(&"a".into(), Some(execution_topic("a")));
        listener.subscribe(&"b".into(), Some(execution_topic("a")));
        notifier.notify(&execution_id("a"));
        assert!(listener.remove("a"));
        assert!(listener.subscribe(&"a".into(), Some(execution_topic("a"))));
        assert_eq!(take_all_names(&listener), ["b"]);
        notifier.notify(&execution_id("a"));
        let mut names = take_all_names(&listener);
        names.sort();
        assert_eq!(names, ["a", "b"]);
    }

    #[tokio::test]
    async fn a_change_before_the_wait_is_not_missed() {
        let notifier = Notifier::default();
        let listener = notifier.new_listener();
        listener.subscribe(&"a".into(), Some(execution_topic("a")));
        for _ in 0..1000 {
            let notification = tokio::spawn({
                let notifier = notifier.clone();
                async move { notifier.notify(&execution_id("a")) }
            });
            let wait_result = tokio::time::timeout(
                std::time::Duration::from_secs(60),
                listener.wait_for_change(),
            );
            wait_result.await.expect("it is heard");
            assert_eq!(take_all_names(&listener), ["a"]);
            notification.await.expect("no panic");
        }
    }
}
