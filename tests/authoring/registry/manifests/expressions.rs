//! What the expressions of a manifest may refer to, and what follows from that.

use super::*;

#[test]
fn expressions_refer_to_what_can_be_there() {
    seconds(
        "
        guidance: '${{ steps.nobody.x }}' => unknown_reference guidance
        guidance: '${{ step.a.x }}' => unknown_reference guidance
        guidance: '${{ steps.a.x' => ill_formed_expression guidance
        guidance: x / if: steps.a.x && inputs.y => ill_formed_expression if
        guidance: x / if: steps.b.x => reference_too_early if
        guidance: '${{ steps.b.x }}' => reference_too_early guidance
        guidance: '${{ item }}' => unknown_reference guidance
        guidance: '${{ steps }}' => ill_formed_expression guidance
        run: a b / with: {x: [{y: '${{ steps.c.x }}'}]} => unknown_reference with.x[0].y
        run: a b / repeat: {until: steps.b.done} => ok
        foreach: {in: '${{ part }}', as: part, do: {guidance: '${{ part.x }}'}} => unknown_reference foreach.in
    ",
    );
    wrong(
        "workflow: w\ndescription: d\nmemory: {x: '${{ steps.a.x }}'}\nfinal_output: ['${{ steps.b.x }}']\nsteps:\n  - id: a\n    guidance: '${{ memory.x }} ${{ run.execution_id }} ${{ env.HOME }}'\n",
        &["3:18 reference_too_early memory.x", "4:21 unknown_reference final_output[0]"],
    );
    // The place is that of the name, inside a block too.
    wrong(
        &after_a("  - id: b\n    guidance: |\n      One\n      two ${{ steps.aa.x }}\n"),
        &["9:15 unknown_reference steps[1].guidance"],
    );
    let later = "  - id: b\n    guidance: '${{ steps.c.x }}'\n  - id: c\n    guidance: x\n";
    wrong(&after_a(later), &["7:20 reference_too_early steps[1].guidance"]);
    // A way back makes no difference: it resets what is named.
    wrong(
        &after_a(&format!("{later}    next: b\n    if: steps.a.x\n")),
        &["7:20 forgotten_output steps[1].guidance"],
    );
}

#[test]
fn a_reference_to_a_step_beside_this_one_is_waited_for() {
    let side = "  - id: b\n    guidance: x\n    depends_on: []\n";
    let workflow = sound(&after_a(&format!(
        "{side}  - id: c\n    guidance: '${{{{ steps.b.x }}}}'\n    depends_on: [a]\n  - id: d\n    guidance: '${{{{ steps.a.x }}}}'\n"
    )));
    assert_eq!(order(&workflow), ["a after []", "b after []", "c after [a b]", "d after [c]"]);
    // Two that refer to each other cannot both wait.
    wrong(
        &after_a(
            "  - id: b\n    guidance: '${{ steps.c.x }}'\n    depends_on: []\n  - id: c\n    guidance: '${{ steps.b.x }}'\n    depends_on: []\n",
        ),
        &["10:20 reference_too_early steps[2].guidance"],
    );
}
