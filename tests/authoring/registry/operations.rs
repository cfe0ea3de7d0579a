//! Steps call the operations of the catalogs that there are, with the arguments that those take.

use std::sync::Arc;

use midex_domain::{
    OperationClass,
    check::{
        Argument, BodyFields, OperationLookup, OperationLookupResult, OperationSignature,
        OperationsSnapshot, ServerCapabilities,
    },
    definition::CatalogRequirement,
    error::Violation,
    finding::Rule,
};
use midex_registry::check_text;
use serde_json::Value;

use super::*;
use midex_test::rows;

/// A shop with two operations, and a catalog that is disabled.
#[derive(Debug)]
struct Shop;

fn argument(name: &str, is_required: bool) -> Argument {
    let name = name.to_owned();
    Argument { name, is_required, is_header: false }
}

impl OperationLookup for Shop {
    fn find_operation(&self, catalog: &str, operation: &str) -> OperationLookupResult {
        let callable = |class, arguments: &[Argument], body| {
            OperationLookupResult::Operation(Arc::new(OperationSignature {
                class,
                arguments: arguments.to_vec(),
                body,
                output: None,
                items_path: None,
                has_pages: true,
                uncallable_reason: None,
            }))
        };
        match (catalog, operation) {
            ("shop", "orders:info") => {
                let arguments = [argument("order", true), argument("expand", false)];
                callable(OperationClass::Safe, &arguments, None)
            }
            ("shop", "orders:create") => {
                let body = BodyFields {
                    is_required: true,
                    fields: vec![argument("item", true), argument("note", false)],
                    is_extensible: false,
                };
                callable(OperationClass::Standard, &[argument("shop", true)], Some(body))
            }
            ("shop", _) => OperationLookupResult::NoOperation(Some("orders:info".to_owned())),
            ("closed", _) => OperationLookupResult::Disabled,
            ("twice", _) => {
                OperationLookupResult::Ambiguous(vec!["one".to_owned(), "two".to_owned()])
            }
            _ => OperationLookupResult::NoCatalog(Some("shop".to_owned())),
        }
    }

    fn find_similar_provider(&self, _: &str, _: &str) -> Option<String> {
        None
    }

    fn validate_call(&self, _: (&str, &str), _: &Value, _: Option<&Value>) -> Vec<Violation> {
        Vec::new()
    }

    fn is_requirement_met(&self, requirement: &CatalogRequirement) -> bool {
        requirement.vendor == "shop"
    }

    fn find_disabled_catalog(&self, _: &CatalogRequirement) -> Option<String> {
        None
    }

    fn catalogs_version(&self) -> u64 {
        1
    }
}

fn registry() -> Registry {
    let abilities = ServerCapabilities {
        operations: Some(OperationsSnapshot::capture(Arc::new(Shop))),
        ..ServerCapabilities::default()
    };
    Registry::load_with_abilities(&Sources::default(), &abilities)
}

/// What is found in a manifest with this one step: places, and the first suggestion.
fn found(head: &str, step: &str) -> (Vec<String>, String) {
    let text = format!("workflow: w\ndescription: d\n{head}steps:\n  - {{ id: a, {step} }}\n");
    let (_, findings) = check_text("w.yaml", &text, &registry());
    let told = |finding: &&Finding| format!("{} {}", finding.rule, finding.path);
    // The order that is made is one that nobody is asked about.
    let own = |finding: &&Finding| finding.rule != Rule::MutationWithoutGate;
    let findings: Vec<_> = findings.iter().filter(own).collect();
    let first = findings.first().and_then(|first| first.suggestion.clone());
    (findings.iter().map(told).collect(), first.unwrap_or_default())
}

#[test]
fn a_step_gives_what_its_operation_takes() {
    for [step, told, hint] in rows(
        r#"
        "run: shop orders:info, with: { order: 1 }", "", ""
        "run: shop orders:info, with: { order: 1, expand: x }", "", ""
        "run: shop orders:create, with: { shop: 1, item: 2 }", "", ""
        "run: shop orders:create, with: { shop: 1 }, body: { item: 2 }", "", ""
        "run: shop order:info, with: { order: 1 }", "unknown_operation steps[0].run", "did you mean `orders:info`?"
        "run: shopp orders:info", "unknown_catalog steps[0].run", "did you mean `shop`?"
        "run: closed orders:info", "unknown_catalog steps[0].run", "enable it: catalog.set_enabled with catalog_id 'closed' and enabled 'true'"
        "run: twice orders:info", "unknown_operation steps[0].run", "name the one that is meant by its id"
        "run: shop orders:info", "missing_argument steps[0].run", "give `order` under `with`"
        "run: shop orders:info, with: { order: 1, expnd: x }", "unknown_argument steps[0].with.expnd", "did you mean `expand`?"
        "run: shop orders:info, with: { order: 1 }, body: {}", "no_effect steps[0].body", "leave it out"
        "run: shop orders:create, with: { shop: 1 }", "missing_argument steps[0].run", "give `item` under `with`"
        "run: shop orders:create, with: { shop: 1, item: 2 }, body: {}", "unknown_argument steps[0].with.item", "it takes shop"
        "foreach: { in: [1], do: { run: shop orders:info } }", "missing_argument steps[0].foreach.do.run", "give `order` under `with`"
        "#,
    ) {
        let (places, suggestion) = found("", step);
        let told: Vec<_> = [told].into_iter().filter(|told| !told.is_empty()).collect();
        assert_eq!(places, *told);
        assert_eq!(suggestion.as_str(), hint, "{step}");
    }
}

#[test]
fn operations_of_a_catalog_that_is_required_and_not_there_are_not_judged() {
    let requires = "requires: { catalogs: [{ vendor: render, source: ./render.yaml }] }\n";
    let (places, hint) = found(requires, "run: render anything, with: { x: 1 }");
    assert_eq!(places, ["catalog_requirement requires.catalogs[0]"]);
    assert!(hint.contains("catalog.import_openapi with source './render.yaml'"), "{hint}");
    let there = "requires: { catalogs: [{ vendor: shop }] }\n";
    let (places, _) = found(there, "run: shop order:info");
    assert_eq!(places, ["unknown_operation steps[0].run"]);
}

#[test]
fn without_knowledge_of_catalogs_nothing_is_judged() {
    let registry = Registry::load(&Sources::default());
    let text = "workflow: w\ndescription: d\nsteps: [{ id: a, run: any thing }]\n";
    assert_eq!(check_text("w.yaml", text, &registry).1, []);
}
