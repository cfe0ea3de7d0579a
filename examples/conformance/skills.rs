//! One skill, as the skills extension has them.

use rmcp::{
    ErrorData,
    model::{Resource, ResourceContents, Skill, SkillFrontmatter, SkillResource, SkillResources},
};

pub(crate) const URI: &str = "skill://be-brief/SKILL.md";
const NAME: &str = "be-brief";
const ABOUT: &str = "How to say a thing in fewer words.";
const TEXT: &str = "---\nname: be-brief\ndescription: How to say a thing in fewer words.\n---\n\nSay it once, then stop.\n";

pub(crate) fn skill() -> Skill {
    let file = SkillResource::from_bytes(URI, TEXT.as_bytes());
    let frontmatter = SkillFrontmatter::new(NAME, ABOUT);
    Skill::new(URI, frontmatter, SkillResources::Files(vec![file]))
}

pub(crate) fn find(uri: &str) -> Result<Skill, ErrorData> {
    if uri == URI {
        return Ok(skill());
    }
    Err(ErrorData::invalid_params(format!("no skill is at `{uri}`"), None))
}

pub(crate) fn resource() -> Resource {
    Resource::new(URI, NAME).with_description(ABOUT).with_mime_type("text/markdown")
}

pub(crate) fn contents() -> ResourceContents {
    ResourceContents::text(TEXT, URI).with_mime_type("text/markdown")
}
