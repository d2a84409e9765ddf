//! Finds the smallest input with the same fault: leaves parts out as long as the fault stays the same.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fuzz::parcel::Parcel;
use fuzz::program::VIEWS;

/// Runs `target` on inputs in processes of their own.
struct Trial<'t> {
    target: &'t str,
    keep: &'t Path,
    tried: u64,
}

/// Writes the smallest input found to `FILE.min`.
///
/// # Errors
/// If a file can't be read or written, or `file` is no fault.
pub fn minimize(target: &str, file: &Path, keep: &Path) -> io::Result<()> {
    let input = std::fs::read(file)?;
    let mut trial = Trial { target, keep, tried: 0 };
    let fault = trial.fault(&input).ok_or_else(|| io::Error::other("no fault"))?;
    println!("{fault}");
    let small = if Parcel::is_one(&input) {
        trial.smaller_parcel(Parcel::parse(&input), &fault).to_bytes()
    } else {
        trial.smaller(input, &mut |bytes| bytes.to_vec(), &fault)
    };
    let mut out = file.as_os_str().to_owned();
    out.push(".min");
    std::fs::write(PathBuf::from(out), &small)?;
    println!("{} bytes after {} runs", small.len(), trial.tried);
    Ok(())
}

impl Trial<'_> {
    /// The kind of fault: where a panic was, or which bound was passed; `None` for a sound input.
    fn fault(&mut self, input: &[u8]) -> Option<String> {
        self.tried += 1;
        let file = self.keep.join(format!("{}.try", self.target));
        std::fs::write(&file, input).ok()?;
        let why = self.keep.join(format!("{}.why", self.target));
        let status = Command::new(std::env::current_exe().ok()?)
            .args([self.target, "--input"])
            .arg(&file)
            .env("FUZZ_KEEP", self.keep)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .ok()?;
        let told = std::fs::read_to_string(&why).unwrap_or_default();
        let first = told.lines().next().unwrap_or_default();
        let kind =
            if first.starts_with("panic") { first } else { first.split(':').next().unwrap_or_default() };
        (!status.success()).then(|| format!("{kind} ({status})"))
    }

    /// Views, whole parts, then pieces of each part.
    fn smaller_parcel(&mut self, mut parcel: Parcel, fault: &str) -> Parcel {
        let views = parcel.part(VIEWS).map(<[u8]>::to_vec).unwrap_or_default();
        for view in 0..=u8::MAX {
            let mut one = parcel.clone();
            one.parts.retain(|part| part.name != VIEWS);
            one.parts.push(fuzz::parcel::ParcelPart { name: VIEWS.to_owned(), bytes: vec![view] });
            let is_possible = if views.is_empty() { view < 64 } else { views.contains(&view) };
            if is_possible && self.fails_so(&one.to_bytes(), fault) {
                parcel = one;
                break;
            }
        }
        for at in (0..parcel.parts.len()).rev() {
            let mut fewer = parcel.clone();
            fewer.parts.remove(at);
            if self.fails_so(&fewer.to_bytes(), fault) {
                parcel = fewer;
            }
        }
        for at in 0..parcel.parts.len() {
            let whole = parcel.clone();
            let mut with = |bytes: &[u8]| {
                let mut changed = whole.clone();
                changed.parts[at].bytes = bytes.to_vec();
                changed.to_bytes()
            };
            parcel.parts[at].bytes = self.smaller(whole.parts[at].bytes.clone(), &mut with, fault);
        }
        parcel
    }

    /// Cuts ever smaller pieces out of `bytes`, then zeroes what is left in pieces.
    fn smaller(
        &mut self,
        mut bytes: Vec<u8>,
        with: &mut dyn FnMut(&[u8]) -> Vec<u8>,
        fault: &str,
    ) -> Vec<u8> {
        for zeroes in [false, true] {
            let mut piece = bytes.len().next_power_of_two() / 2;
            while piece >= 4 {
                let mut at = 0;
                while at < bytes.len() {
                    let end = (at + piece).min(bytes.len());
                    let mut changed = bytes.clone();
                    if zeroes {
                        changed[at..end].fill(0);
                    } else {
                        changed.drain(at..end);
                    }
                    if changed != bytes && self.fails_so(&with(&changed), fault) {
                        bytes = changed;
                    } else {
                        at = end;
                    }
                    at = if zeroes { end } else { at };
                }
                piece /= 2;
            }
        }
        bytes
    }

    fn fails_so(&mut self, input: &[u8], fault: &str) -> bool {
        self.fault(input).as_deref() == Some(fault)
    }
}
