//! How numbers, names and states look in every view: [`number`] formats counts, times and sizes, [`fit`] cuts and wraps text,
//! [`shorten`] names of functions, [`reading`] a file's progress, [`bar`] draws shares, [`palette`] gives a thread's states their colours and letters, [`signal`] names
//! the signals that end programs, [`term`] reports what the terminal can show.
//!
//! Nothing is printed here, and nothing of a profile is known: the text views, the terminal interface, SVG and HTML share it.
//!
//! ```
//! use display::{fit, number, palette::StateClass};
//!
//! assert_eq!(number::duration_ns(12_345_678), "12.35 ms");
//! assert_eq!(fit::wrap("waits for a lock", 10), ["waits for", "a lock"]);
//! assert_eq!(StateClass::of("futex").letter(), 'L');
//! ```
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod bar;
pub mod change_columns;
pub mod digits;
pub mod fit;
pub mod number;
pub mod palette;
pub mod reading;
pub mod shorten;
pub mod signal;
pub mod term;
