//! The shared recordings: attribution must be equal to that of perf 6.1.

use perfdata::{Order, PerfData};
use profile::Profile;
use profile::reason::StackEnd;
use profile::session::{Session, SessionOpts, UnwoundStack};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

fn folder() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = match std::env::var_os("TALLY_FIXTURES") {
        Some(folder) => PathBuf::from(folder),
        None => root.join("../shared/fixtures"),
    };
    let folder = folder.join("perfdata");
    folder.is_dir().then_some(folder)
}

fn profile_of(bytes: &[u8]) -> Profile {
    let file = PerfData::open(bytes).expect("a recording");
    let mut session = Session::new(file.events(), file.endian(), SessionOpts::default());
    let ids: Vec<(String, Vec<u8>)> = (file.features().build_ids.iter())
        .map(|entry| (String::from_utf8_lossy(&entry.filename).into_owned(), entry.build_id.clone()))
        .collect();
    session.set_build_ids(ids.iter().map(|(path, id)| (path.as_str(), id.as_slice())));
    file.visit(Order::Time, |item| {
        if let Some(job) = session.push(item) {
            session.complete(
                job,
                &UnwoundStack { addrs: &[], exact: &[], known: &[], end: StackEnd::NoRegisters },
            );
        }
        ControlFlow::Continue(())
    });
    session.finish()
}

fn by_comm(profile: &Profile) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for (key, sums) in profile.cells() {
        let comm = profile.strings.of(profile.task(key.task).comm);
        *counts.entry(comm.to_owned()).or_default() += sums.count;
    }
    counts
}

fn by_dso(profile: &Profile) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for (key, sums) in profile.cells() {
        let dso = profile.dsos.of(profile.frames.of(profile.callsites.of(key.callsite).frame).dso);
        *counts.entry(profile::machine::file_name(&dso.path).to_owned()).or_default() += sums.count;
    }
    counts
}

fn expected(json: &Value, key: &str) -> Option<BTreeMap<String, u64>> {
    let object = json.get("perf_6_1")?.get(key)?.as_object()?;
    Some(object.iter().map(|(name, count)| (name.clone(), count.as_u64().unwrap_or(0))).collect())
}

#[test]
fn samples_go_to_the_comms_and_dsos_that_perf_names() {
    let Some(folder) = folder() else {
        println!("skipped: no shared fixtures");
        return;
    };
    let mut wrong = Vec::new();
    let mut files: Vec<_> = std::fs::read_dir(&folder).expect("folder").flatten().map(|e| e.path()).collect();
    files.sort();
    for path in files.iter().filter(|p| p.to_string_lossy().ends_with(".expected.json")) {
        let json: Value = serde_json::from_slice(&std::fs::read(path).expect("json")).expect("json");
        let data = PathBuf::from(path.to_string_lossy().replace(".expected.json", ""));
        let profile = profile_of(&std::fs::read(&data).expect("data"));
        assert!(profile.diagnostics.is_conserved(), "{}: {:?}", data.display(), profile.diagnostics);
        for (what, counts) in
            [("samples_by_comm", by_comm(&profile)), ("samples_by_dso_basename", by_dso(&profile))]
        {
            if let Some(expected) = expected(&json, what).filter(|expected| *expected != counts) {
                let differing =
                    |a: &BTreeMap<String, u64>, b: &BTreeMap<String, u64>| -> Vec<(String, u64)> {
                        a.iter().filter(|(k, v)| b.get(*k) != Some(v)).map(|(k, v)| (k.clone(), *v)).collect()
                    };
                let name = data.file_name().unwrap_or_default().to_string_lossy().into_owned();
                wrong.push(format!(
                    "{name} {what}: perf {:?}, we {:?}",
                    differing(&expected, &counts),
                    differing(&counts, &expected)
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
