//! Writes the manual pages and the completions of the shells: `cargo run --example manual -- FOLDER`.
//!
//! `FOLDER/man1` gets a page for the program and one for each command, `FOLDER/completions` a file for each shell.
#![forbid(unsafe_code)]

use clap::{CommandFactory, ValueEnum};
use std::fs;
use std::path::{Path, PathBuf};

fn main() -> std::io::Result<()> {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: manual FOLDER");
        std::process::exit(2);
    };
    let pages = write_pages(&folder.join("man1"))?;
    let shells = write_completions(&folder.join("completions"))?;
    println!("{pages} manual pages and completions for {shells} shells in {}", folder.display());
    Ok(())
}

/// Writes a page for each command; returns their number.
fn write_pages(folder: &Path) -> std::io::Result<usize> {
    fs::create_dir_all(folder)?;
    let pages = cli::help::pages();
    let names: Vec<String> = pages.iter().map(|(name, _)| name.clone()).collect();
    for (name, command) in pages {
        let below: Vec<&str> =
            names.iter().map(String::as_str).filter(|other| is_next(&name, other)).collect();
        fs::write(folder.join(format!("{name}.1")), page(&name, command, &below)?)?;
    }
    Ok(names.len())
}

/// Whether the page `other` is to be named on the page `name`: the one above it and those directly below.
fn is_next(name: &str, other: &str) -> bool {
    let parent = |name: &str| name.rsplit_once('-').map(|(parent, _)| parent.to_owned());
    parent(other).as_deref() == Some(name) || parent(name).as_deref() == Some(other)
}

fn page(name: &str, command: clap::Command, related: &[&str]) -> std::io::Result<Vec<u8>> {
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let command = command.display_name(name.to_owned()).after_help("").disable_help_subcommand(true);
    let man = clap_mangen::Man::new(command).section("1").manual("tally");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if name == "tally" {
        man.render_subcommands_section(&mut text)?;
    }
    text.extend(as_printed("NOTES", &examples));
    text.extend(see_also(related));
    Ok(text)
}

/// A section whose lines stay as they are: examples are commands with a remark in a column of their own.
fn as_printed(heading: &str, lines: &str) -> Vec<u8> {
    if lines.trim().is_empty() {
        return Vec::new();
    }
    let escaped = lines.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    let body: String = escaped.lines().map(|line| format!("\\&{line}\n")).collect();
    format!(".SH {heading}\n.nf\n{body}.fi\n").into_bytes()
}

fn see_also(related: &[&str]) -> Vec<u8> {
    if related.is_empty() {
        return Vec::new();
    }
    let names: Vec<String> =
        related.iter().map(|name| format!("\\fB{}\\fR(1)", name.replace('-', "\\-"))).collect();
    format!(".SH SEE ALSO\n{}\n", names.join(",\n")).into_bytes()
}

/// Writes a file for each shell; returns their number.
fn write_completions(folder: &Path) -> std::io::Result<usize> {
    fs::create_dir_all(folder)?;
    let shells = clap_complete::Shell::value_variants();
    for shell in shells {
        clap_complete::generate_to(*shell, &mut cli::flags::Flags::command(), "tally", folder)?;
    }
    Ok(shells.len())
}
