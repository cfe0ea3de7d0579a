//! An execution and its children, each beside the interpreter of its workflow. Where no engine sees to children, the test does:
//! it begins them, tells them and reports their end, as late as a case will have it.

use std::collections::BTreeSet;

use midex_domain::{Command, ExecutionId, event};

use super::{
    Action, Deed,
    interpreter::{Key, Order},
    manifest::Flow,
    pair::{Pair, attempt_id},
};
use crate::model::driven::{ID, Subject};

pub(super) struct Family<'a, S> {
    /// The root first, then its children and theirs, in the order in which they were begun.
    members: Vec<Member<'a, S>>,
}

struct Member<'a, S> {
    pair: Pair<'a, S>,
    id: ExecutionId,
    /// The member that it is a child of, and for which visit.
    parent: Option<(usize, Key)>,
    /// Whether an engine attends to its children: one that was paused when everything was lost waits for its resume.
    is_attended: bool,
    /// Whether it was compared since something happened to it.
    is_checked: bool,
}

/// How long an engine is given to see to children; where nothing moves any more, time passes at once.
const SETTLED: std::time::Duration = std::time::Duration::from_millis(20);

impl<'a, S: Subject> Family<'a, S> {
    pub(super) async fn run(flow: &'a Flow, deeds: &[Deed], mut root: S) {
        let answer = root.start(ID, true).await.expect("a start");
        let mut family = Self {
            members: vec![Member {
                pair: Pair::of(flow, root),
                id: ExecutionId::parse(ID).expect("an id"),
                parent: None,
                is_attended: true,
                is_checked: false,
            }],
        };
        family.members[0].pair.check_answer(&answer, &[]);
        family.see_to(usize::MAX, flow).await;
        for deed in deeds {
            let who = deed.who % family.members.len();
            family.act(who, &deed.action).await;
            family.see_to(deed.sees_to, flow).await;
        }
        family.see_to(usize::MAX, flow).await;
        family.check_all(true).await;
    }

    async fn act(&mut self, who: usize, action: &Action) {
        let now = self.members[0].pair.subject.now();
        for member in &mut self.members {
            member.pair.model.now = now;
        }
        // Time passes for all, and only a root has timers; what is lost is lost of all.
        let who = match action {
            Action::Pass { .. } | Action::Restart => 0,
            _ => who,
        };
        self.members[who].pair.act(action).await;
        self.members[who].is_checked = false;
        if matches!(action, Action::Restart) {
            self.restart_below().await;
        }
    }

    async fn restart_below(&mut self) {
        let is_whole = self.members[0].pair.subject.keeps_time();
        let (root, below) = self.members.split_first_mut().expect("a root");
        for member in below {
            let subject = &mut member.pair.subject;
            subject.restart_below(&root.pair.subject).await;
        }
        for member in &mut self.members {
            member.is_checked = false;
            member.is_attended = !is_whole || member.pair.model.state == "running";
        }
    }

    /// Does at most so much of what is to be done for children, and compares.
    async fn see_to(&mut self, most: usize, flow: &Flow) {
        let is_whole = self.members[0].pair.subject.keeps_time();
        let most = if is_whole { usize::MAX } else { most };
        if is_whole && !flow.children.is_empty() {
            tokio::time::sleep(SETTLED).await;
        }
        for _ in 0..most {
            for member in &mut self.members {
                member.is_attended |= member.pair.model.state == "running";
            }
            if !(self.begin_one().await || self.tell_one().await || self.report_one().await) {
                break;
            }
            if !is_whole {
                self.check_all(false).await;
            }
        }
        self.check_all(false).await;
    }

    fn child(&self, parent: usize, key: Key) -> Option<usize> {
        let is_it = |member: &Member<'_, S>| member.parent == Some((parent, key));
        self.members.iter().position(is_it)
    }

    /// Begins the first child that is waited for and not there.
    async fn begin_one(&mut self) -> bool {
        let attended = self.members.iter().enumerate();
        let awaited = attended.filter(|(_, member)| member.is_attended).flat_map(|(at, member)| {
            let awaited = member.pair.model.awaited().into_iter();
            awaited.map(move |(key, flow)| (at, key, flow))
        });
        let mut missing = awaited.filter(|(at, key, _)| self.child(*at, *key).is_none());
        let Some((at, key, flow)) = missing.next() else {
            return false;
        };
        drop(missing);
        let parent = &mut self.members[at];
        let attempt_id = attempt_id(&parent.pair.model, key);
        let definition = flow.definition.clone();
        let subject = parent.pair.subject.child(&attempt_id, definition).await;
        let id = attempt_id.child_execution_id(&parent.id);
        let is_new = self.members.iter().all(|member| member.id != id);
        assert!(is_new, "{id} is a child of two visits");
        self.members.push(Member {
            pair: Pair::of(flow, subject),
            id,
            parent: Some((at, key)),
            is_attended: true,
            is_checked: false,
        });
        true
    }

    /// Carries out the first order; it means nothing to a child that never began.
    async fn tell_one(&mut self) -> bool {
        let members = self.members.iter().enumerate();
        let mut orders = members.filter_map(|(at, member)| {
            let order: &Order = member.pair.model.orders.first()?;
            Some((at, *order))
        });
        let Some((at, order)) = orders.next() else {
            return false;
        };
        drop(orders);
        if let Some(child) = self.child(at, order.key) {
            let child = &mut self.members[child];
            child.pair.model.obey(order.what);
            let command = Command::ApplyParentOrder(order.what);
            child.pair.subject.hear(command).await;
            child.is_checked = false;
        }
        let parent = &mut self.members[at];
        let told = event::ChildOrder {
            child: attempt_id(&parent.pair.model, order.key).child_execution_id(&parent.id),
            what: order.what,
        };
        parent.pair.model.told(order);
        parent.pair.subject.hear(Command::MarkOrdersDelivered(vec![told])).await;
        parent.is_checked = false;
        true
    }

    /// Tells a parent that waits for it of the end of its child.
    async fn report_one(&mut self) -> bool {
        let ended = self.members.iter().filter_map(|child| {
            let (parent, key) = child.parent.filter(|_| child.pair.model.has_ended())?;
            let above = &self.members[parent];
            let mut awaited = above.pair.model.awaited().into_iter();
            let is_awaited = above.is_attended && awaited.any(|(awaited, _)| awaited == key);
            is_awaited.then_some((child, parent, key))
        });
        let Some((child, parent, key)) = ended.into_iter().next() else {
            return false;
        };
        let outcome = child.pair.model.came_of();
        if let (Ok(expected), Some(output)) = (&outcome, child.pair.subject.output()) {
            assert_eq!(output, *expected, "what the child came to");
        }
        let parent = &mut self.members[parent];
        parent.pair.came(key, outcome).await;
        parent.is_checked = false;
        true
    }

    async fn check_all(&mut self, again: bool) {
        for member in &mut self.members {
            if again || !member.is_checked {
                member.pair.check().await;
                member.is_checked = true;
            }
        }
        if let Some(all) = self.members[0].pair.subject.all().await {
            let members = self.members.iter();
            let members: BTreeSet<_> = members.map(|member| member.id.to_string()).collect();
            assert_eq!(all, members, "the executions that there are");
        }
    }
}
