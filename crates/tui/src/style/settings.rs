//! perf's settings for its browser, as far as they have a meaning here.
//
// Source: linux v6.1 tools/perf/ui/browser.c (ui_browser__colorsets), tools/perf/util/annotate.c (annotation_configs)

use ratatui::style::{Color, Style};
use std::sync::OnceLock;

/// Set once at the start, for the whole program.
static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// Settings of the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `colors.*`.
    pub colours: SetColours,
    /// `annotate.hide_src_code`: code is shown without source, until `o`.
    pub hides_source: bool,
    /// `annotate.jump_arrows = no`.
    pub hides_arrows: bool,
    /// `annotate.use_offset`: instructions by their distance from the function's first one.
    pub has_offsets: bool,
}

/// Colours by the names that perf has for them; `None` where they are tally's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetColours {
    /// Shares of 5 % and more.
    pub top: Option<Style>,
    /// Shares of 0.5 % and more.
    pub medium: Option<Style>,
    /// Smaller shares.
    pub normal: Option<Style>,
    /// The line under the cursor.
    pub selected: Option<Style>,
    /// Jumps next to code.
    pub jump_arrows: Option<Style>,
    /// Addresses of instructions.
    pub addr: Option<Style>,
    /// The lines above and below.
    pub root: Option<Style>,
}

/// Takes perf's settings as names with values; others than those of the browser are passed over. The result names the values
/// that no colour has.
pub fn configure<'s>(settings: impl Iterator<Item = (&'s str, &'s str)>) -> Vec<String> {
    let (settings, problems) = Settings::of(settings);
    let _ = SETTINGS.set(settings);
    problems
}

impl Settings {
    /// Those of the program; the defaults where [`configure`] wasn't called.
    pub fn current() -> Self {
        SETTINGS.get().copied().unwrap_or_default()
    }

    fn of<'s>(settings: impl Iterator<Item = (&'s str, &'s str)>) -> (Self, Vec<String>) {
        let (mut this, mut problems) = (Self::default(), Vec::new());
        for (name, value) in settings {
            let name = name.replace('-', "_").to_ascii_lowercase();
            let is_on = matches!(value.to_ascii_lowercase().as_str(), "true" | "yes" | "on" | "1" | "");
            match name.as_str() {
                "annotate.hide_src_code" => this.hides_source = is_on,
                "annotate.jump_arrows" => this.hides_arrows = !is_on,
                "annotate.use_offset" => this.has_offsets = is_on,
                _ => {
                    if let Some(place) = name.strip_prefix("colors.").and_then(|key| this.colours.place(key))
                    {
                        *place = style(value);
                        if place.is_none() {
                            problems.push(format!(
                                "{name} = {value}: expected two colours, such as red, default"
                            ));
                        }
                    }
                }
            }
        }
        (this, problems)
    }
}

impl SetColours {
    fn place(&mut self, key: &str) -> Option<&mut Option<Style>> {
        Some(match key {
            "top" => &mut self.top,
            "medium" => &mut self.medium,
            "normal" => &mut self.normal,
            "selected" => &mut self.selected,
            "jump_arrows" => &mut self.jump_arrows,
            "addr" => &mut self.addr,
            "root" => &mut self.root,
            _ => return None,
        })
    }

    /// Style of a share in percent; `None` where no colour is set for its size.
    pub fn of_share(&self, percent: f64) -> Option<Style> {
        match percent {
            p if p >= 5.0 => self.top,
            p if p >= 0.5 => self.medium,
            _ => self.normal,
        }
    }
}

/// `red, default`: ink and paper.
fn style(value: &str) -> Option<Style> {
    let (ink, paper) = value.split_once(',')?;
    Some(Style::new().fg(colour(ink)?).bg(colour(paper)?))
}

/// A colour by S-Lang's name for it, as in perf.
fn colour(name: &str) -> Option<Color> {
    Some(match name.trim().to_ascii_lowercase().as_str() {
        "default" => Color::Reset,
        "black" => Color::Black,
        "red" => Color::Red,
        "green" => Color::Green,
        "yellow" | "brown" => Color::Yellow,
        "blue" => Color::Blue,
        "magenta" => Color::Magenta,
        "cyan" => Color::Cyan,
        "lightgray" => Color::Gray,
        "gray" => Color::DarkGray,
        "white" => Color::White,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_browser_are_taken_and_others_passed_over() {
        let set = [
            ("colors.top", "yellow, default"),
            ("colors.jump-arrows", "cyan,black"),
            ("annotate.jump_arrows", "no"),
            ("annotate.use_offset", "true"),
            ("annotate.hide_src_code", "true"),
            ("report.children", "no"),
            ("colors.nothing", "red, red"),
        ];
        let (settings, problems) = Settings::of(set.into_iter());
        assert!(problems.is_empty(), "{problems:?}");
        let top = Style::new().fg(Color::Yellow).bg(Color::Reset);
        assert_eq!(settings.colours.of_share(5.0), Some(top));
        assert_eq!(settings.colours.of_share(4.9), None);
        assert_eq!(settings.colours.jump_arrows, Some(Style::new().fg(Color::Cyan).bg(Color::Black)));
        assert!(settings.hides_arrows && settings.has_offsets && settings.hides_source);
    }

    #[test]
    fn a_value_that_is_no_pair_of_colours_is_reported() {
        let (settings, problems) =
            Settings::of([("colors.root", "pink, blue"), ("colors.addr", "red")].into_iter());
        assert_eq!(settings, Settings::default());
        assert_eq!(problems.len(), 2);
        assert!(problems[0].starts_with("colors.root = pink, blue"), "{problems:?}");
    }
}
