//! Charts as inline SVG. No script, no font, no file beside the page.

use std::fmt::Write as _;

use super::html::escape;

const WIDTH: f64 = 760.0;
/// Room for the scale on the left, and for the legend below.
const LEFT: f64 = 56.0;
const HEIGHT: f64 = 220.0;
const BASE: f64 = 190.0;
const TOP: f64 = 10.0;
/// Height of one row of bars, and room for its label.
const ROW: f64 = 22.0;
const LABEL: f64 = 230.0;

/// One kind of thing in a chart: its name and the class that gives its colour.
pub struct Series {
    pub name: &'static str,
    pub class: &'static str,
}

/// Stacked columns over time: `columns[t][series]`.
pub fn columns(title: &str, unit: &str, series: &[Series], columns: &[Vec<f64>]) -> String {
    let most = columns.iter().map(|column| column.iter().sum::<f64>()).fold(1.0, f64::max);
    let step = (WIDTH - LEFT) / count(columns.len().max(1));
    let mut body = scale(most, unit);
    for (index, column) in columns.iter().enumerate() {
        let mut bottom = BASE;
        for (series, value) in series.iter().zip(column) {
            let height = value / most * (BASE - TOP);
            bottom -= height;
            let x = LEFT + step * count(index);
            let name = series.name;
            let _ = write!(
                body,
                "<rect class=\"{}\" x=\"{x:.1}\" y=\"{bottom:.1}\" width=\"{:.1}\" height=\"{height:.1}\">\
                 <title>second {index}: {value:.0} {name}</title></rect>",
                series.class,
                (step - 0.5).max(0.5)
            );
        }
    }
    let _ = write!(
        body,
        "<text class=\"axis\" x=\"{LEFT}\" y=\"{:.1}\">0 s</text>\
         <text class=\"axis\" x=\"{WIDTH}\" y=\"{:.1}\" text-anchor=\"end\">{} s</text>",
        BASE + 14.0,
        BASE + 14.0,
        columns.len()
    );
    figure(title, HEIGHT, &body, series)
}

/// One row of bars per label, side by side in a row: `rows = (label, values)`. On a logarithmic scale
/// where the values differ by more than it could show.
pub fn bars(title: &str, unit: &str, series: &[Series], rows: &[(String, Vec<f64>)], logarithmic: bool) -> String {
    let most = rows.iter().flat_map(|(_, values)| values).copied().fold(1.0, f64::max);
    let length = |value: f64| {
        let share = if logarithmic { (1.0 + value).ln() / (1.0 + most).ln() } else { value / most };
        share.max(0.0) * (WIDTH - LABEL - 150.0)
    };
    let mut body = String::new();
    for (index, (label, values)) in rows.iter().enumerate() {
        let y = ROW * count(index);
        let _ = write!(
            body,
            "<text class=\"label\" x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LABEL - 8.0,
            y + 14.0,
            escape(label)
        );
        let thickness = (ROW - 6.0) / count(values.len().max(1));
        let mut end = LABEL;
        for (place, (series, value)) in series.iter().zip(values).enumerate() {
            let width = length(*value);
            end = end.max(LABEL + width);
            let _ = write!(
                body,
                "<rect class=\"{}\" x=\"{LABEL}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{thickness:.1}\">\
                 <title>{} {}: {}</title></rect>",
                series.class,
                y + 3.0 + thickness * count(place),
                width.max(0.5),
                escape(label),
                series.name,
                number(*value)
            );
        }
        let values: Vec<String> = values.iter().map(|value| number(*value)).collect();
        let _ = write!(
            body,
            "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\">{} {unit}</text>",
            end + 6.0,
            y + 14.0,
            values.join(" / ")
        );
    }
    figure(title, ROW * count(rows.len()) + 4.0, &body, series)
}

fn scale(most: f64, unit: &str) -> String {
    let mut body = String::new();
    for part in 0..=4 {
        let share = f64::from(part) / 4.0;
        let y = BASE - share * (BASE - TOP);
        let _ = write!(
            body,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"axis\" x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{:.0}</text>",
            LEFT - 6.0,
            y + 4.0,
            most * share
        );
    }
    let _ = write!(body, "<text class=\"axis\" x=\"0\" y=\"{:.0}\">{unit}</text>", BASE + 26.0);
    body
}

fn figure(title: &str, height: f64, body: &str, series: &[Series]) -> String {
    let mut keys = String::new();
    for series in series {
        let _ = write!(keys, "<span class=\"key\"><i class=\"{}\"></i>{}</span>", series.class, series.name);
    }
    format!(
        "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\">{body}</svg><div>{keys}</div></figure>\n",
        escape(title),
        escape(title)
    )
}

/// Small numbers with a decimal, large ones without.
fn number(value: f64) -> String {
    if value == 0.0 || value >= 100.0 || value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

#[expect(clippy::cast_precision_loss, reason = "columns and rows of one page")]
fn count(n: usize) -> f64 {
    n as f64
}
