// As values.c, of Rust: slices, characters, enums, a panic through traced frames.
// Built by the tests: -Z instrument-xray and -Z patchable-function-entry need the nightly compiler (or RUSTC_BOOTSTRAP=1).
use std::hint::black_box;

#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub enum Mode {
    Off,
    Slow = 3,
    Fast = 9,
}

pub struct Meters(pub f64);

pub struct Big {
    pub a: [u64; 4],
}

#[inline(never)]
pub fn ints(a: i32, b: u8, c: u64, d: bool, e: char) -> i64 {
    i64::from(a) + i64::from(b) + c as i64 + i64::from(d) + e as i64
}

#[inline(never)]
pub fn text(s: &str, n: usize) -> &str {
    black_box(&s[n..])
}

#[inline(never)]
pub fn mode(m: Mode) -> Mode {
    black_box(if let Mode::Off = m { Mode::Fast } else { Mode::Slow })
}

#[inline(never)]
pub fn far(m: Meters, k: f32) -> f64 {
    m.0 * f64::from(k)
}

#[inline(never)]
pub fn big(b: Big, x: i32) -> u64 {
    b.a[1] + x as u64
}

#[inline(never)]
pub fn boom(n: i32) -> i32 {
    if n > 1 {
        panic!("no")
    }
    n
}

fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let sum = ints(black_box(-3), black_box(200), black_box(12_345_678_901), black_box(true), black_box('é'));
    println!("ints(-3, 200, 12345678901, true, 'é') = {sum};");
    println!("text(\"hello world\", 6) = {:?};", text(black_box("hello world"), black_box(6)));
    println!("mode(Off) = {:?};", mode(black_box(Mode::Off)));
    println!("far(Meters{{...}}, 2.5) = {};", far(black_box(Meters(1.5)), black_box(2.5)));
    println!("big(Big{{...}}, 7) = {};", big(black_box(Big { a: [1, 2, 3, 4] }), black_box(7)));
    println!("boom(1) = {};", boom(black_box(1)));
    if std::panic::catch_unwind(|| boom(black_box(2))).is_err() {
        println!("boom(2); /* left without returning */");
    }
}
