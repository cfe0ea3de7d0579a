//! Commands and tools that write into a repository never write through its links to elsewhere.

use midex_domain::{
    WorkflowName,
    error::{Code, Result},
};
use midex_registry::{
    DefinitionTemplate, ExistingFilePolicy, Format, Manifest, SaveRequest, create_definition,
};
use midex_server::{app::App, config::AuthorTarget};

use super::{CANARY, World};

const TEXT: &str = "workflow: mine\ndescription: d\nsteps:\n  - { id: a, guidance: g }\n";

async fn save(world: &World) -> Result<()> {
    let mut config = world.config();
    config.author_to = AuthorTarget::Project;
    let clock = std::sync::Arc::new(midex_domain::clock::SystemClock);
    let ids = std::sync::Arc::new(midex_domain::clock::SeededIds::new(1));
    let save = SaveRequest {
        manifest: Manifest::from_text(TEXT.to_owned(), None),
        should_overwrite: true,
        expected_version: None,
    };
    App::new(config, clock, ids).save_workflow(save).await.map(drop)
}

#[tokio::test]
async fn no_save_passes_a_link_out_of_the_project() {
    for (path, target) in
        [("workflows", "OUTSIDE"), ("workflows", "../outside"), ("workflows", "OUTSIDE/new")]
    {
        let world = World::new(&[], &[(path, target)]);
        let before = world.outside();
        let refused = save(&world).await.expect_err(target);
        assert_eq!(refused.code(), Code::FileUnusable, "{target}: {refused:?}");
        assert!(refused.message().contains("leads "), "{refused:?}");
        assert!(world.outside() == before, "{target}");
        let name = WorkflowName::parse("mine").expect("a name");
        let template = DefinitionTemplate::new_workflow(&name, Format::Yaml);
        let refused = create_definition(&template, &world.path("repo"), ExistingFilePolicy::Keep);
        refused.expect_err("a link");
        assert!(world.outside() == before, "{target}");
    }
    // A link that stays in the project is one of its own ways.
    let world = World::new(&[("real/readme", "x")], &[("workflows", "real")]);
    save(&world).await.expect("a save");
    assert!(world.path("repo/real/mine.yaml").exists());
}

#[test]
fn no_installation_passes_a_link_out_of_the_project() {
    let install = ["install", "--client", "cursor", "--scope", "project"];
    for (path, target) in [
        (".cursor", "OUTSIDE"),
        (".cursor/mcp.json", "OUTSIDE/mcp.json"),
        (".cursor", "OUTSIDE/new"),
    ] {
        let world = World::new(&[], &[(path, target)]);
        let before = world.outside();
        let refused = world.midex(&install);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success(), "{path}: {said}");
        assert!(said.contains("leads "), "{said}");
        assert!(!said.contains(CANARY), "{said}");
        assert!(world.outside() == before, "{path}");
    }
    let world = World::new(&[("settings/readme", "x")], &[(".cursor", "settings")]);
    assert!(world.midex(&install).status.success());
    assert!(world.path("repo/settings/mcp.json").exists());
}
