//! `tally kallsyms`: where functions of the running kernel are.

use crate::terminal::out;
use anyhow::bail;
use dso::Symbol;
use dso::kernel::kallsyms::Kallsyms;
use std::path::PathBuf;
use std::process::ExitCode;

/// Find functions and variables of the running kernel by name, in perf's form
#[derive(clap::Args)]
#[command(after_help = "\
Prints name, module, and the addresses from begin to end, in memory and in the symbol
table. Status 1: one of the names wasn't found.

Examples:
  tally kallsyms do_futex
  tally kallsyms vfs_read vfs_write
  tally kallsyms --kallsyms other-machine.txt do_futex    from a copy of /proc/kallsyms")]
pub struct Args {
    /// Names, exactly as in /proc/kallsyms
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// A copy of /proc/kallsyms instead of the running kernel's
    #[arg(long, value_name = "FILE")]
    kallsyms: Option<PathBuf>,
    /// perf's flag; there is no more to print
    #[arg(short, long, hide = true)]
    verbose: bool,
}

/// # Errors
/// If the kernel's symbols can't be read.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let table = match &args.kallsyms {
        Some(path) => Kallsyms::read_named(path),
        None => Kallsyms::read(),
    };
    let table = match table {
        Ok(table) => table,
        Err(why) => bail!(
            "can't read the kernel's symbols: {why}; run as root, or allow it: sysctl kernel.kptr_restrict=0"
        ),
    };
    let mut all_found = true;
    for name in &args.names {
        let found = lines(&table, name);
        if found.is_empty() {
            all_found = false;
            out::line(&format!("{}: not found", out::harmless(name)))?;
        }
        found.iter().try_for_each(|line| out::line(line))?;
    }
    Ok(if all_found { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A line for each symbol of this name: modules may have equal names.
fn lines(table: &Kallsyms, name: &str) -> Vec<String> {
    let line = |(module, file): (&str, &str), symbol: &Symbol<'_>| {
        let range = format!("{:#x}-{:#x}", symbol.start.0, symbol.end.0);
        out::harmless(&format!("{name}: [{module}] [{file}] {range} ({range})")).into_owned()
    };
    let kernel = table.kernel.by_name(name).map(|symbol| line(("kernel", "kernel.kallsyms"), &symbol));
    let modules = table.modules.iter().flat_map(|(module, symbols)| {
        symbols.by_name(name).map(move |symbol| line((module, module), &symbol)).collect::<Vec<_>>()
    });
    kernel.chain(modules).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_is_found_in_the_kernel_and_in_modules() {
        let text = b"ffffffff81000000 T begin\nffffffff81000010 T read\nffffffff81000030 T end\n\
                     ffffffffc0000000 t read\t[disk]\nffffffffc0000020 t write\t[disk]\n";
        let table = Kallsyms::parse(text).expect("symbols");
        let kernel = "read: [kernel] [kernel.kallsyms] 0xffffffff81000010-0xffffffff81000030 \
                      (0xffffffff81000010-0xffffffff81000030)";
        let module = "read: [disk] [disk] 0xffffffffc0000000-0xffffffffc0000020 \
                      (0xffffffffc0000000-0xffffffffc0000020)";
        assert_eq!(lines(&table, "read"), [kernel, module]);
        assert!(lines(&table, "nosuch").is_empty());
    }
}
