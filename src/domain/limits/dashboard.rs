//! Limits of the dashboard.

use std::time::Duration;

limits! {
/// Changes that a client of midex keeps until they are read; beyond it the oldest are lost, and everything counts as changed.
pub const CLIENT_UPDATES_KEPT: usize = 1_024;
/// How long a link into the dashboard is valid.
pub const DASHBOARD_LINK_KEPT: Duration = Duration::from_secs(60);
/// Links into the dashboard that are valid at once; a further one replaces the oldest.
pub const DASHBOARD_LINKS_MAX: usize = 16;
/// Open pages that follow changes at once.
pub const DASHBOARD_STREAMS_MAX: usize = 100;
/// Connections to the dashboard.
pub const DASHBOARD_CONNECTIONS_MAX: usize = 256;
/// Shortest time between two updates of a page.
pub const DASHBOARD_UPDATE_EVERY: Duration = Duration::from_millis(100);
/// Longest time between two updates of a page that takes long to render.
pub const DASHBOARD_UPDATE_WAIT_MAX: Duration = Duration::from_secs(5);
/// All open pages together spend at most one part in so many of the time on updates.
pub const DASHBOARD_UPDATE_SHARE: u32 = 24;
/// How often a page is updated without a change, so that what depends on the time is true.
pub const DASHBOARD_REFRESH_EVERY: Duration = Duration::from_secs(15);
/// Bytes of a form that is sent to the dashboard.
pub const DASHBOARD_FORM_BYTES_MAX: usize = 2 << 20;
/// Rows in a list of the dashboard.
pub const DASHBOARD_ROWS_MAX: usize = 50;
/// Rows in each list of what needs someone.
pub const DASHBOARD_NOW_ROWS_MAX: usize = 10;
/// Visits on the page of an execution, the latest ones.
pub const DASHBOARD_VISITS_MAX: usize = 50;
/// Characters of a text in a row of a list.
pub const DASHBOARD_LINE_CHARS_MAX: usize = 200;
/// Characters of a text on the page of an execution; the whole is a link away.
pub const DASHBOARD_TEXT_CHARS_MAX: usize = 4_000;
/// Characters of all values of the visits on the page of an execution.
pub const DASHBOARD_VISIT_VALUES_CHARS_MAX: usize = 20_000;
/// Characters of a file, a definition or an artifact on a page.
pub const DASHBOARD_VALUES_CHARS_MAX: usize = 40_000;
/// Visits in the timeline on the page of an execution, the latest ones.
pub const DASHBOARD_TIMELINE_VISITS_MAX: usize = 100;
/// Bytes of a picture that stands in the text of a page. A larger graph is a picture beside it, and a larger timeline has fewer
/// visits.
pub const DASHBOARD_PICTURE_BYTES_MAX: usize = 40_000;
/// Nodes of a graph that a page shows; of a larger one it has a link to the picture.
pub const DASHBOARD_GRAPH_NODES_MAX: usize = 200;
/// How long an execution that a model works on may stand still before the dashboard calls it stalled.
pub const DASHBOARD_STALLED_AFTER: Duration = Duration::from_secs(3_600);
}
