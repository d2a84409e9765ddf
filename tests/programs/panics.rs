//! Counts its own calls where Rust is different: panics through traced frames, caught and ending threads; values dropped on
//! the way; functions of modules and generic ones.
use std::panic;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static N: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];
fn count(which: usize) { N[which].fetch_add(1, Relaxed); }

mod deep {
    pub struct Guard;
    impl Drop for Guard {
        #[inline(never)]
        fn drop(&mut self) { super::thrown(); }
    }
    #[inline(never)]
    pub fn fall(depth: u32) -> u32 {
        super::count(0);
        let _guard = Guard;
        if depth == 0 { std::panic::panic_any(7u32); }
        fall(depth - 1) + std::hint::black_box(1)
    }
    #[inline(never)]
    pub fn catching(depth: u32) -> u32 {
        super::count(1);
        match std::panic::catch_unwind(|| fall(depth)) {
            Ok(sum) => sum,
            Err(why) => *why.downcast_ref::<u32>().unwrap(),
        }
    }
}
#[inline(never)]
fn fib(n: u64) -> u64 {
    count(2);
    // A loop where the compiler is not kept from it.
    if n < 2 { n } else { std::hint::black_box(fib(n - 1)) + std::hint::black_box(fib(n - 2)) }
}
#[inline(never)]
fn work<T: Copy + Into<u64>>(by: T) -> u64 {
    count(3);
    (0..10).map(|n| fib(n) * by.into()).sum()
}
#[inline(never)]
fn thrown() {
    count(4);
}
fn main() {
    panic::set_hook(Box::new(|_| {}));
    let mut sum = 0;
    let threads: Vec<_> = (0..4u32).map(|n| std::thread::spawn(move || {
        (0..20).map(|d| u64::from(deep::catching(d))).sum::<u64>() + work(n) + work(n as u64)
    })).collect();
    for thread in threads { sum += thread.join().unwrap(); }
    let died = std::thread::spawn(|| deep::fall(5)).join();
    assert!(died.is_err() && sum > 0);
    let of = |n: usize| N[n].load(Relaxed);
    println!("panics::deep::fall {}\npanics::deep::catching {}\npanics::fib {}\npanics::thrown {}", of(0), of(1), of(2), of(4));
    println!("panics::work::<u32> {}\npanics::work::<u64> {}", of(3) / 2, of(3) / 2);
}
