//! The house rules that a program can check. Each rule is a function from the repository's files to its faults.

mod crates;
mod feature_map;
mod files;
mod paths;
mod signatures;
mod source;
mod structure;
mod text;
mod words;

use anyhow::Result;

use crate::repo::{File, Repo};
use crate::score::{self, Score};
use crate::web;

/// A rule: its name as a sentence, and how to find what breaks it.
type Rule = (&'static str, fn(&[File]) -> Vec<String>);

const RULES: &[Rule] = &[
    ("pure crates forbid unsafe code", source::pure_crates_forbid_unsafe),
    ("unsafe is only in the named files", source::unsafe_only_in_named_files),
    ("byte layouts are read only in the named places", source::layouts_only_in_named_places),
    ("files are opened only in the named modules", files::files_are_opened_in_named_rooms),
    ("files are created only in the named modules", files::files_are_created_in_named_rooms),
    ("a refused thread is an error", source::a_refused_thread_is_an_error),
    ("no module is a junk drawer", source::no_junk_drawers),
    ("a note for later has an issue number", source::todo_has_an_issue),
    ("every parser has a fuzz target", source::parsers_are_fuzzed),
    ("crates depend only on those below them", crates::edges_point_down),
    ("every dependency is on the list", crates::dependencies_are_listed),
    ("the program's tests are in its manifest", crates::tests_are_listed),
    ("files of a crate form no large circle", structure::circles_are_small),
    ("a crate has few modules at its root", structure::roots_are_small),
    ("crates that only wire are small", structure::thin_crates_stay_thin),
    ("parameters have names", signatures::parameters_have_names),
    ("modes are enums", signatures::modes_are_enums),
    ("errors and options have types", signatures::outcomes_are_typed),
    ("types of one word have it to themselves", signatures::short_names_are_unique),
    ("no host or path of a single machine", text::no_machine_names),
    ("ARCHITECTURE.md is short", text::architecture_is_short),
    ("the README is short and has the two commands", text::readme_has_the_two_commands),
    ("the maps of ARCHITECTURE.md are true", feature_map::maps_are_true),
    ("the fuzz corpus is small", text::corpus_is_small),
    ("every golden case is complete", text::golden_cases_are_complete),
    ("golden commands are scripts", text::golden_commands_are_scripts),
    ("recordings in the repository are small", text::recordings_are_small),
    ("text is plain English", words::text_is_plain),
];

/// Checks every rule, and prints the sizes and the unsafe counts for a reader.
pub fn run(repo: &Repo) -> Result<Score> {
    let files = repo.files()?;
    let mut score = Score::default();
    for (name, rule) in RULES {
        let faults = rule(&files);
        for fault in &faults {
            score::fault(&format!("{name}: {fault}"));
        }
        score += Score::of(faults.is_empty());
    }
    score += web::check_sources(repo)?;
    source::print_unsafe_table(&files);
    source::warn_of_sizes(&files);
    Ok(score)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_keeps_the_house_rules() {
        let files = Repo::here().files().expect("git lists the files");
        let faults: Vec<String> = RULES
            .iter()
            .flat_map(|(name, rule)| rule(&files).into_iter().map(move |fault| format!("{name}: {fault}")))
            .collect();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}
