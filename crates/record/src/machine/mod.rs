//! The running machine: its processes, threads, mappings and CPUs, and the features that work on it.

pub mod attach;
pub mod capabilities;
pub mod cgroups;
pub mod container_names;
pub mod doctor;
pub mod hotplug;
pub mod named_processes;
pub mod objects;
pub mod pid_filter;
pub mod proc;
pub mod process_titles;
pub mod process_tree;
pub mod processes;
pub mod refusal;
pub mod synthesize;
