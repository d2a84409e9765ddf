//! Addresses in the image of a program, as other profilers write them, turned into offsets in its file.

use crate::ObjectFiles;
use dso::Svma;
use perfdata::appendix::summed_stacks::{CodeKind, StackLine, SummedStacks};
use profile::session::dso_of;

/// Places the addresses of all images whose files are here. Those of others stay, and get no names.
pub fn place(stacks: &mut SummedStacks, files: &ObjectFiles) {
    for at in 0..stacks.files.len() {
        let has_unnamed = stacks.frames.iter().any(|frame| frame.file == at && frame.lines.is_empty());
        if stacks.files[at].kind == CodeKind::Image && has_unnamed {
            place_in(stacks, at, files);
        }
    }
}

fn place_in(stacks: &mut SummedStacks, at: usize, files: &ObjectFiles) {
    let loaded = files.open(&dso_of(&stacks.files[at]));
    let Some(object) = loaded.as_ref().as_ref().ok().and_then(|loaded| loaded.object()) else { return };
    let Some(lowest) = object.segments().iter().map(|segment| segment.svma.start).min() else { return };
    stacks.files[at].kind = CodeKind::File;
    for frame in stacks.frames.iter_mut().filter(|frame| frame.file == at) {
        let Some(address) = frame.address else { continue };
        frame.address = object.file_offset_of(Svma(lowest.wrapping_add(address))).map(|offset| offset.0);
        // Outside of the file: the number is all that is known.
        if frame.address.is_none() && frame.lines.is_empty() {
            frame.lines = vec![StackLine { function: format!("{address:#x}"), ..StackLine::default() }];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfdata::appendix::summed_stacks::{CodeFile, StackFrame};

    fn image(path: &str, addresses: &[u64]) -> SummedStacks {
        let frame = |address: &u64| StackFrame { file: 0, address: Some(*address), lines: Vec::new() };
        SummedStacks {
            files: vec![CodeFile { kind: CodeKind::Image, path: path.to_owned(), build_id: Vec::new() }],
            frames: addresses.iter().map(frame).collect(),
            ..SummedStacks::default()
        }
    }

    #[test]
    fn an_address_in_an_image_becomes_the_offset_of_its_byte() {
        let own = std::env::current_exe().expect("this program");
        let file = std::fs::read(&own).expect("readable");
        let object = dso::ObjectFile::parse(dso::Bytes::from_vec(file)).expect("an object");
        let code = object.segments().iter().find(|segment| segment.executable).expect("code").clone();
        let lowest = object.segments().iter().map(|segment| segment.svma.start).min().expect("a segment");
        let mut stacks = image(&own.to_string_lossy(), &[code.svma.start + 5 - lowest, u64::MAX >> 1]);
        place(&mut stacks, &ObjectFiles::default());
        assert_eq!(stacks.files[0].kind, CodeKind::File);
        assert_eq!(stacks.frames[0].address, Some(code.file.start + 5));
        assert_eq!(
            (stacks.frames[1].address, stacks.frames[1].lines[0].function.as_str()),
            (None, "0x7fffffffffffffff")
        );
    }

    #[test]
    fn images_whose_file_is_missing_stay_as_they_are() {
        let mut stacks = image("/nowhere/app", &[5]);
        let before = stacks.clone();
        place(&mut stacks, &ObjectFiles::default());
        assert_eq!(stacks, before);
    }
}
