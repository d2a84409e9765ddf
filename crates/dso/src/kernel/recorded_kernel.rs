//! The kernel of a recording: is it the one that runs here?

use crate::addr::Svma;
use crate::elf::build_id::BuildId;
use crate::kernel::kallsyms::Kallsyms;
use std::ops::Range;

/// The kernel of a recording. The running kernel's names, modules and vdso are used only if this is that
/// kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedKernel {
    /// Build-id of its image.
    pub build_id: Option<BuildId>,
    /// As `uname -r` shows it.
    pub release: Option<String>,
    /// Kernel Avmas of its code, from `_text` or `_stext` to `_etext` or `_edata`.
    pub code: Option<Range<u64>>,
}

impl RecordedKernel {
    /// True when the running kernel is the recorded one: by build-id if one was recorded, else by
    /// release. A recording with neither (a pipe of an old perf, a killed recorder) is taken as this
    /// kernel's only if its code has the same place and length; `symbols` are the running kernel's.
    #[must_use]
    pub fn is_running<'k>(&self, symbols: impl FnOnce() -> Option<&'k Kallsyms>) -> bool {
        if let Some(id) = &self.build_id {
            return crate::elf::kernel_build_id().is_some_and(|own| own.same_as(id));
        }
        if let Some(release) = &self.release {
            return running_release().as_ref() == Some(release);
        }
        self.code.as_ref().is_some_and(|code| symbols().is_some_and(|kernel| has_code_at(kernel, code)))
    }
}

fn running_release() -> Option<String> {
    let text = crate::files::system_file::read_text("/proc/sys/kernel/osrelease").ok()?;
    Some(text.trim_end().to_owned())
}

fn has_code_at(kernel: &Kallsyms, code: &Range<u64>) -> bool {
    let start = Kallsyms::start_of(&kernel.kernel);
    start == Some(Svma(code.start)) && kernel.ends.contains(&Svma(code.end))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: &[u8] = b"ffffffff81000000 T _text\n\
        ffffffff81000000 T _stext\n\
        ffffffff81000000 T __pi__text\n\
        ffffffff81000100 T do_work\n\
        ffffffff82209000 T _etext\n";

    fn with_code(code: Range<u64>) -> RecordedKernel {
        RecordedKernel { code: Some(code), ..RecordedKernel::default() }
    }

    #[test]
    fn without_build_id_and_release_place_and_length_of_the_code_decide() {
        let kernel = Kallsyms::parse(SYMBOLS).expect("symbols");
        let is_running = |recorded: RecordedKernel| recorded.is_running(|| Some(&kernel));
        assert!(is_running(with_code(0xffff_ffff_8100_0000..0xffff_ffff_8220_9000)));
        // Another kernel at the usual address; perf of the time ended it where modules begin.
        assert!(!is_running(with_code(0xffff_ffff_8100_0000..0xffff_ffff_9fff_ffff)));
        assert!(!is_running(with_code(0xffff_ffff_8100_0190..0xffff_ffff_8220_9000)));
        assert!(!is_running(RecordedKernel::default()));
    }

    #[test]
    fn another_release_is_another_kernel_wherever_its_code_is() {
        let kernel = Kallsyms::parse(SYMBOLS).expect("symbols");
        let code = 0xffff_ffff_8100_0000..0xffff_ffff_8220_9000;
        let recorded = RecordedKernel { release: Some("3.4.0-chromeos".into()), ..with_code(code) };
        assert!(!recorded.is_running(|| Some(&kernel)));
        let own = RecordedKernel { release: running_release(), ..RecordedKernel::default() };
        assert!(own.is_running(|| None));
    }
}
