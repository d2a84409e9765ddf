//! The reason for a run without findings.

use display::number::{duration_ns, noun};
use profile::verdict::Evidence;
use profile::view::wall::Wall;

/// Reason why a run of `wall_ns` is not judged at all; `None` if it is.
#[must_use]
pub fn why_not_judged(view: &Wall, samples: u64, wall_ns: u64) -> Option<String> {
    let waited = match view.whole.total_ns().saturating_sub(view.whole.on_ns) {
        0 => "no waits".to_owned(),
        waited_ns => format!("{} of waits", duration_ns(waited_ns)),
    };
    match Evidence::of(view, samples) {
        Evidence::Enough => None,
        Evidence::ShortRun => Some(format!("it ran for only {}", duration_ns(wall_ns))),
        Evidence::Little => {
            let noun = noun(samples, "sample", "samples");
            Some(format!("{samples} {noun} and {waited} are too little"))
        }
    }
}
