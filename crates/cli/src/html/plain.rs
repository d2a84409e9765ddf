//! The page before and without its script: findings and functions as plain HTML, for mail and search.

use super::about::About;
use crate::terminal::foreign::xml;
use display::number::{duration_ns, grouped};
use profile::grow::GrownSum as _;
use profile::view::flame::Unit;
use profile::view::page::{ItemSet, NameSum, PageData, StateSums, name_sums, state_sums, without_idle};
use serde_json::Value;
use std::fmt::Write as _;

/// Rows of a table.
const ROWS: usize = 20;

/// Head, findings and a picture, shown until the script has drawn the page.
pub fn first_view(data: &PageData, about: &About) -> String {
    let mut html = format!("<main class=\"first\"><h1>{}</h1>", xml(&about.title));
    for line in [&about.subtitle, &about.machine, &about.quality].into_iter().filter(|line| !line.is_empty())
    {
        let _ = write!(html, "<p>{}</p>", xml(line));
    }
    for finding in &about.findings {
        let text = |key: &str| xml(finding[key].as_str().unwrap_or_default());
        let _ = write!(html, "<h2>{}</h2><p>{}</p><p>{}</p>", text("claim"), text("detail"), text("fix"));
    }
    html + &exchange::page::first_view(data) + "</main>"
}

/// The tables.
pub fn tables(data: &PageData, about: &About) -> String {
    let mut html = "<main class=\"plain\">".to_owned();
    let sections = about.compare["sections"].as_array();
    for (at, set) in data.sets.iter().enumerate() {
        html += &match sections.and_then(|sections| sections.get(at)) {
            Some(section) => changes(data, set, &section["sentences"]),
            None => table(data, set),
        };
    }
    html + "</main>"
}

/// Functions of a comparison, greatest change first. Amounts are in units `1eN WORD`: the value times a power of ten.
fn changes(data: &PageData, set: &ItemSet, sentences: &Value) -> String {
    let mut html = String::new();
    for text in sentences.as_array().into_iter().flatten() {
        let _ = write!(html, "<p>{}</p>", xml(text.as_str().unwrap_or_default()));
    }
    let Unit::Event(unit) = &set.unit else { return html };
    let (scale, unit) = unit.split_once(' ').unwrap_or(("1", unit));
    let one: f64 = scale.parse().unwrap_or(1.0);
    let heading = format!("{}: change of own amounts, {unit}", set.name);
    let _ = write!(html, "<table><caption>{}</caption>", xml(&heading));
    html += "<tr><th>before</th><th>after</th><th>change</th><th>function</th></tr>";
    for StateSums { name, own: [before, after] } in state_sums(data, set).into_iter().take(ROWS) {
        let (before, after) = (before as f64 / one, after as f64 / one);
        let (change, name) = (after - before, xml(&name));
        let _ = write!(
            html,
            "<tr><td>{before:.2}</td><td>{after:.2}</td><td>{change:+.2}</td><td>{name}</td></tr>"
        );
    }
    html + "</table>"
}

fn table(data: &PageData, set: &ItemSet) -> String {
    let (set, idle) = &without_idle(data, set);
    let whole: u64 = set.items.iter().map(|item| item.amount).grown_sum();
    let left_out =
        if idle == &0 { String::new() } else { format!(", idle left out: {}", amount(&set.unit, *idle)) };
    let mut html = format!(
        "<table><caption>{}: {}{left_out}</caption><tr><th>self</th><th>%</th><th>total</th><th>%</th><th>function</th></tr>",
        xml(&set.name),
        amount(&set.unit, whole)
    );
    for NameSum { name, own, total } in name_sums(data, set).into_iter().take(ROWS) {
        let percent = |part: u64| part as f64 * 100.0 / whole.max(1) as f64;
        let _ = write!(
            html,
            "<tr><td>{}</td><td>{:.1}</td><td>{}</td><td>{:.1}</td><td>{}</td></tr>",
            amount(&set.unit, own),
            percent(own),
            amount(&set.unit, total),
            percent(total),
            xml(&name)
        );
    }
    html + "</table>"
}

fn amount(unit: &Unit, value: u64) -> String {
    if *unit == Unit::Nanoseconds { duration_ns(value) } else { grouped(value) }
}
