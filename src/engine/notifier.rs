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
pub type Name = Arc<str>;

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
pub struct Notifier(Arc<Mutex<Subscriptions>>);

#[derive(Default)]
struct Subscriptions {
    one: HashMap<ExecutionId, Subscribers>,
    all: Subscribers,
    last: u64,
}

/// Subscriptions by the number of their listener.
type Subscribers = HashMap<u64, Subscription>;

/// A listener's subscription to one topic, under one or more names.
struct Subscription {
    pending: Arc<Pending>,
    names: HashSet<Name>,
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Notifier({} executions)", self.lock().one.len())
    }
}

impl Notifier {
    fn lock(&self) -> MutexGuard<'_, Subscriptions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new listener, without subscriptions.
    pub fn listener(&self) -> Listener {
        let mut subscriptions = self.lock();
        subscriptions.last += 1;
        Listener {
            number: subscriptions.last,
            notifier: self.clone(),
            pending: Arc::default(),
        }
    }

    /// Marks the listeners of an execution, after a transition of it became durable.
    pub(super) fn notify(&self, id: &ExecutionId) {
        let subscriptions = self.lock();
        let of_one = subscriptions.one.get(id).into_iter();
        let all = of_one.chain([&subscriptions.all]);
        for subscription in all.flat_map(HashMap::values) {
            subscription.pending.mark(&subscription.names);
        }
    }

    /// How many executions have listeners.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.lock().one.len()
    }
}

impl Subscriptions {
    fn subscribers(&mut self, topic: &Topic) -> &mut Subscribers {
        match topic {
            Topic::Execution(id) => self.one.entry(id.clone()).or_default(),
            Topic::Executions => &mut self.all,
        }
    }

    fn leave(&mut self, number: u64, topic: &Topic, name: &Name) {
        let subscribers = self.subscribers(topic);
        if let Some(subscription) = subscribers.get_mut(&number) {
            subscription.names.remove(name);
            if subscription.names.is_empty() {
                subscribers.remove(&number);
            }
        }
        if let Topic::Execution(id) = topic
            && self.one.get(id).is_some_and(HashMap::is_empty)
        {
            self.one.remove(id);
        }
    }
}

/// The names of one listener, and which of them are marked.
#[derive(Default)]
struct Pending {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Default)]
struct State {
    names: HashMap<Name, TopicChange>,
    /// The marked names, the longest waiting first. Each name is in the queue at most once.
    queue: VecDeque<Name>,
}

struct TopicChange {
    topic: Option<Topic>,
    is_waiting: bool,
}

impl Pending {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mark<'a>(&self, names: impl IntoIterator<Item = &'a Name>) {
        let mut state = self.lock();
        for name in names {
            if let Some(heard) = state.names.get_mut(name)
                && !heard.is_waiting
            {
                heard.is_waiting = true;
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
    pending: Arc<Pending>,
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listener({} names)", self.len())
    }
}

impl Listener {
    /// Subscribes to `topic` under this name, from now on. Without a topic, only [`Listener::mark`] marks the name.
    /// Returns false, and changes nothing, if the listener has the name already.
    pub fn add(&self, name: &Name, topic: Option<Topic>) -> bool {
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
        let heard = TopicChange {
            topic,
            is_waiting: false,
        };
        state.names.insert(name.clone(), heard);
        true
    }

    /// Removes this name with its subscription and its mark. Returns false if the listener has no such name.
    pub fn remove(&self, name: &str) -> bool {
        let mut subscriptions = self.notifier.lock();
        let mut state = self.pending.lock();
        let Some((name, heard)) = state.names.remove_entry(name) else {
            return false;
        };
        if heard.is_waiting {
            state.queue.retain(|waiting| *waiting != name);
        }
        if let Some(topic) = &heard.topic {
            subscriptions.leave(self.number, topic, &name);
        }
        true
    }

    /// Marks these names, as if their topics had moved. Names that the listener does not have are ignored.
    pub fn mark<'a>(&self, names: impl IntoIterator<Item = &'a Name>) {
        self.pending.mark(names);
    }

    /// Whether the listener has this name.
    pub fn has(&self, name: &str) -> bool {
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

    /// Whether a name is marked, so that [`Listener::take`] returns one.
    pub fn has_changed(&self) -> bool {
        !self.pending.lock().queue.is_empty()
    }

    /// Takes the marked name that has waited longest. From now on it can be marked again.
    pub fn take(&self) -> Option<Name> {
        let mut state = self.pending.lock();
        let name = state.queue.pop_front()?;
        if let Some(heard) = state.names.get_mut(&name) {
            heard.is_waiting = false;
        }
        Some(name)
    }

    /// Waits until a name is marked. Only one task may wait at a time.
    pub async fn changed(&self) {
        while !self.has_changed() {
            // A mark between the check and this wait is not lost: `Notify` stores its permit.
            self.pending.wake.notified().await;
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut subscriptions = self.notifier.lock();
        let names = std::mem::take(&mut self.pending.lock().names);
        for (name, heard) in &names {
            if let Some(topic) = &heard.topic {
                subscriptions.leave(self.number, topic, name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> ExecutionId {
        ExecutionId::parse(text).expect("an id")
    }

    fn one(text: &str) -> Topic {
        Topic::Execution(id(text))
    }

    fn taken(listener: &Listener) -> Vec<String> {
        std::iter::from_fn(|| listener.take())
            .map(|name| name.to_string())
            .collect()
    }

    #[tokio::test]
    async fn whoever_listens_is_told_and_nothing_is_left_behind() {
        let notifier = Notifier::default();
        notifier.notify(&id("one"));
        let (first, second) = (notifier.listener(), notifier.listener());
        assert!(first.add(&"a".into(), Some(one("one"))));
        assert!(!first.add(&"a".into(), Some(one("two"))), "it has the name");
        assert!(second.add(&"b".into(), Some(one("one"))));
        assert!(first.take().is_none(), "what was before is not heard of");
        notifier.notify(&id("one"));
        notifier.notify(&id("two"));
        first.changed().await;
        assert_eq!(taken(&first), ["a"]);
        assert_eq!(notifier.len(), 1);
        drop(second);
        assert_eq!(notifier.len(), 1);
        assert!(first.remove("a") && !first.remove("a"));
        assert_eq!((notifier.len(), first.len()), (0, 0));
        assert!(first.add(&"a".into(), Some(one("one"))));
        drop(first);
        assert_eq!(notifier.len(), 0);
    }

    #[test]
    fn a_move_is_heard_by_those_it_concerns_alone() {
        let notifier = Notifier::default();
        let (mine, yours, all) = (
            notifier.listener(),
            notifier.listener(),
            notifier.listener(),
        );
        mine.add(&"mine".into(), Some(one("mine")));
        yours.add(&"yours".into(), Some(one("yours")));
        all.add(&"list".into(), Some(Topic::Executions));
        all.add(&"files".into(), None);
        notifier.notify(&id("mine"));
        assert_eq!(taken(&mine), ["mine"]);
        assert!(taken(&yours).is_empty());
        assert_eq!(taken(&all), ["list"]);
        all.mark([&"files".into(), &"unknown".into()]);
        assert_eq!(taken(&all), ["files"], "what it has no name for is nothing");
    }

    #[test]
    fn however_often_it_moves_it_is_noted_once_and_in_turn() {
        let notifier = Notifier::default();
        let listener = notifier.listener();
        for name in ["a", "b", "c"] {
            listener.add(&name.into(), Some(one(name)));
        }
        for _ in 0..1000 {
            notifier.notify(&id("b"));
            notifier.notify(&id("a"));
        }
        assert_eq!(listener.take().as_deref(), Some("b"));
        notifier.notify(&id("b"));
        notifier.notify(&id("c"));
        assert_eq!(
            taken(&listener),
            ["a", "b", "c"],
            "who moves most is not first"
        );
    }

    #[test]
    fn what_is_no_longer_listened_to_is_forgotten() {
        let notifier = Notifier::default();
        let listener = notifier.listener();
        listener.add(&"a".into(), Some(one("a")));
        listener.add(&"b".into(), Some(one("a")));
        notifier.notify(&id("a"));
        assert!(listener.remove("a"));
        assert!(listener.add(&"a".into(), Some(one("a"))));
        assert_eq!(taken(&listener), ["b"]);
        notifier.notify(&id("a"));
        let mut heard = taken(&listener);
        heard.sort();
        assert_eq!(heard, ["a", "b"]);
    }

    #[tokio::test]
    async fn what_is_told_before_the_wait_is_not_missed() {
        let notifier = Notifier::default();
        let listener = notifier.listener();
        listener.add(&"a".into(), Some(one("a")));
        for _ in 0..1000 {
            let telling = tokio::spawn({
                let notifier = notifier.clone();
                async move { notifier.notify(&id("a")) }
            });
            let heard =
                tokio::time::timeout(std::time::Duration::from_secs(60), listener.changed());
            heard.await.expect("it is heard");
            assert_eq!(taken(&listener), ["a"]);
            telling.await.expect("no panic");
        }
    }
}
