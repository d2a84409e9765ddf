//! The note under a picture of the wall clock: threads and time in it, and time that is left out.

use display::number::{count_of, duration_ns};
use profile::Profile;
use profile::view::wall::{ThreadRow, WallOpts, wall};

/// Note under a picture of the wall clock: whose time it shows, and how much is idle and not drawn:
/// `8 busy threads × 4.010 s = 32.30 s · idle left out: 47.90 s (--idle)`.
#[must_use]
pub fn subtitle(profile: &Profile, opts: &WallOpts) -> String {
    let view = wall(profile, opts);
    let with_idle = opts.with_idle;
    let is_busy = |row: &&ThreadRow| with_idle || !row.is_idle();
    let busy = view.threads.iter().filter(is_busy).count();
    let shown_ns = if with_idle { view.whole.total_ns() } else { view.whole.active_ns() };
    let (threads, shown) = (count_of(busy as u64, "thread", "threads"), duration_ns(shown_ns));
    let threads = if with_idle { threads } else { threads.replacen(' ', " busy ", 1) };
    let is_product = (busy as u64).saturating_mul(view.wall_ns).abs_diff(shown_ns) <= shown_ns / 50;
    let whole = match is_product {
        true => format!("{threads} × {} = {shown}", duration_ns(view.wall_ns)),
        false => format!("{shown} of {threads} in {}", duration_ns(view.wall_ns)),
    };
    whole + &idle_words(view.whole.idle_ns, opts)
}

/// ` · idle left out: 47.90 s (--idle)`; nothing where no time is idle, or idle time is counted.
#[must_use]
pub fn idle_left_out(profile: &Profile, opts: &WallOpts) -> String {
    idle_words(wall(profile, opts).whole.idle_ns, opts)
}

fn idle_words(idle_ns: u64, opts: &WallOpts) -> String {
    if idle_ns == 0 || opts.with_idle {
        return String::new();
    }
    format!(" · idle left out: {} (--idle)", duration_ns(idle_ns))
}
