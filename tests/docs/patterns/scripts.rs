//! The events that drive each pattern of the page, and the expected result.

/// The events that drive the first manifest of a pattern, and the expected result.
pub(super) struct Script {
    pub(super) pattern: &'static str,
    /// `NAME=VALUE`: inputs that are not the examples of the manifest.
    pub(super) inputs: &'static str,
    /// In brackets, the signals that are awaited at this moment; then what happens: a signal (`NAME`, or
    /// `NAME:KEY=VALUE,…` with a payload), `!abandon`, or `!weeks`, a long time.
    pub(super) moves: &'static str,
    /// The history at the end: `step` was completed, `-step` skipped, `!step` failed, and `step~` came late. `step[0]`
    /// is an item of a `foreach`, `step/` begins a step of a child.
    pub(super) path: &'static str,
    pub(super) state: &'static str,
}

const fn completed(
    pattern: &'static str,
    inputs: &'static str,
    moves: &'static str,
    path: &'static str,
) -> Script {
    Script { pattern, inputs, moves, path, state: "completed" }
}

pub(super) const SCRIPTS: &[Script] = &[
    completed("sequence", "", "[packed] packed [shipped] shipped", "pack ship"),
    completed(
        "parallel_split",
        "",
        "[ordered] ordered [invoiced shipped] invoiced [shipped] shipped",
        "order ship invoice",
    ),
    completed(
        "synchronization",
        "",
        "[invoiced shipped] shipped [invoiced] invoiced",
        "ship invoice close",
    ),
    completed("exclusive_choice", "", "[approved] approved", "size -book approve"),
    completed("exclusive_choice", "total=10", "[]", "size -approve book"),
    completed("simple_merge", "", "[shipped] shipped", "pay -invoice charge ship"),
    completed(
        "simple_merge",
        "by=invoice",
        "[paid] paid [shipped] shipped",
        "pay -charge invoice ship",
    ),
    completed("multi_choice", "", "[ordered] ordered [wrapped] wrapped", "order wrap -insure"),
    completed(
        "multi_choice",
        "insured=true",
        "[ordered] ordered [insured wrapped] insured [wrapped] wrapped",
        "order wrap insure",
    ),
    completed("multi_choice", "gift=false", "[ordered] ordered", "order -wrap -insure"),
    completed(
        "structured_synchronizing_merge",
        "",
        "[wrapped] wrapped [shipped] shipped",
        "wrap -insure ship",
    ),
    completed(
        "structured_synchronizing_merge",
        "insured=true",
        "[insured wrapped] wrapped [insured] insured [shipped] shipped",
        "wrap insure ship",
    ),
    completed(
        "multi_merge",
        "",
        "[phone web] phone [packed-phone web] web [packed-phone packed-web] packed-web [packed-phone shipped-web] packed-phone shipped-phone [shipped-web] shipped-web",
        "web phone fulfil-phone fulfil-web fulfil-web/pack fulfil-web/ship fulfil-phone/pack fulfil-phone/ship",
    ),
    completed(
        "structured_discriminator",
        "",
        "[north south] south [north] north",
        "north~ south buy",
    ),
    completed(
        "blocking_discriminator",
        "",
        "[north south] south [north] south [north] north [north] north",
        "ask north south buy again ask north south buy again",
    ),
    completed("cancelling_discriminator", "", "[north south] south []", "-north south buy"),
    completed(
        "structured_partial_join",
        "",
        "[ada ben cleo] cleo [ada ben] ada [ben] ben",
        "ada ben~ cleo publish",
    ),
    completed(
        "blocking_partial_join",
        "",
        "[ada ben cleo] ada ben [cleo] cleo [ada ben cleo] ben cleo [ada] ada",
        "submit ada ben cleo publish again submit ada ben cleo publish again",
    ),
    completed(
        "cancelling_partial_join",
        "",
        "[ada ben cleo] ada [ben cleo] cleo []",
        "ada -ben cleo publish",
    ),
    completed(
        "cancelling_partial_join",
        "needed=1",
        "[ada ben cleo] ada []",
        "ada -ben -cleo publish",
    ),
    completed(
        "generalized_and_join",
        "",
        "[ordered paid] ordered ordered [paid] paid [paid] paid",
        "open order payment ship again open order payment ship again",
    ),
    completed(
        "acyclic_synchronizing_merge",
        "",
        "[ordered] ordered [invoiced wrapped] wrapped [invoiced shipped] invoiced shipped",
        "order wrap -courier invoice ship",
    ),
    completed(
        "acyclic_synchronizing_merge",
        "rush=true",
        "[ordered] ordered [booked wrapped] booked [invoiced wrapped] wrapped [invoiced shipped] invoiced shipped",
        "order wrap courier invoice ship",
    ),
    completed(
        "general_synchronizing_merge",
        "",
        "[ordered] ordered [proof wrapped] wrapped [proof] proof:accepted=false [proof] proof:accepted=true [shipped] shipped",
        "order proof wrap check proof check ship",
    ),
    completed(
        "general_synchronizing_merge",
        "gift=false",
        "[ordered] ordered [proof] proof:accepted=true [shipped] shipped",
        "order proof -wrap check ship",
    ),
    completed(
        "thread_split",
        "",
        "[ordered] ordered [packed-large packed-small] packed-small [packed-large shipped-small] shipped-small packed-large [shipped-large] shipped-large",
        "order parcels parcels[0] parcels[1] parcels[0]/pack parcels[0]/ship parcels[1]/pack parcels[1]/ship",
    ),
    completed(
        "thread_merge",
        "",
        "[counted counted counted] counted counted [counted] counted [reported] reported",
        "count count[0] count[1] count[2] report",
    ),
    completed(
        "multi_instance_without_synch",
        "",
        "[ordered] ordered [delivered-a delivered-b thanked] thanked [delivered-a delivered-b] delivered-b delivered-a",
        "order deliver deliver[0] deliver[1] thank",
    ),
    completed(
        "multi_instance_with_a_priori_design_time_knowledge",
        "",
        "[signed-buyer signed-notary signed-seller] signed-buyer signed-seller [signed-notary] signed-notary",
        "sign sign[0] sign[1] sign[2] file",
    ),
    completed(
        "multi_instance_with_a_priori_run_time_knowledge",
        "",
        "[delivered-a delivered-b] delivered-b [delivered-a] delivered-a",
        "deliver deliver[0] deliver[1] close",
    ),
    completed(
        "multi_instance_without_a_priori",
        "",
        "[parcel] parcel:name=a,last=false [parcel] parcel:name=b,last=true [delivered-a delivered-b] delivered-a delivered-b",
        "parcel note more parcel note more deliver deliver[0] deliver[1]",
    ),
    completed(
        "static_partial_join_for_multi_instance",
        "",
        "[bid bid bid] bid [bid bid] bid [bid] bid",
        "bid-1 bid-2 bid-3~ award",
    ),
    completed(
        "cancelling_partial_join_for_multi_instance",
        "",
        "[bid-ada bid-ben bid-cleo] bid-cleo [bid-ada bid-ben] bid-ada []",
        "bids bids[0] -bids[1] bids[2] award",
    ),
    completed(
        "dynamic_partial_join_for_multi_instance",
        "",
        "[bid-ada bid-ben bid-cleo] bid-cleo [bid-ada bid-ben] bid-ada []",
        "bids bids[0] -bids[1] bids[2] award",
    ),
    completed(
        "dynamic_partial_join_for_multi_instance",
        "needed=1",
        "[bid-ada bid-ben bid-cleo] bid-ben []",
        "bids -bids[0] bids[1] -bids[2] award",
    ),
    completed("deferred_choice", "", "[paid] paid [shipped] shipped", "pay -expire -drop ship"),
    completed("deferred_choice", "", "[paid] !weeks []", "-pay expire -ship drop"),
    completed(
        "interleaved_routing",
        "",
        "[blood] blood [heart] heart [eyes] eyes",
        "examine examine[0] examine[1] examine[2] report",
    ),
    completed(
        "interleaved_parallel_routing",
        "",
        "[next] next:task=dry [next] next:task=tyres [tyres-done] tyres-done [next] next:task=wash [wash-done] next:task=dry [wash-done] wash-done [dry-done] dry-done",
        "choose check choose check work note again choose check work note again choose check work note again",
    ),
    completed(
        "critical_section",
        "",
        "[crane crane] crane [crane truck-unloaded] truck-unloaded [crane] crane [ship-unloaded] ship-unloaded",
        "crane-for-truck crane-for-ship truck ship",
    ),
    completed(
        "milestone",
        "",
        "[asked checked-in] asked [checked-in] checked-in [boarded changed] changed [boarded] boarded",
        "check-in ask board change",
    ),
    completed(
        "milestone",
        "",
        "[asked checked-in] asked checked-in [boarded changed] boarded []",
        "check-in ask board -change",
    ),
    completed(
        "milestone",
        "",
        "[asked checked-in] checked-in [asked boarded] boarded []",
        "check-in -ask board -change",
    ),
    completed("cancel_task", "", "[packed withdrawn] withdrawn []", "-pack withdraw -ship refund"),
    completed(
        "cancel_task",
        "",
        "[packed withdrawn] packed [shipped] shipped",
        "pack -withdraw -refund ship",
    ),
    completed(
        "cancel_region",
        "",
        "[invoiced packed withdrawn] packed [invoiced shipped withdrawn] withdrawn [invoiced] invoiced",
        "pack withdraw invoice -ship",
    ),
    completed(
        "cancel_region",
        "",
        "[invoiced packed withdrawn] withdrawn [invoiced] invoiced",
        "-pack withdraw invoice -ship",
    ),
    completed(
        "cancel_case",
        "",
        "[packed withdrawn] packed [shipped withdrawn] shipped []",
        "pack -withdraw ship -give-up",
    ),
    completed(
        "cancel_multi_instance_task",
        "",
        "[delivered-a delivered-b recalled] delivered-a [delivered-b recalled] recalled []",
        "-deliver deliver[0] -deliver[1] recall -thank",
    ),
    completed(
        "cancel_multi_instance_task",
        "",
        "[delivered-a delivered-b recalled] delivered-a delivered-b []",
        "deliver deliver[0] deliver[1] -recall thank",
    ),
    completed(
        "complete_multiple_instance_activity",
        "",
        "[answer-ada answer-ben closed] answer-ada [answer-ben closed] closed []",
        "-survey survey[0] -survey[1] close evaluate",
    ),
    completed(
        "complete_multiple_instance_activity",
        "",
        "[answer-ada answer-ben closed] answer-ada answer-ben []",
        "survey survey[0] survey[1] -close evaluate",
    ),
    completed(
        "implicit_termination",
        "",
        "[invoiced shipped] invoiced [shipped] shipped",
        "ship invoice",
    ),
    completed(
        "explicit_termination",
        "",
        "[found-in-attic found-in-cellar] found-in-attic []",
        "-cellar attic",
    ),
    completed(
        "arbitrary_cycles",
        "",
        "[reviewed] reviewed:verdict=again [written] written [reviewed] reviewed:verdict=good",
        "begin -write review decide write review decide publish",
    ),
    completed(
        "arbitrary_cycles",
        "draft=false",
        "[written] written [reviewed] reviewed:verdict=never",
        "begin write review decide -publish",
    ),
    completed(
        "recursion",
        "",
        "[opened-2] opened-2 [opened-1] opened-1",
        "open inner inner/open inner/-inner",
    ),
    completed(
        "subworkflow_to_join",
        "",
        "[packed-books packed-toys] packed-toys shipped-toys [packed-books] packed-books shipped-books [invoiced] invoiced",
        "books toys invoice books/pack books/ship toys/pack toys/ship",
    ),
    completed("persistent_trigger", "", "[opened] rung [opened] opened []", "open serve"),
    completed(
        "transient_trigger",
        "",
        "[on-duty] alarm alarm [on-duty] on-duty [alarm] alarm",
        "duty forget forget !forget watch",
    ),
    Script {
        state: "failed",
        ..completed(
            "cancel_case",
            "",
            "[packed withdrawn] packed [shipped withdrawn] withdrawn",
            "pack withdraw -ship !give-up",
        )
    },
    Script {
        state: "abandoned",
        ..completed("cancel_case", "", "[packed withdrawn] !abandon []", "-pack -withdraw")
    },
];
