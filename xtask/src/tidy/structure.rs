//! Rules about the inside of crates: circles of files, and the number of modules at the root.
//!
//! Limits may only fall: whoever dissolves a circle lowers its limit.

use std::collections::{BTreeMap, BTreeSet};

use super::paths;
use crate::repo::File;

/// A crate without a line here has no circle of more files.
const SMALL_CIRCLE: usize = 4;

/// Crates with a larger circle: the number of files in it.
const CIRCLES: &[(&str, usize)] = &[];

/// A crate without a line here has no more modules at its root.
const FEW_MODULES: usize = 15;

/// Crates with more modules at their root.
const ROOT_MODULES: &[(&str, usize)] = &[];

/// Most lines of code of crates that only wire and render, without blank lines, comments and tests.
const LINES: &[(&str, usize)] = &[("cli", 24_000)];

/// The limit of a crate.
fn limit(list: &[(&str, usize)], krate: &str, usual: usize) -> usize {
    list.iter().find(|(name, _)| *name == krate).map_or(usual, |(_, limit)| *limit)
}

/// Source files of each crate by module path: `a::b` for `src/a/b.rs`, nothing for the root.
fn modules(files: &[File]) -> BTreeMap<&str, BTreeMap<Vec<&str>, &File>> {
    let mut crates: BTreeMap<&str, BTreeMap<Vec<&str>, &File>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let Some((krate, inner)) = file.krate().zip(file.path.split_once("/src/").map(|(_, inner)| inner))
        else {
            continue;
        };
        let inner = inner.trim_end_matches(".rs");
        let inner = inner.strip_suffix("/mod").unwrap_or(inner);
        let is_root = matches!(inner, "lib" | "main" | "mod");
        let path: Vec<&str> = if is_root { Vec::new() } else { inner.split('/').collect() };
        let is_test = path.iter().any(|part| *part == "tests" || part.ends_with("_test"));
        if !is_test {
            crates.entry(krate).or_default().insert(path, file);
        }
    }
    crates
}

/// The module that a path leads to: the longest beginning that is one. A name at the crate's root leads to no file.
fn target<'m>(modules: &BTreeMap<Vec<&'m str>, &File>, path: &[String]) -> Option<Vec<&'m str>> {
    let leads_to =
        |known: &&Vec<&'m str>| known.len() <= path.len() && known.iter().zip(path).all(|(a, b)| a == b);
    modules.keys().filter(|known| !known.is_empty()).filter(leads_to).max_by_key(|known| known.len()).cloned()
}

/// The files that each file of a crate uses. Re-exports (`pub use`) don't count: a folder's front uses nothing.
fn uses<'m>(modules: &BTreeMap<Vec<&'m str>, &File>) -> BTreeMap<Vec<&'m str>, BTreeSet<Vec<&'m str>>> {
    let of = |(module, file): (&Vec<&'m str>, &&File)| {
        let all = paths::used(file.product(), module);
        let mut found: BTreeSet<_> = all.iter().filter_map(|path| target(modules, path)).collect();
        found.remove(module);
        (module.clone(), found)
    };
    modules.iter().map(of).collect()
}

/// The largest set of files of which each uses every other, directly or through others.
fn largest_circle<'m>(uses: &BTreeMap<Vec<&'m str>, BTreeSet<Vec<&'m str>>>) -> Vec<Vec<&'m str>> {
    let reach = |from: &Vec<&'m str>| {
        let mut seen: BTreeSet<&Vec<&'m str>> = BTreeSet::new();
        let mut open: Vec<&Vec<&'m str>> = uses.get(from).into_iter().flatten().collect();
        while let Some(next) = open.pop() {
            if seen.insert(next) {
                open.extend(uses.get(next).into_iter().flatten());
            }
        }
        seen
    };
    let reached: BTreeMap<_, _> = uses.keys().map(|from| (from, reach(from))).collect();
    let circle = |from: &Vec<&'m str>| {
        let others =
            reached[from].iter().filter(|to| reached.get(**to).is_some_and(|back| back.contains(from)));
        others.map(|to| (*to).clone()).collect::<Vec<_>>()
    };
    uses.keys().map(circle).max_by_key(Vec::len).unwrap_or_default()
}

/// No crate has a circle of more files than its limit.
pub fn circles_are_small(files: &[File]) -> Vec<String> {
    let fault = |(krate, modules): (&&str, &BTreeMap<Vec<&str>, &File>)| {
        let circle = largest_circle(&uses(modules));
        let limit = limit(CIRCLES, krate, SMALL_CIRCLE);
        if circle.len() < limit && limit > SMALL_CIRCLE {
            println!(
                "structure: {krate}: its limit of {limit} files in a circle can be lowered to {}",
                circle.len()
            );
        }
        let names: Vec<String> = circle.iter().map(|path| path.join("::")).collect();
        let many = circle.len();
        (many > limit)
            .then(|| format!("{krate}: {many} files use each other, {limit} allowed: {}", names.join(" ")))
    };
    modules(files).iter().filter_map(fault).collect()
}

/// No crate has more modules at its root than its limit.
pub fn roots_are_small(files: &[File]) -> Vec<String> {
    let fault = |(krate, modules): (&&str, &BTreeMap<Vec<&str>, &File>)| {
        let names: BTreeSet<&str> = modules.keys().filter_map(|path| path.first().copied()).collect();
        let limit = limit(ROOT_MODULES, krate, FEW_MODULES);
        if names.len() < limit && limit > FEW_MODULES {
            println!(
                "structure: {krate}: its limit of {limit} root modules can be lowered to {}",
                names.len()
            );
        }
        (names.len() > limit).then(|| {
            format!("{krate}: {} modules at its root, {limit} allowed: put some into a folder", names.len())
        })
    };
    modules(files).iter().filter_map(fault).collect()
}

/// Lines of code of a file before its tests.
fn code_lines(file: &File) -> usize {
    let lines = file.text.lines().map(str::trim).take_while(|line| !line.starts_with("#[cfg(test)]"));
    lines.filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

/// A crate that only wires and renders stays below its limit: analysis has crates of its own.
pub fn thin_crates_stay_thin(files: &[File]) -> Vec<String> {
    let fault = |&(krate, limit): &(&str, usize)| {
        let is_product = |file: &&File| {
            let source = file.path.contains("/src/") && !file.path.ends_with("/tests.rs");
            file.is_rust() && source && file.krate() == Some(krate)
        };
        let lines: usize = files.iter().filter(is_product).map(code_lines).sum();
        (lines > limit).then(|| {
            format!("{krate}: {lines} lines of code, {limit} allowed: move what computes into a library")
        })
    };
    LINES.iter().filter_map(fault).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_before_tests_counts_as_lines() {
        let text = "//! Text.\n\nuse a::B;\n    // More.\nfn f() {}\n\n#[cfg(test)]\nmod tests {}\n";
        assert_eq!(code_lines(&file("x.rs", text)), 2);
    }

    fn file(path: &str, text: &str) -> File {
        File { path: format!("crates/a/src/{path}"), text: text.to_owned() }
    }

    fn circle(files: &[File]) -> usize {
        largest_circle(&uses(&modules(files)["a"])).len()
    }

    #[test]
    fn files_that_use_each_other_through_a_third_are_a_circle() {
        let mut files = vec![
            file("lib.rs", "mod x; mod y; mod z;"),
            file("x.rs", "use crate::{y::Y, other::Z};"),
            file("y/mod.rs", "pub use deep::D;\nfn f() { super::z::go(); }"),
            file("y/deep.rs", "use super::Y;"),
            file("z.rs", "// use crate::x::X;\n"),
        ];
        assert_eq!(circle(&files), 0);
        files[4].text = "use crate::x::X;".to_owned();
        assert_eq!(circle(&files), 3);
        files[2].text = "use deep::D;".to_owned();
        assert_eq!(circle(&files), 2);
    }
}
