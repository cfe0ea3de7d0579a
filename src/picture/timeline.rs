//! The visits of an execution over time, as a picture inside an HTML page: a lane for each step, a bar for each attempt.

mod scale;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, fmt::Write};

use self::scale::{PLOT_WIDTH, TimeScale, format_duration};
use crate::{
    boxes::SMALL_LETTER_WIDTH,
    inline::{self, INLINE_STYLE},
    lines::{clip_text, count_columns, to_i64},
    svg::{escape_xml, format_rectangle},
};
use midex_domain::{
    clock::Timestamp,
    limits,
    truncate::{divide_fairly, truncate_to_chars},
    uri::encode_segment,
    view::{HistoryRow, status_symbol},
    visible::replace_hidden_chars,
};

const MARGIN: i64 = 12;
/// The height of the labels above the lanes.
const AXIS_HEIGHT: i64 = 36;
const TRACK_HEIGHT: i64 = 22;
const LANE_GAP: i64 = 8;
const BAR_HEIGHT: i64 = 18;
/// The width that the sign of a status needs, so that no bar tells it by color alone.
const BAR_WIDTH_MIN: i64 = 17;
/// The space between the sides of a bar and its text.
const BAR_PADDING: i64 = 4;
/// The columns of the names of lanes.
const NAME_COLUMNS_MAX: usize = 24;
/// The rows of bars in a lane. Visits that run together need one each; those that find none are merged.
const TRACKS_MAX: usize = 12;
/// The attempts of a visit with bars of their own. Together they are narrower than the picture.
const ATTEMPTS_SHOWN_MAX: usize = 40;
/// The background of a file. A browser shows it alone, white if nothing else is said, also where its reader wants it dark.
const FILE_STYLE: &str =
    ".timeline{background:#fff}@media (prefers-color-scheme: dark){.timeline{background:#0d1117}}";
/// The end of the year 9999, so that sums of times cannot overflow.
const TIME_MAX_MS: i64 = 253_402_300_799_999;
/// The statuses of a merged bar, the most important first.
const STATUSES: [&str; 4] = ["running", "failed", "completed", "skipped"];

/// An attempt, or several that are merged.
#[derive(Debug)]
struct Bar<'a> {
    /// The oldest attempt.
    row: &'a HistoryRow,
    from: i64,
    to: i64,
    status: &'a str,
    /// The text of a merged bar: `12 visits`.
    merged_label: Option<String>,
}

/// The bars of one visit, the oldest first.
type VisitBars<'a> = Vec<Bar<'a>>;

/// The visits of one step.
#[derive(Debug)]
struct Lane<'a> {
    name: &'a str,
    visits: Vec<VisitBars<'a>>,
}

/// A bar with the x coordinates of its sides.
type PlacedBar<'a> = (Bar<'a>, i64, i64);

/// The address to which the bar of a row leads. It is escaped, but not checked.
type BarLink<'a> = &'a dyn Fn(&HistoryRow) -> String;

/// The id of the element of a page that describes the row: `visit-STEP-VISIT-ATTEMPT`, then `-iITEM` with the index of the
/// item from 0, and `-BODY` for a hook. The step and the body are percent-encoded.
pub fn visit_anchor(row: &HistoryRow) -> String {
    let item = row.item.map_or_else(String::new, |item| format!("-i{item}"));
    let body =
        row.body.as_ref().map_or_else(String::new, |body| "-".to_owned() + &encode_segment(body));
    let step = encode_segment(&row.step_name);
    format!("visit-{step}-{}-{}{item}{body}", row.visit, row.attempt)
}

/// The visits of an execution over time, as an SVG element for an HTML page that serves
/// [`INLINE_STYLE`]: `<svg class="timeline">` without ids and inline style.
///
/// Steps have lanes in the order in which `rows` first enters them, and bars lead to `link`. An open visit ends at `now`. A row
/// whose `visit` is 0 or whose times cannot be read has no bar. Time in which nothing ran is folded if it is longer than a
/// tenth of the busy time. There are at most [`limits::TIMELINE_BARS_MAX`] bars: the oldest of the longest lanes are
/// merged. Texts are cut to [`limits::TIMELINE_TEXT_CHARS_MAX`] characters.
pub fn timeline(
    rows: &[HistoryRow],
    now: Timestamp,
    link: &dyn Fn(&HistoryRow) -> String,
) -> String {
    let (size, content) = draw_content(rows, now, link);
    inline::format_head("timeline", "timeline", size) + &content
}

/// The picture of [`timeline`] as a self-contained SVG file.
pub fn timeline_file(
    rows: &[HistoryRow],
    now: Timestamp,
    link: &dyn Fn(&HistoryRow) -> String,
) -> String {
    let ((width, height), content) = draw_content(rows, now, link);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"timeline\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\">\n<title>timeline</title>\n<style>{INLINE_STYLE}{FILE_STYLE}</style>\n{content}"
    )
}

/// The width and height of the picture, and everything after its head.
fn draw_content(rows: &[HistoryRow], now: Timestamp, link: BarLink<'_>) -> ((i64, i64), String) {
    let mut lanes = build_lanes(rows, now);
    let bars = lanes.iter().flat_map(|lane| lane.visits.iter().flatten());
    let spans = bars.map(|bar| (bar.from, bar.to)).collect();
    limit_bars(&mut lanes);
    let names = lanes.iter().map(|lane| clip_text(&clean_text(lane.name), NAME_COLUMNS_MAX));
    let names: Vec<String> = names.collect();
    let name_columns = names.iter().map(|name| count_columns(name)).max().unwrap_or(0);
    let left = MARGIN * 2 + to_i64(name_columns) * SMALL_LETTER_WIDTH;
    let scale = TimeScale::from_spans(spans, left);
    let mut lane_text = String::new();
    let mut y = AXIS_HEIGHT;
    for (lane, name) in lanes.into_iter().zip(names) {
        let (whole, tracks) = (clean_text(lane.name), place_lane(lane, &scale));
        let (middle, right) = (y + LANE_GAP / 2 + BAR_HEIGHT - BAR_PADDING, left + PLOT_WIDTH);
        let _ = writeln!(
            lane_text,
            "<path class=\"lane\" d=\"M{MARGIN} {y}H{right}\"/><text class=\"t\" x=\"{MARGIN}\" y=\"{middle}\">\
             <title>{}</title>{}</text>",
            escape_xml(&whole),
            escape_xml(&name)
        );
        y += LANE_GAP / 2;
        for track in tracks {
            for bar in track {
                draw_bar(&bar, y, (&scale, link), &mut lane_text);
            }
            y += TRACK_HEIGHT;
        }
    }
    let size = (left + PLOT_WIDTH + MARGIN, y + MARGIN);
    let mut text = String::new();
    if lane_text.is_empty() {
        let _ = writeln!(
            text,
            "<text x=\"{MARGIN}\" y=\"{}\">no step has run yet</text>",
            AXIS_HEIGHT / 2
        );
    }
    scale.draw((AXIS_HEIGHT, y), &mut text);
    (size, text + &lane_text + "</svg>\n")
}

/// The bars of the rows by step and visit, without a limit.
fn build_lanes(rows: &[HistoryRow], now: Timestamp) -> Vec<Lane<'_>> {
    let mut lanes: Vec<Lane<'_>> = Vec::new();
    let (mut lane_indexes, mut visit_indexes) = (HashMap::new(), HashMap::new());
    for row in rows.iter().filter(|row| row.visit > 0) {
        let Some(bar) = Bar::from_row(row, now) else {
            continue;
        };
        let lane_index = *lane_indexes.entry(&row.step_name).or_insert(lanes.len());
        if lane_index == lanes.len() {
            lanes.push(Lane { name: &row.step_name, visits: Vec::new() });
        }
        let visits = &mut lanes[lane_index].visits;
        let visit = (&row.step_name, &row.body, row.visit, row.item);
        let visit_index = *visit_indexes.entry(visit).or_insert(visits.len());
        if visit_index == visits.len() {
            visits.push(Vec::new());
        }
        visits[visit_index].push(bar);
    }
    for lane in &mut lanes {
        lane.visits.sort_by_key(|visit| visit[0].from);
    }
    lanes
}

/// Merges attempts and visits until there are few enough bars.
fn limit_bars(lanes: &mut Vec<Lane<'_>>) {
    for visit in lanes.iter_mut().flat_map(|lane| &mut lane.visits) {
        if visit.len() > ATTEMPTS_SHOWN_MAX {
            let merged_count = visit.len() - ATTEMPTS_SHOWN_MAX + 1;
            let merged = Bar::merge(
                visit.drain(..merged_count).collect(),
                &format!("{merged_count} attempts"),
            );
            visit.splice(0..0, merged);
        }
    }
    let counts: Vec<usize> =
        lanes.iter().map(|lane| lane.visits.iter().map(Vec::len).sum()).collect();
    let shares = divide_fairly(&counts, limits::TIMELINE_BARS_MAX);
    for ((lane, count), share) in lanes.iter_mut().zip(counts).zip(&shares) {
        if count <= *share {
            continue;
        }
        // One bar is that of the merged visits.
        let mut kept_bars = 0;
        let newest = lane.visits.iter().rev().take_while(|visit| {
            kept_bars += visit.len();
            kept_bars < *share
        });
        let merged_count = lane.visits.len() - newest.count();
        let merged = merge_visits(lane.visits.drain(..merged_count).collect());
        lane.visits.splice(0..0, merged);
    }
    // No workflow has so many steps that a lane has no share.
    let mut shares = shares.into_iter();
    lanes.retain(|_| shares.next().is_some_and(|share| share > 0));
}

/// One bar for all these visits.
fn merge_visits(visits: Vec<VisitBars<'_>>) -> Option<VisitBars<'_>> {
    let label = format!("{} visits", visits.len());
    Bar::merge(visits.into_iter().flatten().collect(), &label).map(|bar| vec![bar])
}

/// Places the visits of a lane on as few tracks as they need. Those that find no place are merged on a last one.
fn place_lane<'a>(lane: Lane<'a>, scale: &TimeScale) -> Vec<Vec<PlacedBar<'a>>> {
    let mut tracks: Vec<Vec<PlacedBar<'a>>> = Vec::new();
    let mut left_over = Vec::new();
    for visit in lane.visits {
        let sides = place_visit(&visit, scale);
        let is_free =
            |track: &Vec<PlacedBar<'_>>| track.last().is_none_or(|last| last.2 <= sides[0].0);
        let free = tracks.iter().position(is_free);
        let track = free.unwrap_or(tracks.len());
        if track == TRACKS_MAX {
            left_over.push(visit);
            continue;
        }
        if free.is_none() {
            tracks.push(Vec::new());
        }
        let placed = visit.into_iter().zip(sides).map(|(bar, (left, right))| (bar, left, right));
        tracks[track].extend(placed);
    }
    if left_over.len() > 1 {
        left_over = merge_visits(left_over).into_iter().collect();
    }
    tracks.extend(left_over.into_iter().map(|visit| {
        let sides = place_visit(&visit, scale).into_iter();
        visit.into_iter().zip(sides).map(|(bar, (left, right))| (bar, left, right)).collect()
    }));
    tracks
}

/// The sides of the bars of a visit. Each begins where the one before it ends, or later, and has room for its sign.
fn place_visit(visit: &[Bar<'_>], scale: &TimeScale) -> Vec<(i64, i64)> {
    let mut end = 0;
    let mut sides = Vec::new();
    for bar in visit {
        let left = scale.x(bar.from).max(end);
        end = scale.x(bar.to).max(left + BAR_WIDTH_MIN);
        sides.push((left, end));
    }
    // Short attempts at the end of the picture would be past it.
    let mut limit = scale.left + PLOT_WIDTH;
    for (left, right) in sides.iter_mut().rev() {
        *right = (*right).min(limit);
        *left = (*left).min(*right - BAR_WIDTH_MIN);
        limit = *left;
    }
    sides
}

impl<'a> Bar<'a> {
    /// The bar of an attempt; `None` if its start cannot be read.
    fn from_row(row: &'a HistoryRow, now: Timestamp) -> Option<Self> {
        let read = |text: &str| text.parse().ok().map(Timestamp::milliseconds);
        let from = read(&row.started_at)?;
        let end = row.completed_at.as_deref().and_then(read);
        let to = end.unwrap_or(now.milliseconds()).min(TIME_MAX_MS).max(from);
        Some(Self { row, from, to, status: &row.status, merged_label: None })
    }

    /// One bar in place of these.
    fn merge(bars: Vec<Self>, label: &str) -> Option<Self> {
        let from = bars.iter().map(|bar| bar.from).min()?;
        let to = bars.iter().map(|bar| bar.to).max()?;
        let mut statuses = STATUSES.into_iter();
        let status = statuses.find(|status| bars.iter().any(|bar| bar.status == *status));
        let first = bars.into_iter().next()?;
        let status = status.unwrap_or(first.status);
        Some(Self { from, to, status, merged_label: Some(label.to_owned()), ..first })
    }

    /// The text of the bar: the author's title, otherwise the name.
    fn text(&self) -> String {
        let title = self.row.title.as_deref().filter(|title| !title.is_empty());
        match (&self.merged_label, title) {
            (Some(label), _) => label.clone(),
            (None, Some(title)) => clean_text(title),
            (None, None) => self.name(),
        }
    }

    /// The step with the item, from 1, and the hook: `build[3]/on_success`.
    fn name(&self) -> String {
        let item = self.row.item.map(|item| format!("[{}]", u64::from(item) + 1));
        let body = self.row.body.as_ref().map(|body| "/".to_owned() + &clean_text(body));
        clean_text(&self.row.step_name) + &item.unwrap_or_default() + &body.unwrap_or_default()
    }

    /// The whole text, and when it ran, how long, and how it ended.
    fn tooltip_text(&self, scale: &TimeScale) -> String {
        let row = self.row;
        let (text, name) = (self.text(), self.name());
        let mut lines = vec![text];
        if lines[0] != name {
            lines.push(name);
        }
        let is_single = self.merged_label.is_none();
        if is_single {
            lines.push(format!("visit {}, attempt {}", row.visit, row.attempt));
        }
        lines.push(clean_text(self.status));
        let offset = scale.format_offset(self.from);
        let duration = format_duration(self.to - self.from);
        lines.push(format!("{offset}, for {duration}, from {}", clean_text(&row.started_at)));
        if is_single && row.inherited {
            lines.push("inherited: the forked execution did it".to_owned());
        }
        if let Some(error) = row.error.as_ref().filter(|_| is_single) {
            lines.push(format!("{}: {}", clean_text(&error.code), clean_text(&error.message)));
        }
        lines.join("\n")
    }
}

fn draw_bar(
    (bar, left, right): &PlacedBar<'_>,
    top: i64,
    (scale, link): (&TimeScale, BarLink<'_>),
    text: &mut String,
) {
    let known_status = STATUSES.iter().find(|status| **status == bar.status);
    let inherited = if bar.row.inherited { " inherited" } else { "" };
    let class = format!("n {}{inherited}", known_status.unwrap_or(&""));
    // Neighbours do not touch.
    let width = right - left - 2;
    let rectangle = format_rectangle((left + 1, top), (width, BAR_HEIGHT), class.trim(), 3);
    let sign = status_symbol(bar.status);
    let columns = usize::try_from((width - BAR_PADDING * 2) / SMALL_LETTER_WIDTH).unwrap_or(0);
    let room = columns.saturating_sub(count_columns(sign) + 1);
    // Less than a few letters say nothing.
    let label = if room < 3 { String::new() } else { format!(" {}", clip_text(&bar.text(), room)) };
    let (x, y) = (left + BAR_PADDING, top + BAR_HEIGHT - BAR_PADDING - 1);
    let _ = writeln!(
        text,
        "<a href=\"{}\"><title>{}</title>{rectangle}<text class=\"t\" x=\"{x}\" y=\"{y}\">{sign}{}</text></a>",
        escape_xml(&link(bar.row)),
        escape_xml(&bar.tooltip_text(scale)),
        escape_xml(&label)
    );
}

/// A text of a person or an agent on one line: not too long, with a sign for each hidden character.
fn clean_text(text: &str) -> String {
    replace_hidden_chars(&truncate_to_chars(text, limits::TIMELINE_TEXT_CHARS_MAX))
}
