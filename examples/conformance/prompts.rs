//! The prompts, and the completion of their arguments.

use rmcp::{
    ErrorData,
    model::{
        ContentBlock, GetPromptRequestParams, GetPromptResponse, GetPromptResult, JsonObject,
        Prompt, PromptArgument, PromptMessage, ResourceContents, Role,
    },
};
use serde_json::json;

use crate::{
    content::{PNG, word},
    rounds::{field, form, typed},
};

/// Each prompt: its name, what it is for, the arguments it must be given.
const PROMPTS: &[(&str, &str, &[&str])] = &[
    ("test_simple_prompt", "Plain words", &[]),
    ("test_prompt_with_arguments", "Words with two arguments in them", &["arg1", "arg2"]),
    ("test_prompt_with_embedded_resource", "Words about a resource", &["resourceUri"]),
    ("test_prompt_with_image", "Words about a picture", &[]),
    ("test_input_required_result_prompt", "Words that need an answer first", &[]),
];

/// What the first argument of the prompt with arguments may be completed to.
const WORDS: &[&str] = &["paris", "park", "party"];

pub(crate) fn list() -> Vec<Prompt> {
    let argument = |name: &&str| PromptArgument::new(*name).with_required(true);
    let prompt = |(name, about, arguments): &(&str, &str, &[&str])| {
        let arguments: Vec<_> = arguments.iter().map(argument).collect();
        let arguments = (!arguments.is_empty()).then_some(arguments);
        Prompt::new(*name, Some(*about), arguments)
    };
    PROMPTS.iter().map(prompt).collect()
}

pub(crate) fn complete(prompt: &str, beginning: &str) -> Vec<String> {
    if prompt != "test_prompt_with_arguments" {
        return Vec::new();
    }
    let fits = |word: &&&str| word.starts_with(beginning);
    WORDS.iter().filter(fits).map(|word| (*word).to_owned()).collect()
}

pub(crate) fn get(request: GetPromptRequestParams) -> Result<GetPromptResponse, ErrorData> {
    let GetPromptRequestParams { name, arguments, input_responses, .. } = request;
    let arguments = arguments.unwrap_or_default();
    let known = PROMPTS.iter().find(|(known, ..)| *known == name);
    let Some((name, _, needed)) = known else {
        return Err(ErrorData::invalid_params(format!("no prompt is named `{name}`"), None));
    };
    if let Some(missing) = needed.iter().find(|needed| !arguments.contains_key(**needed)) {
        return Err(ErrorData::invalid_params(format!("`{name}` needs `{missing}`"), None));
    }
    let messages = match *name {
        "test_simple_prompt" => vec![user("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => vec![user(two(&arguments))],
        "test_prompt_with_embedded_resource" => about_resource(&arguments),
        "test_prompt_with_image" => about_picture(),
        _ => match field(&input_responses.unwrap_or_default(), "user_context", "context") {
            Some(context) => vec![user(format!("Answer with this in mind: {context}"))],
            None => return ask_context(),
        },
    };
    Ok(GetPromptResult::new(messages).into())
}

fn user(text: impl Into<String>) -> PromptMessage {
    PromptMessage::new(Role::User, ContentBlock::text(text))
}

fn two(arguments: &JsonObject) -> String {
    let (first, second) = (word(arguments, "arg1"), word(arguments, "arg2"));
    format!("Prompt with arguments: arg1='{first}', arg2='{second}'")
}

fn about_resource(arguments: &JsonObject) -> Vec<PromptMessage> {
    let uri = word(arguments, "resourceUri");
    let resource = ResourceContents::text("Embedded resource content for testing.", uri);
    let resource = ContentBlock::resource(resource.with_mime_type("text/plain"));
    vec![
        PromptMessage::new(Role::User, resource),
        user("Please process the embedded resource above."),
    ]
}

fn about_picture() -> Vec<PromptMessage> {
    vec![
        PromptMessage::new(Role::User, ContentBlock::image(PNG, "image/png")),
        user("Please analyze the image above."),
    ]
}

fn ask_context() -> Result<GetPromptResponse, ErrorData> {
    let question = form("What context should the prompt use?", "context", "string");
    let questions = typed(json!({ "user_context": question }))?;
    Ok(rmcp::model::InputRequiredResult::from_input_requests(questions).into())
}
