//! Compresses the committed BPF objects, which the program carries and seldom needs.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::DeflateEncoder;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=bpf");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for entry in fs::read_dir("bpf").expect("the folder of BPF programs") {
        let object = entry.expect("its entries").path();
        if object.extension().is_some_and(|extension| extension == "o") {
            let name = object.file_name().expect("a name").to_string_lossy().into_owned();
            deflate(&object, &out.join(name + ".deflate"));
        }
    }
}

fn deflate(from: &Path, to: &Path) {
    let mut packed = DeflateEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&fs::read(from).expect("an object")).expect("memory");
    fs::write(to, packed.finish().expect("memory")).expect("the build folder can be written");
}
