//! What was meant by the words of other systems. Before a document is read, keys that its place does not know but another
//! system does are found, and the tree then says what was meant: so one mistake is one finding, and the rest of the file
//! is checked as if it had been written right. What nothing is known of stays, for the reader to refuse.

mod outline;
mod values;

use super::{
    inputs::{DEFAULT, INPUT, VALIDATE},
    keys::{KINDS, Keys, STEP},
    mapping::join,
};
use crate::domain::{
    check::unknown_key,
    draft::Form,
    finding::{Finding, Rule},
    grammar::{
        self, Record, Shape,
        foreign::{self, Meant},
    },
    nearest::{is_sure, nearest},
    node::{Content, Entry, Node},
};

/// The keys that a mapping may have.
struct Known {
    what: &'static str,
    keys: Vec<&'static str>,
}

impl Known {
    fn keys(keys: &'static Keys) -> Self {
        let all = keys.read.iter().chain(keys.planned);
        Self {
            what: keys.what,
            keys: all.copied().collect(),
        }
    }

    fn record(record: &'static Record) -> Self {
        Self {
            what: record.what,
            keys: record.keys.iter().map(|key| key.name).collect(),
        }
    }

    fn has(&self, key: &str) -> bool {
        self.keys.contains(&key)
    }

    fn is_step(&self) -> bool {
        self.what == STEP.what
    }

    /// Whether `key` can still be given beside these entries. A step has one kind.
    fn is_free(&self, entries: &[Entry], key: &str) -> bool {
        let has = |key: &str| entries.iter().any(|entry| entry.key == key);
        let is_kind = self.is_step() && KINDS.contains(&key);
        let is_taken = has(key) || (is_kind && KINDS.iter().any(|kind| has(kind)));
        !is_taken
    }
}

/// Reads a document as it was meant.
struct Reader<'f> {
    found: &'f mut Vec<Finding>,
    /// Keys are written in quotes, so that no edit makes a mapping of a value.
    is_json: bool,
}

/// The document as it was meant, with a finding for each place where it says so in other words.
pub(super) fn document(
    found: &mut Vec<Finding>,
    document: &Node,
    form: Form,
    keys: &'static Keys,
) -> Node {
    let mut root = document.clone();
    let is_quoted = |entry: &Entry| entry.place.end - entry.place.start > entry.key.len();
    let is_json = root.entries().is_some_and(|all| all.iter().all(is_quoted));
    let mut reader = Reader { found, is_json };
    if let Content::Map(entries) = &mut root.content {
        reader.workflow(entries, form, keys);
    }
    root
}

impl Reader<'_> {
    fn workflow(&mut self, entries: &mut Vec<Entry>, form: Form, keys: &'static Keys) {
        self.hoist(entries, form.name_key(), keys);
        self.keys(entries, "", &Known::keys(keys));
        for entry in entries {
            match entry.key.as_str() {
                "inputs" if keys.knows("inputs") => self.inputs(&mut entry.value, "inputs"),
                key if key == form.steps_key() => self.steps(&mut entry.value, form),
                key if keys.knows(key) => {
                    if let Some(known) = grammar::WORKFLOW.iter().find(|known| known.name == key) {
                        self.shape(&mut entry.value, key, &known.shape);
                    }
                }
                _ => {}
            }
        }
    }

    fn inputs(&mut self, node: &mut Node, path: &str) {
        self.inputs_of_another_shape(node, path);
        let Content::Map(inputs) = &mut node.content else {
            return;
        };
        for entry in inputs {
            let path = join(path, &entry.key);
            self.input_as_its_type(&mut entry.value, &path);
            let Content::Map(entries) = &mut entry.value.content else {
                continue;
            };
            self.keys(entries, &path, &Known::keys(&INPUT));
            self.bare(entries, &path, INPUT.what);
            for (key, keys) in [("validate", &VALIDATE), ("default", &DEFAULT)] {
                let entry = entries.iter_mut().find(|entry| entry.key == key);
                if let Some(Content::Map(below)) = entry.map(|entry| &mut entry.value.content) {
                    self.keys(below, &join(&path, key), &Known::keys(keys));
                }
            }
        }
    }

    fn steps(&mut self, node: &mut Node, form: Form) {
        let path = form.steps_key();
        self.steps_as_a_mapping(node, path, form.id_key());
        let Content::List(steps) = &mut node.content else {
            return;
        };
        for (at, step) in steps.iter_mut().enumerate() {
            let path = format!("{path}[{at}]");
            match (&mut step.content, form) {
                (Content::Map(entries), Form::Manifest) => self.step(entries, &path),
                (Content::Map(entries), Form::Phases) => {
                    self.keys(entries, &path, &Known::keys(&super::keys::PHASE));
                }
                _ => {}
            }
        }
    }

    fn step(&mut self, entries: &mut Vec<Entry>, path: &str) {
        self.agent_as_a_mapping(entries, path);
        self.keys(entries, path, &Known::keys(&STEP));
        self.condition_on_the_end(entries, path);
        self.kind_under_type(entries, path);
        self.body_beside_foreach(entries, path);
        self.bare(entries, path, STEP.what);
        for entry in entries {
            let path = join(path, &entry.key);
            let kind = grammar::kind_of(&entry.key).map(|kind| &kind.key.shape);
            let field = grammar::field_of(&entry.key).map(|field| &field.key.shape);
            match entry.key.as_str() {
                "branch" => self.branch(&mut entry.value, &path),
                "depends_on" => self.ids_in_one_text(&mut entry.value, &path),
                _ => {
                    if let Some(shape) = kind.or(field) {
                        self.shape(&mut entry.value, &path, shape);
                    }
                }
            }
        }
    }

    /// What stands below, where the shape has keys of its own.
    fn shape(&mut self, node: &mut Node, path: &str, shape: &'static Shape) {
        let (Shape::Record(record) | Shape::TextOr(record)) = shape else {
            return;
        };
        let Content::Map(entries) = &mut node.content else {
            return;
        };
        self.keys(entries, path, &Known::record(record));
        for entry in entries {
            let path = join(path, &entry.key);
            let key = record.keys.iter().find(|key| key.name == entry.key);
            match key.map(|key| &key.shape) {
                Some(Shape::Step) => self.each(&mut entry.value, &path),
                Some(shape) => self.shape(&mut entry.value, &path, shape),
                None => {}
            }
        }
    }

    /// Reads the keys of one mapping as they were meant.
    fn keys(&mut self, entries: &mut Vec<Entry>, path: &str, known: &Known) {
        // Whether a text is what a step does or what it is told besides depends on who acts: that comes last.
        for is_last in [false, true] {
            let mut at = 0;
            while at < entries.len() {
                let before = entries.len();
                let mut site = Site {
                    entries,
                    at,
                    path,
                    known,
                };
                if site.is_due(is_last) {
                    self.key(&mut site);
                }
                at += usize::from(entries.len() == before);
            }
        }
    }

    fn key(&mut self, site: &mut Site<'_>) {
        let Some(meant) = site.meant() else {
            self.near(site);
            return;
        };
        match *meant {
            Meant::Key(keys) => {
                if let Some(key) = keys.iter().find(|key| site.is_free(key)) {
                    self.rename(site, key);
                }
            }
            Meant::KeyOrWords(key, words) => {
                if site.entry().value.entries().is_some() && site.is_free(key) {
                    self.rename(site, key);
                } else {
                    self.remove(site, words);
                }
            }
            Meant::Inside(outer, inner) => self.inside(site, (outer, inner), None),
            Meant::OneMore(outer, inner) => {
                let more = site
                    .entry()
                    .value
                    .count()
                    .map(|count| (count + 1).to_string());
                match (outer, more) {
                    (Some(outer), more) => self.inside(site, (outer, inner), more.as_deref()),
                    (None, Some(more)) => self.say(site, inner, &more),
                    (None, None) => {}
                }
            }
            Meant::Counted(key, unit) => match site.entry().value.count() {
                Some(count) => self.say(site, key, &format!("{count}{unit}")),
                None if site.is_free(key) => self.rename(site, key),
                None => {}
            },
            Meant::Flag(when, key, word) => match site.entry().value.content {
                Content::Bool(value) if value == when => self.say(site, key, word.as_str()),
                Content::Bool(_) => self.remove(site, flag_without_effect(key)),
                _ => {}
            },
            Meant::Words(words) => self.remove(site, words),
            Meant::Kind(words) => {
                self.tell(site, words);
                stand_in(&mut site.entries[site.at]);
            }
        }
    }

    /// A key that is a slip of one that the mapping knows.
    fn near(&mut self, site: &mut Site<'_>) {
        let entry = site.entry();
        let near = nearest(&entry.key, site.known.keys.iter().copied());
        if let Some(near) = near.filter(|near| site.is_free(near)) {
            let sure = is_sure(&entry.key, near).then_some(near);
            let finding = site.unknown().suggest(format!("did you mean `{near}`?"));
            self.found
                .push(finding.replace(entry.place, &entry.key, sure));
            site.call_it(near);
        }
    }

    /// The same value under another key.
    fn rename(&mut self, site: &mut Site<'_>, key: &str) {
        let entry = site.entry();
        self.found
            .push(site.unknown().is_called(entry.place, &entry.key, key));
        site.call_it(key);
        if key == "do" {
            self.body_as_a_list(site);
        }
    }

    /// Another value under another key.
    fn say(&mut self, site: &mut Site<'_>, key: &str, value: &str) {
        let finding = site.unknown().suggest(format!("write `{key}: {value}`"));
        if !site.is_free(key) {
            self.found.push(finding);
            site.entries.remove(site.at);
            return;
        }
        let entry = site.entry();
        let finding = finding.replace(entry.place, &entry.key, Some(key));
        let old = values::written(&entry.value).unwrap_or_default();
        let new = if self.is_json && value.parse::<f64>().is_err() && value != "true" {
            format!("\"{value}\"")
        } else {
            value.to_owned()
        };
        self.found
            .push(finding.rewrite(entry.value.place, &old, &new));
        site.call_it(key);
        let entry = &mut site.entries[site.at];
        entry.value = values::read(value, entry.value.place);
    }

    /// The finding for an entry for which nothing stands here.
    fn tell(&mut self, site: &Site<'_>, words: &str) {
        let id = site.entries.iter().find(|entry| entry.key == "id");
        let id = id.and_then(|entry| entry.value.text()).unwrap_or("ID");
        self.found
            .push(site.unknown().suggest(words.replace("{id}", id)));
    }

    /// The same, and the entry goes: in the tree always, by an edit where it is said that it can go.
    fn remove(&mut self, site: &mut Site<'_>, words: &str) {
        self.tell(site, words);
        if words.starts_with("remove it") {
            self.offer_to_cut(site);
        }
        site.entries.remove(site.at);
    }

    fn offer_to_cut(&mut self, site: &Site<'_>) {
        let entry = site.entry();
        let is_on_one_line = values::written(&entry.value).is_some();
        let next = site.entries.get(site.at + 1).map(|next| next.place);
        if let Some(finding) = self.found.pop_if(|_| is_on_one_line) {
            self.found
                .push(finding.cut(entry.place, next, entry.value.place));
        }
    }

    /// `sleep: 5m` as `wait: { for: 5m }`; beside a mapping that is there already it goes into that one.
    fn inside(&mut self, site: &mut Site<'_>, (outer, inner): (&str, &str), value: Option<&str>) {
        let entry = site.entry();
        let shown = value.map_or_else(|| values::shown(&entry.value), str::to_owned);
        let mut moved = entry.clone();
        inner.clone_into(&mut moved.key);
        if let Some(value) = value {
            moved.value = values::read(value, moved.value.place);
        }
        if site.is_free(outer) {
            let finding = site
                .unknown()
                .suggest(format!("write `{outer}: {{ {inner}: {shown} }}`"));
            let finding = finding.replace(entry.place, &entry.key, Some(outer));
            let before = format!("{inner}: ");
            self.found
                .push(self.wrapped(finding, &entry.value, &before, value));
            site.call_it(outer);
            let entry = &mut site.entries[site.at];
            entry.value = values::mapping(entry.place, vec![moved]);
            return;
        }
        let hint = format!("write it inside `{outer}`: `{inner}: {shown}`");
        self.found.push(site.unknown().suggest(hint));
        site.entries.remove(site.at);
        let there = site.entries.iter_mut().find(|entry| entry.key == outer);
        if let Some(Content::Map(below)) = there.map(|entry| &mut entry.value.content)
            && below.iter().all(|entry| entry.key != inner)
        {
            below.push(moved);
        }
    }

    /// The finding with the edit that makes a mapping of a value on one line, whose first keys are `before`. The value may be
    /// another one then.
    fn wrapped(&self, finding: Finding, node: &Node, before: &str, value: Option<&str>) -> Finding {
        if self.is_json {
            // Keys need quotes there: it is left to the author.
            return finding.by_hand();
        }
        let (open, close) = (format!("{{ {before}"), " }");
        match (values::written(node), value) {
            (Some(old), Some(value)) => {
                finding.rewrite(node.place, &old, &format!("{open}{value}{close}"))
            }
            (written, _) => {
                let written = written.filter(|_| node.items().is_none());
                finding.around(node.place, written, &open, close)
            }
        }
    }
}

/// One entry of a mapping that is being read.
struct Site<'e> {
    entries: &'e mut Vec<Entry>,
    at: usize,
    path: &'e str,
    known: &'e Known,
}

impl Site<'_> {
    fn entry(&self) -> &Entry {
        &self.entries[self.at]
    }

    fn meant(&self) -> Option<&'static Meant> {
        let has = |key: &str| self.entries.iter().any(|entry| entry.key == key);
        foreign::key(self.known.what, &self.entry().key, has)
    }

    /// Whether the key is a foreign one that is to be looked at now.
    fn is_due(&self, is_last: bool) -> bool {
        let meant = self.meant();
        let is_told = matches!(meant, Some(Meant::Key(keys)) if keys.contains(&"instructions"));
        let key = &self.entry().key;
        let is_first = self.entries.iter().position(|entry| entry.key == *key) == Some(self.at);
        is_first && (!self.known.has(key) || is_told) && is_told == is_last
    }

    fn is_free(&self, key: &str) -> bool {
        self.known.is_free(self.entries, key)
    }

    fn call_it(&mut self, key: &str) {
        key.clone_into(&mut self.entries[self.at].key);
    }

    /// The finding for the key. One that steps of another kind have is one kind too many.
    fn unknown(&self) -> Finding {
        let entry = self.entry();
        let path = join(self.path, &entry.key);
        if !self.known.has(&entry.key) {
            return unknown_key(self.known.what, entry, path);
        }
        let message = "a step has one kind: this one has another one".to_owned();
        Finding::new(Rule::SeveralKinds, path, entry.place, message)
    }
}

/// What is said of a flag that asks for what holds anyway.
fn flag_without_effect(key: &str) -> &'static str {
    match key {
        "optional" => "remove it: inputs are required unless they say `optional: true`",
        _ => "remove it: so it is without it",
    }
}

/// Lets a step say who acts where it does so in words that nothing stands for: the finding about them is enough.
fn stand_in(entry: &mut Entry) {
    "guidance".clone_into(&mut entry.key);
    entry.value.content = Content::Text("…".to_owned());
}
