//! The workflows that children of random workflows follow: one after the other a few steps, the last of which may fail them.

use proptest::prelude::*;

use super::{Draft, Flow, Has, Kind, OnError, Spec, beside};

/// How many workflows there are for children. One of the second may have a child of the first.
pub(super) const COUNT: usize = 2;

/// What a manifest calls the workflow at this position.
pub(in crate::model::flow) const fn name(position: usize) -> &'static str {
    ["leaf", "middle"][position]
}

/// The workflows for children; none where there are to be none.
pub(super) fn children(has: Has) -> impl Strategy<Value = Vec<Flow>> {
    if !has.children {
        return Just(Vec::new()).boxed();
    }
    let leaf = child(Has { children: false, ..has });
    (leaf, child(has))
        .prop_filter_map("the check finds fault", |(leaf, middle)| {
            let leaf = leaf.checked(|_, _| 0)?;
            let middle = Draft { children: vec![leaf.clone()], ..middle };
            Some(vec![leaf, middle.checked(|_, _| 0)?])
        })
        .boxed()
}

/// Its first step is a model's: of children that begin together no two end together.
fn child(has: Has) -> BoxedStrategy<Draft> {
    let kind = prop_oneof![
        6 => Just(Kind::Guidance),
        2 => (0..2usize).prop_map(Kind::Count),
        u32::from(has.children) * 3 => Just(Kind::Child(0)),
    ];
    let on_error = prop_oneof![2 => Just(OnError::Fail), 1 => Just(OnError::Continue)];
    let own = Has { children: false, ..has };
    let rest = prop::collection::vec(step(kind, on_error.clone(), own), 0..2);
    let first = step(Just(Kind::Guidance), on_error, own);
    let fails = prop::bool::weighted(0.2);
    (first, rest, fails, beside::hooks(own))
        .prop_map(|(first, rest, fails, hooks)| {
            let mut steps = vec![first];
            steps.extend(rest);
            if fails {
                steps.push(plain(Kind::Fail, OnError::Fail));
            }
            Draft {
                provisions: steps.len(),
                steps,
                hooks,
                taken_back: vec!["failed", "abandoned"],
                children: Vec::new(),
            }
        })
        .boxed()
}

fn step(
    kind: impl Strategy<Value = Kind>,
    on_error: impl Strategy<Value = OnError>,
    has: Has,
) -> impl Strategy<Value = Spec> {
    (kind, on_error, beside::bodies(has))
        .prop_map(|(kind, on_error, beside)| Spec { beside, ..plain(kind, on_error) })
}

fn plain(kind: Kind, on_error: OnError) -> Spec {
    Spec { on_error, ..Spec::of(kind, None, None, None) }
}
