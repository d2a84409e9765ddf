//! The functions whose calls are spans: by name, in the program, in processes, or in a file that is named.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use dso::code::flow::{Exits, ProbedFunction};

use super::definition::find_program;
use super::searched_files::searched_files;
use super::{ProbePlan, ProbeSelection, SearchedFile};
use crate::error::bail;

/// A function to be probed.
#[derive(Debug)]
pub struct SpanTarget {
    /// As the user named it, without the file.
    pub name: String,
    /// File.
    pub path: PathBuf,
    /// Where it begins and ends.
    pub function: ProbedFunction,
}

/// Where functions are looked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpanPlaces<'a> {
    /// The command's program.
    pub program: Option<&'a Path>,
    /// Running processes.
    pub pids: &'a [u32],
}

/// The functions that `FUNC` or `FUNC@FILE` name; several where a name has several (overloads, copies).
///
/// # Errors
/// No file to look in, no such function, or a function of Go.
pub fn span_targets(word: &str, places: SpanPlaces<'_>) -> crate::Result<Vec<SpanTarget>> {
    let (name, file) = word.rsplit_once('@').map_or((word, None), |(name, file)| (name, Some(file)));
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        bail!("--span {name}: tally watches functions (by uprobes) on x86-64 and aarch64 only");
    }
    let path = file.filter(|file| file.contains('/') || places.program.is_none() && places.pids.is_empty());
    let word = if path.is_some() { name } else { word };
    let selection = ProbeSelection::parse(&[word.to_owned()], 0, Exits::Sites)?;
    let files = match path {
        Some(file) => named_file(file)?,
        None => distinct(searched_files(places.pids, places.program, &selection)?),
    };
    if files.is_empty() {
        bail!("--span {name}: which program? --span {name}@/path/of/program names it");
    }
    let shown = files.iter().map(|file| file.path.display().to_string()).collect::<Vec<_>>().join(", ");
    let Ok(plan) = ProbePlan::from(&files, &selection) else {
        bail!(
            "--span {name}: no such function in {shown} (`nm -C` lists them); of a library or another program: \
             --span {name}@FILE"
        );
    };
    if plan.functions.iter().any(|function| function.by_goroutine) {
        bail!("--span {name}: calls of Go change threads; `tally calls -P {name}` follows goroutines");
    }
    let target = |function: ProbedFunction| SpanTarget {
        name: name.to_owned(),
        path: plan.objects[function.object].path.clone(),
        function,
    };
    Ok(plan.functions.iter().cloned().map(target).collect())
}

fn named_file(file: &str) -> crate::Result<Vec<SearchedFile>> {
    match find_program(Path::new(file)) {
        Some(path) => Ok(vec![SearchedFile { path, library: None, pid: 0 }]),
        None => bail!("--span: there is no file {file}"),
    }
}

/// Processes of one program have one file.
fn distinct(files: Vec<SearchedFile>) -> Vec<SearchedFile> {
    let mut seen = BTreeSet::new();
    let all_processes = files.into_iter().map(|file| SearchedFile { pid: 0, ..file });
    all_processes.filter(|file| seen.insert(file.path.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_in_a_named_file_and_refusals_have_a_remedy() {
        let own = std::env::current_exe().expect("this test");
        let places = SpanPlaces { program: Some(&own), pids: &[] };
        let here = format!("main@{}", own.display());
        let found = span_targets(&here, SpanPlaces::default()).expect("each program has it");
        assert!(found.iter().all(|target| target.name == "main" && !target.function.leaves.is_empty()));
        let error = |word: &str, places| span_targets(word, places).expect_err(word).to_string();
        assert!(error("no_such_function", places).contains("--span no_such_function@FILE"));
        assert!(error("main", SpanPlaces::default()).contains("which program?"));
        assert!(error("main@/no/such/file", places).contains("no file /no/such/file"));
    }
}
