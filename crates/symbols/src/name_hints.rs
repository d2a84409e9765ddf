//! Share of a recording that lacks names or lines, and how to get them.

mod debug_packages;

use crate::is_unnamed_jit_code;
use crate::name_opts::debuginfod::why_not;
use profile::grow::{Grow as _, GrownSum as _};
use profile::profile::Profile;
use profile::table::{Dso, DsoId, DsoKind, FrameId};
use profile::verdict::FEW_SAMPLES;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Less of the time is not worth a line, in percent.
const LEAST: f64 = 10.0;
/// Files named one by one.
const NAMED_FILES: usize = 2;
/// Files with less than this part of the time without names are left out.
const LEAST_PART: u64 = 20;

/// By file: period of the samples that end there.
type Sums = BTreeMap<DsoId, u64>;

/// Samples by what they lack.
#[derive(Default)]
struct Lacking {
    /// Number of samples.
    samples: u64,
    total: u64,
    /// In files, without a symbol.
    names: Sums,
    /// In code of a JIT compiler, without a name.
    jit_names: u64,
    /// In programs built here, without line information.
    lines: Sums,
    /// In them, with or without.
    own_builds: Sums,
}

/// One line for each thing that is missing in a part of the samples of `event`.
pub fn hints(profile: &Profile, event: usize) -> Vec<String> {
    let lacking = Lacking::of(profile, event);
    let names = lacking.names_hint(profile, &debug_packages::packages_of);
    names.into_iter().chain(lacking.jit_hint(profile)).chain(lacking.lines_hint(profile)).collect()
}

impl Lacking {
    fn of(profile: &Profile, event: usize) -> Self {
        let mut lacking = Self::default();
        for (key, sums) in profile.cells().iter().filter(|(key, _)| key.event as usize == event) {
            lacking.samples.grow(sums.count);
            lacking.total.grow(sums.period);
            lacking.add(profile, profile.callsites.of(key.callsite).frame, sums.period);
        }
        lacking
    }

    fn add(&mut self, profile: &Profile, frame: FrameId, period: u64) {
        let id = profile.frames.of(frame).dso;
        let (dso, functions) = (profile.dsos.of(id), profile.frame_names(frame));
        let name = functions.last().map(|own| profile.strings.of(profile.symbols.of(own.symbol).name));
        if dso.kind == DsoKind::File && is_own_build(&dso.path) {
            self.own_builds.entry(id).or_default().grow(period);
        }
        match dso.kind {
            DsoKind::PerfMap { .. } if name.is_none_or(is_unnamed_jit_code) => self.jit_names.grow(period),
            DsoKind::File if name.is_none_or(dso::is_unnamed_function) => {
                self.names.entry(id).or_default().grow(period);
            }
            DsoKind::File if is_own_build(&dso.path) && functions.iter().all(|own| own.file.is_none()) => {
                self.lines.entry(id).or_default().grow(period);
            }
            _ => {}
        }
    }

    /// Percent of the time, if it is worth a line.
    fn percent(&self, period: u64) -> Option<f64> {
        Some(period as f64 * 100.0 / self.total.max(1) as f64).filter(|&percent| percent >= LEAST)
    }

    fn names_hint(
        &self,
        profile: &Profile,
        packages_of: &dyn Fn(&[&str]) -> BTreeSet<String>,
    ) -> Option<String> {
        let percent = self.percent(self.names.values().copied().grown_sum())?;
        let mut files: Vec<(&Dso, u64)> =
            self.names.iter().map(|(&id, &sum)| (profile.dsos.of(id), sum)).collect();
        files.sort_by_key(|(_, sum)| std::cmp::Reverse(*sum));
        files.truncate(NAMED_FILES);
        // A file with next to nothing isn't worth a package.
        let whole: u64 = files.iter().map(|(_, sum)| *sum).grown_sum();
        files.retain(|(_, sum)| sum.saturating_mul(LEAST_PART) >= whole);
        let named: Vec<&str> = files.iter().map(|(dso, _)| dso.short_name.as_str()).collect();
        let paths: Vec<&str> = files.iter().map(|(dso, _)| dso.path.as_str()).collect();
        let packages = packages_of(&paths);
        let mut ways = debug_packages::ways(&packages, &debug_packages::apt_sources());
        let id = files.first().and_then(|(dso, _)| dso::BuildId::from_bytes(dso.build_id.as_deref()?));
        if id.is_some() && why_not().is_none() {
            ways.push("tally report --debuginfod".to_owned());
        }
        if ways.is_empty() {
            ways.push("use a build that is not stripped".to_owned());
        }
        // The names of several packages are enough for one line.
        let files = if packages.len() > 1 { String::new() } else { format!(" ({})", named.join(", ")) };
        let (share, ways) = (self.share(percent), ways.join(", or "));
        Some(format!("{share} of CPU time is in functions without a symbol{files}: {ways}"))
    }

    fn jit_hint(&self, profile: &Profile) -> Option<String> {
        let percent = self.percent(self.jit_names)?;
        let way = runtime_flags(profile).unwrap_or("have its runtime write /tmp/perf-PID.map");
        Some(format!("{} of CPU time is in JIT code without names: {way}", self.share(percent)))
    }

    /// `12.3 %`; for few samples only `Part`.
    fn share(&self, percent: f64) -> String {
        if self.samples < FEW_SAMPLES { "Part".to_owned() } else { format!("{percent:.1} %") }
    }

    fn lines_hint(&self, profile: &Profile) -> Option<String> {
        let (&id, &most) = self.lines.iter().max_by_key(|(_, sum)| **sum)?;
        self.percent(most)?;
        // Some code in a file with lines has none: start code, the PLT.
        if self.own_builds.get(&id).is_some_and(|&whole| most < whole / 2) {
            return None;
        }
        let name = &profile.dsos.of(id).short_name;
        Some(format!(
            "{name} has no line information: build it with -g \
             (Rust: CARGO_PROFILE_RELEASE_DEBUG=1) to see inlined functions and lines"
        ))
    }
}

/// Not of a distribution or a toolchain, which build their programs themselves.
fn is_own_build(path: &str) -> bool {
    const TOOLCHAINS: [&str; 6] =
        ["/.rustup/", "/.cargo/bin/", "/.pyenv/", "/.nvm/", "/.sdkman/", "/go/pkg/tool/"];
    if TOOLCHAINS.iter().any(|folder| path.contains(folder)) {
        return false;
    }
    !["/usr/lib", "/usr/bin", "/usr/sbin", "/lib", "/bin", "/sbin", "/opt", "/snap", "/nix", "/usr/local/go"]
        .iter()
        .any(|folder| Path::new(path).starts_with(folder))
}

/// How the runtime that made the code is asked for names, by what its process has mapped.
fn runtime_flags(profile: &Profile) -> Option<&'static str> {
    let has = |begin: &str| profile.dsos.iter().any(|(_, dso)| dso.short_name.starts_with(begin));
    let flags = [
        (
            "libjvm.so",
            "JAVA_TOOL_OPTIONS='-XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit'",
        ),
        ("libcoreclr.so", "DOTNET_PerfMapEnabled=1"),
        ("node", "NODE_OPTIONS='--perf-basic-prof --interpreted-frames-native-stack'"),
        ("beam.smp", "ERL_FLAGS='+JPperf map'"),
        ("mono", "MONO_ENV_OPTIONS=--jitmap"),
        ("php", "php -d opcache.jit_debug=16"),
        ("libruby", "ruby --yjit-perf=map (3.3 and later)"),
        ("llvmjit.so", "PostgreSQL's setting jit_profiling_support=on, at its start"),
        ("wasmtime", "wasmtime --profile=perfmap"),
        ("_libwasmtime.so", "wasmtime's Config.profiler = perfmap"),
        ("luajit", "LuaJIT can't; luajit -joff shows the interpreter's functions"),
    ];
    flags.iter().find(|(begin, _)| has(begin)).map(|(_, flags)| *flags)
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::profile::{CellKey, EventInfo, ExtraDimensions, Sums, Task};
    use profile::source::{DsoSource, NamedFrame, Want};
    use profile::table::Frame;

    struct Named;

    impl DsoSource for Named {
        fn symbolize(&self, dso: &Dso, addrs: &[u64], _: Want) -> Vec<Result<Vec<NamedFrame>, dso::Missing>> {
            let name = match dso.short_name.as_str() {
                "libz.so.1" | "dash" => "function 0x5d80",
                "app" => "main",
                _ => "[JIT code]",
            };
            addrs
                .iter()
                .map(|_| Ok(vec![NamedFrame { name: name.to_owned(), ..NamedFrame::default() }]))
                .collect()
        }
    }

    /// Ten samples in each of these files, with a period for all of them.
    fn sampled(files: &[(&str, DsoKind, u64)]) -> Profile {
        samples(files, 10)
    }

    fn samples(files: &[(&str, DsoKind, u64)], count: u64) -> Profile {
        let mut profile = Profile::default();
        profile.events.push(EventInfo::default());
        let comm = profile.strings.intern("app");
        let task = profile.intern_task(Task { pid: 1, tid: 1, process: 0, comm });
        let extra = profile.intern_extra(ExtraDimensions::default());
        for &(path, kind, period) in files {
            let short_name = path.rsplit('/').next().unwrap_or(path).to_owned();
            let (path, level) = (path.to_owned(), '.');
            let dso = Dso { kind, path, short_name, build_id: None, level, start_avma: 0 };
            let dso = profile.dsos.intern(dso);
            let frame = profile.frames.intern(Frame { dso, addr: 1, lookup: 1, first_avma: 1 });
            let callsite = profile.callsites.intern_leaf_first(&[frame]).expect("a frame");
            let key = CellKey { event: 0, task, cpu: -1, callsite, extra };
            profile.add(key, Sums { count, period, weight: 0, ..Sums::default() });
        }
        profile.symbolize(&Named, Want::Lines);
        profile
    }

    #[test]
    fn functions_without_a_symbol_are_told_with_the_package_that_names_them() {
        let profile =
            sampled(&[("/usr/lib/libz.so.1", DsoKind::File, 25), ("/home/me/app", DsoKind::File, 75)]);
        let lacking = Lacking::of(&profile, 0);
        let hint = lacking.names_hint(&profile, &|paths| {
            let known = paths.iter().filter(|path| path.contains("libz"));
            known.map(|_| "zlib1g".to_owned()).collect()
        });
        let hint = hint.expect("a quarter of the time");
        let begin =
            "25.0 % of CPU time is in functions without a symbol (libz.so.1): apt install zlib1g-dbgsym";
        assert!(hint.starts_with(begin), "{hint}");
        assert!(
            lacking.lines_hint(&profile).is_some_and(|hint| hint.starts_with("app has no line information"))
        );
        assert_eq!(lacking.jit_hint(&profile), None);
    }

    #[test]
    fn a_file_with_next_to_nothing_is_worth_no_package() {
        let profile =
            sampled(&[("/usr/lib/libz.so.1", DsoKind::File, 97), ("/usr/bin/dash", DsoKind::File, 3)]);
        let hint = Lacking::of(&profile, 0).names_hint(&profile, &|paths| {
            paths.iter().map(|path| path.rsplit('/').next().unwrap_or(path).to_owned()).collect()
        });
        let hint = hint.expect("all of the time");
        assert!(hint.contains("(libz.so.1): apt install") && !hint.contains("dash"), "{hint}");
    }

    #[test]
    fn jit_code_without_names_is_told_with_the_flags_of_its_runtime() {
        let jit = DsoKind::PerfMap { pid: 7 };
        let profile = sampled(&[("/tmp/perf-7.map", jit, 50), ("/usr/bin/node", DsoKind::File, 50)]);
        let lacking = Lacking::of(&profile, 0);
        let hint = lacking.jit_hint(&profile).expect("half of the time");
        assert!(hint.starts_with("50.0 %") && hint.contains("NODE_OPTIONS"), "{hint}");
        assert_eq!(
            (lacking.names_hint(&profile, &|_| BTreeSet::new()), lacking.lines_hint(&profile)),
            (None, None)
        );
    }

    #[test]
    fn few_samples_have_no_percentage() {
        let profile = samples(&[("/usr/lib/libz.so.1", DsoKind::File, 1)], 1);
        let hint = Lacking::of(&profile, 0).names_hint(&profile, &|_| BTreeSet::new()).expect("all of it");
        assert!(hint.starts_with("Part of CPU time is in functions without a symbol (libz.so.1)"), "{hint}");
    }

    #[test]
    fn jit_code_in_python_is_that_of_a_library() {
        let of = |library: &str| {
            let files = [
                ("/usr/bin/python3.12", DsoKind::File, 10),
                (library, DsoKind::File, 40),
                ("/tmp/perf-1.map", DsoKind::PerfMap { pid: 1 }, 50),
            ];
            let profile = sampled(&files);
            Lacking::of(&profile, 0).jit_hint(&profile).unwrap_or_default()
        };
        assert!(of("/site-packages/wasmtime/_libwasmtime.so").ends_with("Config.profiler = perfmap"));
        assert!(of("/site-packages/app.so").ends_with("have its runtime write /tmp/perf-PID.map"));
        assert!(of("/usr/bin/php8.2").ends_with("opcache.jit_debug=16"));
    }
}
