//! Compressed records that become far more than they are.

use super::{hostile, outlived_within};

/// Far less than what comes out of each file.
const MEMORY_KB: u32 = 400 << 10;

#[test]
fn compressed_records_take_no_more_memory_than_their_size_justifies() {
    for name in ["zrounds1g", "zcallchain500m", "zcomm500m"] {
        let path = hostile(name);
        let file = path.to_str().expect("ASCII");
        for view in [&["report", "--stdio", "-i"][..], &["script", "-i"], &["dump", "-i"]] {
            let args = [view, &[file]].concat();
            let (_, notes) = outlived_within(MEMORY_KB, &args);
            assert!(notes.contains("they hold more than their size can justify"), "{args:?}: {notes}");
        }
    }
}
