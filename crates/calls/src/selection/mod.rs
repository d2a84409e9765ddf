//! The functions, threads and calls that a user selects: words of the command line, and what they match.

pub mod duration;
pub mod function_filter;
pub mod pattern;
pub mod rules;
pub mod trace_spec;
pub mod trace_switch;
pub mod trigger;
pub mod view_filter;
pub mod view_spec;

pub use duration::duration_ns_of;
pub use trace_spec::TraceSpec;
pub use view_filter::ViewFilter;
pub use view_spec::ViewSpec;
