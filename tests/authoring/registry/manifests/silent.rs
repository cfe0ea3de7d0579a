//! What would be lost without a word: instructions under a heading that is nearly right, a text cut by a comment, an
//! expression where none is evaluated, documents of other systems.

use midex_registry::check_text;

use super::*;
use midex_test::rows;

/// All findings, also those that the other fixtures of manifests leave out.
fn checked(name: &str, text: &str) -> (Option<Workflow>, Vec<Finding>) {
    check_text(name, text, &SHIPPED)
}

#[track_caller]
fn sound_at(name: &str, text: &str) -> Workflow {
    without_findings(text, checked(name, text))
}

#[track_caller]
fn sound(text: &str) -> Workflow {
    sound_at("w.yaml", text)
}

/// A manifest in Markdown with one step, `write`, and this body.
fn body(body: &str) -> String {
    format!(
        "---\nworkflow: w\ndescription: d\nsteps:\n  - {{ id: write, agent: implementer }}\n---\n{body}"
    )
}

/// The rules of the findings of a manifest.
fn rules(name: &str, text: &str) -> Vec<&'static str> {
    let findings = checked(name, text).1;
    findings.iter().map(|one| one.rule.as_str()).collect()
}

/// The one finding of a manifest.
#[track_caller]
fn only(text: &str) -> Finding {
    only_in("w.yaml", text)
}

#[track_caller]
fn only_in(name: &str, text: &str) -> Finding {
    let mut findings = checked(name, text).1;
    assert_eq!(findings.len(), 1, "{text}\n{findings:#?}");
    findings.remove(0)
}

#[track_caller]
fn says(finding: &Finding, words: &str) {
    let hint = finding.suggestion.as_deref().unwrap_or_default();
    assert!(hint.contains(words) || finding.message.contains(words), "{words}: {finding:#?}");
}

#[test]
fn a_heading_that_nearly_names_a_step_is_told_and_its_edit_mends_it() {
    let spellings = [
        "## Step: write",
        "### step: write",
        "# step: write",
        "## step write",
        "## **step: write**",
        "##step: write",
        "## Step 1: write",
        "## STEP: WRITE",
        "## Step 1 - write",
        "## write",
        "# Write",
        "#### `write`",
        "## Step write:",
        "## step : write",
        "## step. write",
        "## 1. write",
        "## __Step:__ write",
        "## [step: write]",
        "## The step: write ##",
    ];
    for spelling in spellings {
        let text = body(&format!("# A poem\n\n{spelling}\n\nWrite about the orange.\n"));
        let findings = checked("w.md", &text).1;
        if spelling.contains("The step") {
            assert!(findings.is_empty(), "no step is named first: {findings:#?}");
            continue;
        }
        assert_eq!(rules("w.md", &text), ["unknown_section"], "{spelling}\n{findings:#?}");
        says(&findings[0], "write `## step: write`");
        let mended = crate::corpus::edited(&text, findings[0].edits.clone());
        let workflow = sound_at("w.md", &mended);
        let said = workflow.steps[0].instructions.as_deref().unwrap_or_default();
        assert!(said.contains("Write about the orange."), "{spelling}");
    }
    for spelling in ["## Step one", "## Steps", "## Step 2", "# step"] {
        let text = body(&format!("{spelling}\n\nWrite about the orange.\n"));
        let finding = only_in("w.md", &text);
        assert_eq!(finding.rule, Rule::UnknownSection, "{spelling}");
        says(&finding, "`## step: write`");
        assert!(finding.edits.is_empty(), "{spelling}");
    }
}

#[test]
fn what_stands_in_a_section_or_names_no_step_is_no_heading_of_one() {
    for text in [
        "# A poem\n\nStepping stones.\n\n## Stepping back\n\nx\n",
        "## step: write\n\n### Step 1\n\nRead it.\n\n### write\n\nWrite it.\n",
        "```\n## Step: write\n```\n\n    # step: write\n",
        "Text\n---\n\n## Notes on writing\n",
    ] {
        sound_at("w.md", &body(text));
    }
    // A section that another one would take in belongs to its step.
    let two = "---\nworkflow: w\ndescription: d\nsteps:\n  - { id: a, agent: reviewer }\n  - { id: b, agent: reviewer }\n---\n## step: a\n\nLook.\n\n### step: b\n\nLook again.\n";
    assert_eq!(rules("w.md", two), ["unknown_section"]);
    // Front matter with phases hands out its body as a whole.
    let phases = "---\nname: w\ndescription: d\nphases:\n  - { phase: a, agent: reviewer }\n---\n## Step a\n\nx\n";
    sound_at("w.md", phases);
}

#[test]
fn a_comment_that_cuts_a_text_is_told_with_the_text_in_quotes() {
    let of = |line: &str| {
        format!(
            "workflow: w\ndescription: d\ninputs: {{ issue: {{ type: integer, example: 1 }} }}\nsteps:\n  - id: a\n    {line}\n"
        )
    };
    for (line, whole) in [
        ("guidance: Read issue #${{ inputs.issue }}", "\"Read issue #${{ inputs.issue }}\""),
        ("guidance: Tag it #urgent now", "\"Tag it #urgent now\""),
        ("guidance: Say \"hi\" # to ${{ inputs.issue }}", "'Say \"hi\" # to ${{ inputs.issue }}'"),
        ("guidance: Use color\t#fff", "#fff"),
    ] {
        let text = of(line);
        let (workflow, findings) = checked("w.yaml", &text);
        assert!(workflow.is_some(), "{line}");
        assert_eq!(rules("w.yaml", &text), ["cut_by_comment"], "{line}\n{findings:#?}");
        assert_eq!(findings[0].line, 6);
        assert_eq!(findings[0].path.as_str(), "steps[0].guidance");
        says(&findings[0], whole);
    }
    let text = of("guidance: Read issue #${{ inputs.issue }}");
    let mended = crate::corpus::edited(&text, only(&text).edits);
    assert!(mended.contains("guidance: \"Read issue #${{ inputs.issue }}\"\n"), "{mended}");
    sound(&mended);
    // Also in the list of a mapping, in a text of several lines, and in front matter.
    assert_eq!(rules("w.yaml", &of("guidance: Look\n      at issue #7")), ["cut_by_comment"]);
    assert_eq!(
        rules("w.yaml", &of("guidance: x\n    with:\n      all:\n        - see #7")),
        ["cut_by_comment"]
    );
    let front = "---\nworkflow: w\ndescription: See #7\nsteps:\n  - { id: a, guidance: x }\n---\n";
    assert_eq!(rules("w.md", front), ["cut_by_comment"]);
    for fine in [
        "guidance: Read it # the issue",
        "guidance: Read it #",
        "guidance: 'Read issue #7' #x",
        "guidance: Read issue#7",
        "guidance: | #x\n      Read #7",
        "guidance: Read it #: note",
    ] {
        sound(&of(fine));
    }
}

#[test]
fn an_expression_where_none_is_evaluated_is_one_finding() {
    let t = "\"${{ inputs.t }}\"";
    let of = |lines: &str| {
        format!(
            "workflow: w\ndescription: d\ninputs: {{ t: {{ type: string, example: grep }} }}\nsteps:\n{lines}\n"
        )
    };
    let steps = [
        format!("  - {{ id: a, tool: {t}, with: {{ q: x }} }}"),
        format!("  - {{ id: a, fail: {{ code: {t}, message: m }} }}"),
        format!("  - {{ id: a, workflow: {t} }}"),
        format!("  - {{ id: a, agent: {t} }}"),
        format!("  - {{ id: a, run: {t} }}"),
        "  - { id: a, run: \"shop ${{ inputs.t }}\" }".to_owned(),
        format!("  - {{ id: a, activity: {t} }}"),
        format!("  - {{ id: a, guidance: x, timeout: {t} }}"),
        format!("  - {{ id: a, guidance: x, max_visits: {t} }}"),
        format!("  - {{ id: a, guidance: x, optional: {t} }}"),
        format!("  - {{ id: a, guidance: x, retry: {{ max_attempts: {t} }} }}"),
        format!("  - {{ id: a, guidance: x, retry: {{ on: [{t}] }} }}"),
        format!("  - {{ id: a, gate: {{ ask: x, expires: {t} }} }}"),
        format!("  - {{ id: a, gate: {{ ask: x, approvers: [{t}] }} }}"),
        format!("  - {{ id: a, foreach: {{ in: [1], parallel: {t}, do: {{ guidance: x }} }} }}"),
        format!("  - {{ id: a, foreach: {{ in: [1], as: {t}, do: {{ guidance: x }} }} }}"),
        format!("  - {{ id: a, guidance: x, next: {t} }}"),
        format!("  - {{ id: a, guidance: x, on_error: {t} }}"),
        format!("  - {{ id: a, guidance: x, depends_on: [{t}] }}"),
        format!("  - {{ id: a, branch: [{{ next: {t} }}] }}"),
        format!("  - {{ id: {t}, guidance: x }}"),
        format!("  - {{ id: a, input: {{ properties: [{t}] }} }}"),
        format!("  - {{ id: a, guidance: x, run_when: {t} }}"),
        format!("  - {{ id: a, guidance: x }}\ntimeout: {t}"),
        format!("  - {{ id: a, guidance: x }}\nlimits: {{ max_steps: {t} }}"),
    ];
    for step in steps {
        let finding = only(&of(&step));
        assert_eq!(finding.rule.as_str(), "not_a_template", "{step}\n{finding:#?}");
        says(&finding, "no expression is evaluated");
        assert!(finding.edits.is_empty(), "{step}");
    }
    for (step, words) in [
        (format!("  - {{ id: a, workflow: {t} }}"), "`allow`"),
        (format!("  - {{ id: a, tool: {t} }}"), "`branch`"),
        (format!("  - {{ id: a, fail: {{ code: {t}, message: m }} }}"), "`message`"),
    ] {
        says(&only(&of(&step)), words);
    }
    // What people read is shown as it is: a warning.
    for text in [
        of("  - { id: a, guidance: x }")
            .replace("description: d", "description: About ${{ inputs.t }}"),
        of(&format!("  - {{ id: a, guidance: x }}\ntitle: {t}")),
        of(&format!("  - {{ id: a, guidance: x }}\ntags: [{t}]")),
        of(&format!("  - {{ id: a, guidance: x, description: {t} }}")),
        of(&format!("  - {{ id: a, guidance: x }}\nmetadata: {{ by: {t} }}")),
        of("  - { id: a, guidance: x }")
            .replace("example: grep", "hint: \"such as ${{ inputs.t }}\""),
        of(&format!("  - {{ id: a, guidance: x, example: {{ summary: {t} }} }}")),
    ] {
        let finding = only(&text);
        assert_eq!(finding.rule, Rule::LooksLikeExpression, "{text}");
        assert!(checked("w.yaml", &text).0.is_some());
    }
}

#[test]
fn an_expression_in_a_key_is_a_finding() {
    for line in [
        "run: a b\n    with: { \"${{ inputs.k }}\": 1 }",
        "run: a b\n    body: { deep: [{ \"x-${{ inputs.k }}\": 1 }] }",
        "guidance: x\n    with: { \"${{ inputs.k }}\": { a: 1 } }",
        "guidance: x\n    branches: { \"ok:true\": { toolName: t, parameters: { \"${{ inputs.k }}\": 1 } } }",
        "set: { notes: { \"${{ inputs.k }}\": 1 } }",
    ] {
        let text = format!(
            "workflow: w\ndescription: d\ninputs: {{ k: {{ type: string, example: x }} }}\nrequires: {{ catalogs: [{{ vendor: a }}] }}\nsteps:\n  - id: a\n    {line}\n"
        );
        let rules = rules("w.yaml", &text);
        assert_eq!(rules, ["not_a_template"], "{text}");
        says(&only(&text), "key");
    }
    let end = "workflow: w\ndescription: d\nsteps:\n  - { id: a, guidance: x }\nfinal_output: { \"${{ steps.a.summary }}\": 1 }\n";
    assert_eq!(rules("w.yaml", end), ["not_a_template"]);
}

#[test]
fn inputs_that_nobody_declares_are_told_once_with_the_lines_to_add() {
    let text = "workflow: w\ndescription: d\nsteps:\n  - id: a\n    guidance: Write on ${{ inputs.topic }} in a ${{ inputs.tone }} tone, ${{ inputs.topic }}.\n";
    let finding = only(text);
    assert_eq!(finding.rule.as_str(), "undeclared_input");
    assert!(finding.is_warning());
    says(&finding, "inputs: { tone: { type: string }, topic: { type: string } }");
    let mended = text
        .replace("steps:", "inputs: { tone: { type: string }, topic: { type: string } }\nsteps:");
    sound(&mended);
    // Whoever says what stands in knows that it may be missing.
    sound(
        &text
            .replace("topic }}", "topic | default('x') }}")
            .replace("tone }}", "tone | default('x') }}"),
    );
}

#[test]
fn how_to_write_the_signs_themselves_is_said_and_works() {
    for (inner, whole) in [
        ("github.head_ref", "${{ '${{ github.head_ref }}' }}"),
        ("runner.os", "${{ '${{ runner.os }}' }}"),
        ("github.event['x']", "${{ \"${{ github.event['x'] }}\" }}"),
    ] {
        let text = format!(
            "workflow: w\ndescription: d\nsteps:\n  - id: a\n    guidance: |\n      Write this line:\n      ref: ${{{{ {inner} }}}}\n"
        );
        let finding = only(&text);
        says(&finding, whole);
        let mended = crate::corpus::edited(&text, finding.edits.clone());
        assert!(mended.contains(whole), "{mended}");
        sound(&mended);
    }
    let other =
        "workflow: w\ndescription: d\nsteps:\n  - id: a\n    guidance: x ${{ something.else }}\n";
    says(&only(other), "${{ '${{ something.else }}' }}");
}

#[test]
fn a_document_of_another_system_is_one_finding() {
    for [name, what] in rows(
        r#"
        "arazzo: 1.0.1\ninfo: { title: Buy, version: 1.0.0 }\nsourceDescriptions: []\nworkflows: []\n", "Arazzo"
        "document: { dsl: 1.0.0, namespace: x, name: y, version: 0.1.0 }\ndo: []\n", "Serverless Workflow"
        "id: x\nspecVersion: '0.8'\nstates: [{ name: a, type: operation }]\nstart: a\n", "Serverless Workflow"
        "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nspec: { entrypoint: x }\n", "Argo"
        "apiVersion: tekton.dev/v1\nkind: Pipeline\nspec: {}\n", "Tekton"
        "apiVersion: v1\nkind: Pod\nspec: {}\n", "Kubernetes"
        "StartAt: A\nStates: { A: { Type: Succeed } }\n", "Step Functions"
        "name: x\nnodes: []\nconnections: {}\n", "n8n"
        "id: x\nnamespace: company.team\ntasks: []\n", "Kestra"
        "openapi: 3.0.3\ninfo: { title: A, version: '1' }\npaths: {}\n", "OpenAPI"
        "swagger: '2.0'\ninfo: { title: A, version: '1' }\npaths: {}\n", "OpenAPI"
        "asyncapi: 3.0.0\ninfo: { title: A, version: '1' }\n", "AsyncAPI"
        "on: push\njobs:\n  a: { runs-on: ubuntu-latest, steps: [{ run: make }] }\n", "GitHub Actions"
        "version: '2.1'\norbs: {}\njobs: {}\nworkflows: {}\n", "CircleCI"
        "crew: x\nagents: []\ntasks: []\n", "CrewAI"
        "version: '3'\nservices: { web: { image: x } }\n", "Compose"
        "- hosts: all\n  tasks: []\n", "Ansible"
        "#,
    ) {
        let finding = only(name);
        assert_eq!(finding.rule.as_str(), "foreign_document", "{name}\n{finding:#?}");
        says(&finding, what);
        let next = if what == "OpenAPI" { "midex catalog add" } else { "midex new workflow" };
        says(&finding, next);
        assert!(finding.edits.is_empty());
    }
    let state = "{\n  \"StartAt\": \"A\",\n  \"States\": { \"A\": { \"Type\": \"Succeed\" } }\n}\n";
    assert_eq!(only_in("w.json", state).rule.as_str(), "foreign_document");
    let front = "---\narazzo: 1.0.1\nworkflows: []\n---\n# x\n";
    assert_eq!(only_in("w.md", front).rule.as_str(), "foreign_document");
    // A manifest with a slip or with words of theirs stays one.
    for text in [
        "workflow: w\napiVersion: v1\nsteps: [{ id: a, guidance: x }]\n",
        "workflow: w\non: push\njobs: { a: { guidance: x } }\n",
        "workflow: w\nnodes: { a: { guidance: x } }\nconnections: []\n",
    ] {
        assert!(!rules("w.yaml", text).contains(&"foreign_document"), "{text}");
    }
}

#[test]
fn a_tag_for_not_a_list_for_do_and_a_flag_for_a_condition_are_understood() {
    let of = |line: &str| {
        format!(
            "workflow: w\ndescription: d\ninputs: {{ dry: {{ type: boolean, example: true }} }}\nsteps:\n  - id: a\n    guidance: x ${{{{ inputs.dry }}}}\n  - id: b\n    guidance: y\n    {line}\n"
        )
    };
    for line in ["if: !inputs.dry", "when: !inputs.dry", "if: !!inputs.dry", "if: ! inputs.dry"] {
        let finding = only(&of(line));
        assert_eq!(finding.line, 9, "{line}\n{finding:#?}");
        says(&finding, "`!` begins a tag of YAML");
        says(&finding, "not inputs.dry");
    }
    let text = of("if: !inputs.dry");
    let mended = crate::corpus::edited(&text, only(&text).edits);
    assert!(mended.contains("if: not inputs.dry\n"), "{mended}");
    sound(&mended);
    for line in ["if: true", "if: false", "when: true", "when: false"] {
        sound(&of(line));
    }
    for body in ["- guidance: y\n        - guidance: z", "- guidance: y"] {
        let text = of("x: y").replace(
            "    guidance: y\n    x: y\n",
            &format!("    foreach:\n      in: [1]\n      do:\n        {body}\n"),
        );
        let finding = only(&text);
        says(&finding, "do: { workflow: NAME");
        assert_eq!(finding.path, "steps[1].foreach.do");
    }
}

#[test]
fn a_reference_that_cannot_be_is_told() {
    let of = |read: &str| {
        format!(
            "workflow: w\ndescription: d\ninputs: {{ name: {{ type: string, example: a }}, files: {{ type: array, example: [a] }}, n: {{ type: integer, example: 1 }}, o: {{ type: object, example: {{}} }} }}\nmemory: {{ notes: [] }}\nsteps:\n  - {{ id: a, guidance: x }}\n  - {{ id: keep, set: {{ notes: [1], deep: {{ x: 1 }} }} }}\n  - {{ id: each, foreach: {{ in: [1], do: {{ guidance: x }} }} }}\n  - id: b\n    guidance: |\n      Read ${{{{ {read} }}}} of ${{{{ inputs.name }}}}, ${{{{ inputs.files }}}}, ${{{{ inputs.n }}}}, ${{{{ inputs.o }}}}.\n"
        )
    };
    for (read, words) in [
        ("steps.a.text", "summary"),
        ("steps.a.output.answer", "summary"),
        ("steps.keep.note", "notes"),
        ("steps.each.summary", "map(attribute='summary')"),
        ("steps.each[0].text", "summary"),
        ("steps.each.length", "| length"),
        ("inputs.name.length", "| length"),
        ("inputs.files.length", "| length"),
        ("inputs.files.first", "[0]"),
        ("inputs.n.x", "type integer"),
    ] {
        let finding = only(&of(read));
        let rules = [Rule::UnknownReference, Rule::UncertainReference];
        assert!(rules.contains(&finding.rule), "{read}\n{finding:#?}");
        let is_sure = !words.contains("summary");
        assert_eq!(finding.rule == rules[0], is_sure || read == "steps.each.summary", "{read}");
        says(&finding, words);
    }
    for fine in [
        "steps.a.summary",
        "steps.a.artifacts[0]",
        "steps.keep.notes",
        "steps.each[0].summary",
        "inputs.o.length",
        "inputs.files[0].x",
        "inputs.name[0]",
        "steps.a['anything'] | default('x')",
    ] {
        let (workflow, findings) = checked("w.yaml", &of(fine));
        assert!(workflow.is_some(), "{fine}\n{findings:#?}");
    }
    // A step that only runs after a failure has no output where it was passed.
    let handler = "workflow: w\ndescription: d\nsteps:\n  - { id: a, guidance: x, next: c }\n  - { id: b, run_when: failed, depends_on: [a], guidance: y }\n  - { id: c, guidance: \"${{ steps.b.summary }}\", depends_on: [a, b] }\n";
    let handler = handler.replace(", next: c", "");
    assert_eq!(rules("w.yaml", &handler), ["depends_on_conditional"]);
}

#[test]
fn the_final_output_is_read_as_carefully_as_a_step() {
    let of = |last: &str| {
        format!(
            "workflow: w\ndescription: d\ninputs: {{ deep: {{ type: boolean, example: true }} }}\nsteps:\n  - {{ id: a, guidance: x }}\n  - {{ id: dig, if: inputs.deep, guidance: x }}\n  - {{ id: each, foreach: {{ in: [1], do: {{ guidance: x, on_error: continue }} }} }}\nfinal_output: {{ x: \"${{{{ {last} }}}}\" }}\n"
        )
    };
    for (last, rule) in [
        ("steps.dig.summary", "depends_on_conditional"),
        ("steps.each.summary", "unknown_reference"),
        ("steps.each[0].summary", "uncertain_reference"),
        ("steps.a.text", "uncertain_reference"),
    ] {
        assert_eq!(rules("w.yaml", &of(last)), [rule], "{last}");
    }
    for fine in [
        "steps.dig.summary | default('none')",
        "steps.each | map(attribute='summary')",
        "steps.a.summary",
        "steps.each[0].summary | default('none')",
    ] {
        sound(&of(fine));
    }
}

#[test]
fn foreign_text_that_is_passed_on_is_a_warning_whatever_its_name() {
    for (text, words) in [
        ("Read {{ item }}.", ""),
        ("Read {{ customer.name }}.", ""),
        ("Read {{inputs.parameters.topic}}.", "${{ inputs.topic }}"),
        ("Read {{ topic }}.", "${{ inputs.topic }}"),
        ("Read {{steps.a.outputs.result}}.", "${{ steps.a.summary }}"),
        ("Read $(inputs.topic).", "${{ inputs.topic }}"),
        ("Read $(date).", ""),
        ("={{ $json.topic }}", "${{ inputs.topic }}"),
        ("={{ steps.a.summary }}", "${{ steps.a.summary }}"),
        ("Read ${topic}.", "${{ inputs.topic }}"),
    ] {
        let text = format!(
            "workflow: w\ndescription: d\ninputs: {{ topic: {{ type: string, example: x }} }}\nsteps:\n  - {{ id: a, guidance: x }}\n  - id: b\n    guidance: '{text}'\n"
        );
        let finding = only(&text);
        assert_eq!(finding.rule, Rule::LooksLikeExpression, "{text}\n{finding:#?}");
        says(&finding, words);
        let mended = crate::corpus::edited(&text, finding.edits.clone());
        assert_eq!(checked("w.yaml", &mended).1.is_empty(), !words.is_empty(), "{mended}");
    }
    for fine in [
        "Run `npm ci`, {\"a\": 1}.",
        "Costs $5 (five).",
        "{% if x %}",
        "{{",
        "a {{}} b",
        "{{ two words here }}",
    ] {
        let text =
            format!("workflow: w\ndescription: d\nsteps:\n  - id: b\n    guidance: '{fine}'\n");
        sound(&text);
    }
}

#[test]
fn short_words_are_not_likened_and_filters_of_elsewhere_are_known() {
    let of = |line: &str| {
        format!(
            "workflow: w\ndescription: d\nsteps:\n  - {{ id: send, guidance: x }}\n  - id: b\n    {line}\n"
        )
    };
    for line in [
        "guidance: x\n    depends_on: [sent]",
        "guidance: \"${{ steps.sand.summary }}\"",
        "guidance: x\n    next: seed",
    ] {
        let finding = only(&of(line));
        let hint = finding.suggestion.clone().unwrap_or_default();
        assert!(!hint.contains("did you mean") && finding.edits.is_empty(), "{line}\n{finding:#?}");
    }
    for (filter, words) in [
        ("list", "leave it out"),
        ("select", "selectattr"),
        ("title", "the filters are"),
        ("safe", "leave it out"),
    ] {
        let finding = only(&of(&format!("guidance: \"${{{{ [1] | {filter} }}}}\"")));
        says(&finding, words);
        let hint = finding.suggestion.clone().unwrap_or_default();
        assert!(!hint.contains("did you mean"), "{finding:#?}");
    }
}

#[test]
fn several_documents_and_a_closing_line_are_told_in_an_authors_words() {
    let one = "workflow: w\ndescription: d\nsteps:\n  - { id: a, guidance: x }\n";
    let finding = only(&format!("{one}---\n"));
    says(&finding, "remove the line `---`");
    sound(&crate::corpus::edited(&format!("{one}---\n"), finding.edits));
    for more in [
        "---\nworkflow: v\nsteps: [{ id: a, guidance: x }]\n",
        "---\n# a note\nmore: 1\n",
        "...\n---\na: 1\n",
    ] {
        let finding = only(&format!("{one}{more}"));
        says(&finding, "file of its own");
        assert!(finding.edits.is_empty());
        assert!(finding.line > 4, "{finding:#?}");
    }
    sound(&format!("---\n{one}"));
    sound(&format!("{one}...\n"));
}

#[test]
fn no_edit_drops_a_key_or_makes_another_kind_of_a_step() {
    let of = |line: &str| {
        format!(
            "workflow: w\ndescription: d\nsteps:\n  - id: a\n    guidance: x\n    {line}\n  - id: b\n    guidance: y\n"
        )
    };
    for line in [
        "model: gpt-4",
        "env: X",
        "output_var: text",
        "continue_on_error: false",
        "type: gate",
        "temperature: 0.5",
    ] {
        let finding = only(&of(line));
        assert!(finding.edits.is_empty(), "{line}\n{finding:#?}");
        says(&finding, "remove it");
    }
}

#[test]
fn a_secret_that_would_go_into_memory_is_a_finding() {
    let set = "workflow: w\ndescription: d\nsteps:\n  - { id: a, set: { key: \"${{ secrets.TOKEN }}\" } }\n";
    let memory = "workflow: w\ndescription: d\nmemory: { key: [\"Bearer ${{ secrets.TOKEN }}\"] }\nsteps:\n  - { id: a, guidance: x }\n";
    let hook = "workflow: w\ndescription: d\nsteps:\n  - { id: a, guidance: x, hooks: { on_success: { set: { key: \"${{ secrets.TOKEN }}\" } } } }\n";
    let child = "workflow: w\ndescription: d\nsteps:\n  - { id: a, workflow: feature-development, with: { task: \"${{ secrets.TOKEN }}\" } }\n";
    let end = "workflow: w\ndescription: d\nsteps:\n  - { id: a, guidance: x }\nfinal_output: \"${{ secrets.TOKEN }}\"\n";
    for text in [set, memory, hook, child, end] {
        let finding = only(text);
        assert_eq!(finding.rule.as_str(), "misplaced_secret", "{text}\n{finding:#?}");
        says(&finding, "TOKEN");
    }
    let of_activity = "workflow: w\ndescription: d\nsteps:\n  - { id: a, activity: build, idempotent: true, with: { key: \"${{ secrets.TOKEN }}\" } }\n";
    sound(of_activity);
}

#[test]
fn what_is_accepted_in_the_file_is_no_warning_any_more() {
    let text = "workflow: w\ndescription: d\nsteps:\n  - { id: a, activity: build }\n";
    assert_eq!(rules("w.yaml", text), ["mutation_without_gate"]);
    sound(&format!("accept: [mutation_without_gate] # runs at night, nobody is there\n{text}"));
    let other = checked("w.yaml", &format!("accept: [unused_input]\n{text}")).1;
    assert!(
        other.iter().any(|one| one.path == "accept[0]" && one.rule == Rule::UnknownValue),
        "{other:#?}"
    );
}

#[test]
fn both_lists_of_values_hold() {
    let of = |one: &str, two: &str| {
        format!(
            "workflow: w\ndescription: d\ninputs: {{ x: {{ type: string, enum: {one}, validate: {{ enum: {two} }} }} }}\nsteps:\n  - {{ id: a, guidance: \"${{{{ inputs.x }}}}\" }}\n"
        )
    };
    let workflow = sound(&of("[a, b, c]", "[b, c, d]"));
    let inputs = workflow.inputs.unwrap();
    let values: Vec<_> = inputs.iter().flat_map(|input| input.one_of.clone()).collect();
    assert_eq!(values, [json!("b"), json!("c")]);
    assert_eq!(only(&of("[a]", "[b]")).rule, Rule::Contradiction);
    let (_, findings) = check_text("w.yaml", &of("[]", "[b]"), &SHIPPED);
    assert!(findings.is_empty(), "an empty list says nothing: {findings:#?}");
}
