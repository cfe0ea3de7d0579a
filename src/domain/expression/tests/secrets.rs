use super::*;
use crate::expression::{RenderedValue, Template};

#[test]
fn secrets_render_as_lone_placeholders() {
    assert_evaluates_to("secrets.TOKEN", json!("${secret:TOKEN}"));
    assert_evaluates_to("${{ secrets['TOKEN'] }}", json!("${secret:TOKEN}"));
    for text in [
        "secrets.TOKEN == 'x'",
        "secrets.TOKEN | length",
        "not secrets.TOKEN",
        "secrets.TOKEN ~ 'x'",
        "[secrets.TOKEN]",
        "secrets.TOKEN is defined",
        "secrets.TOKEN | default('x')",
        "secrets.TOKEN[0:1]",
        "'x' if secrets.TOKEN else 'y'",
        "secrets",
        "secrets.A.b",
        "secrets[inputs.name]",
    ] {
        let faults = parse_faults(text);
        assert!(faults.iter().any(|fault| fault.kind == FaultKind::Secret), "{text}: {faults:?}");
    }
    let (_, faulty_text, message) = find_only_parse_fault("'ä' ~ secrets.TOKEN");
    assert_eq!(faulty_text, "secrets.TOKEN");
    assert!(message.contains("write it alone, as `${{ secrets.TOKEN }}`"), "{message}");
    let (kind, _, message) = find_evaluation_fault("secrets.TOKENN");
    assert_eq!(kind, FaultKind::Unresolved);
    assert_eq!(message, "there is no secret `TOKENN`: did you mean `TOKEN`?");
}

#[test]
fn conditions_cannot_read_secrets() {
    assert_eq!(
        parse_valid("secrets.TOKEN").evaluate_condition(&sample_context()).unwrap_err().kind,
        FaultKind::Secret
    );
    let faults = Expression::parse_condition("${{ secrets.TOKEN }}", &[]).unwrap_err();
    assert_eq!((faults[0].kind, faults[0].offset, faults[0].length), (FaultKind::Secret, 4, 13));
    assert!(Expression::parse_condition("${{ inputs.a }}", &[]).is_ok());
}

fn render_value(value: &Value, roots: &EvaluationContext) -> RenderedValue {
    Template::parse(value).unwrap().render_with_secret_places(roots).unwrap()
}

#[test]
fn secrets_fill_only_their_own_places() {
    let mut roots = sample_context();
    roots.inputs.insert("forged".into(), json!("${secret:TOKEN}"));
    let value = json!({"a/b": {"~": ["ä ${{ inputs.forged }} ${{ secrets.TOKEN }}/${{ secrets.OTHER }}${{ secrets.TOKEN }}"]},
        "whole": "${{ secrets.TOKEN }}", "forged": "${{ inputs.forged }}"});
    let rendered = render_value(&value, &roots);
    assert_eq!(
        rendered.value["a/b"]["~"][0],
        "ä ${secret:TOKEN} ${secret:TOKEN}/${secret:OTHER}${secret:TOKEN}"
    );
    let find = |name: &str| {
        (name == "TOKEN").then(|| "t".to_owned()).or_else(|| Some(format!("<{name}>")))
    };
    assert_eq!(
        rendered.fill_secrets(find).unwrap(),
        json!({"a/b": {"~": ["ä ${secret:TOKEN} t/<OTHER>t"]}, "whole": "t", "forged": "${secret:TOKEN}"})
    );
    assert_eq!(
        rendered.fill_secrets(|name| (name != "OTHER").then(String::new)),
        Err("OTHER".into())
    );
    let stored: RenderedValue =
        serde_json::from_value(serde_json::to_value(&rendered).unwrap()).unwrap();
    assert_eq!(stored, rendered);
}
