//! Final outputs that are too large to be shown.

scenarios! {
    a_large_final_output_has_an_address_and_is_whole {
        manifest: "
steps:
  - { id: s, activity: work }
final_output: ${{ steps.s }}
",
        activities: &[("work", &["brings 100000 letters"])],
        script: &["shows \"final_output_uri\":"],
        ends: "completed 100000 letters",
        history: &["s 1 completed"],
    }
    a_small_final_output_has_none {
        manifest: "
steps:
  - { id: s, activity: work }
final_output: ${{ steps.s }}
",
        activities: &[("work", &["brings 100 letters"])],
        script: &["hides final_output_uri"],
        ends: "completed 100 letters",
        history: &["s 1 completed"],
    }
}
