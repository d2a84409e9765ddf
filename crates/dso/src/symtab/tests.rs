//! Symbols by address: which one wins, and where each ends.

use super::*;

fn table(symbols: &[(u64, u64, &str, Binding)]) -> SymbolTable {
    let mut b = SymbolTableBuilder::new(SymbolSource::Symtab);
    for &(start, size, name, binding) in symbols {
        b.push(Svma(start), size, name, binding);
    }
    b.build()
}

fn name(t: &SymbolTable, at: u64) -> Option<&str> {
    t.find(Svma(at)).map(|s| s.name)
}

#[test]
fn every_symbol_covers_its_own_address() {
    let starts = [0, 1, u64::MAX - 4096, u64::MAX - 1, u64::MAX];
    for size in [0, 1, u64::MAX] {
        let t = table(&starts.map(|start| (start, size, "name", Binding::Global)));
        assert_eq!(t.len(), 4, "nothing covers the last address");
        assert!(t.iter().all(|symbol| t.find(symbol.start) == Some(symbol)));
    }
}

#[test]
fn no_symbol_of_a_damaged_index_ends_before_it_starts() {
    let mut bytes =
        table(&[(16, 0, "a", Binding::Global), (64, 8, "b", Binding::Global)]).as_bytes().to_vec();
    bytes[HEADER + ENTRY] = 8;
    let damaged = SymbolTable::from_bytes(Bytes::from_vec(bytes)).expect("its lengths are right");
    assert!(damaged.iter().all(|symbol| symbol.start <= symbol.end));
    let mut other = SymbolTableBuilder::new(SymbolSource::Symtab);
    other.extend_missing(&damaged);
    assert_eq!(other.len(), 2);
}

#[test]
fn of_aliases_the_one_perf_shows_is_kept() {
    use Binding::*;
    let t = table(&[
        (16, 8, "__memcpy", Global),
        (16, 8, "memcpy", Global),
        (16, 8, "memcpy_weak_longer", Weak),
        (16, 0, "zero", Global),
    ]);
    assert_eq!(name(&t, 20), Some("memcpy"));
    let t = table(&[(16, 8, "local_longer", Local), (16, 8, "_global", Global)]);
    assert_eq!(name(&t, 16), Some("_global"));
    let t = table(&[(16, 8, "short", Local), (16, 8, "longer", Local)]);
    assert_eq!(name(&t, 16), Some("longer"));
}

#[test]
fn of_aliases_in_kallsyms_the_last_is_kept() {
    let mut builder = SymbolTableBuilder::new(SymbolSource::Kallsyms);
    for (start, text) in [(16, "memset"), (16, "__memset"), (16, "__pi_memset"), (64, "next")] {
        builder.push(Svma(start), 0, text, Binding::Global);
    }
    let t = builder.build();
    assert_eq!(name(&t, 20), Some("__pi_memset"));
    assert_eq!(name(&t, 64), Some("next"));
}

#[test]
fn unsized_symbols_reach_to_the_next_and_sized_ones_end() {
    let t = table(&[
        (16, 0, "label", Binding::Local),
        (32, 8, "sized", Binding::Global),
        (64, 0, "last", Binding::Local),
    ]);
    assert_eq!(
        [15, 16, 31, 32, 39, 40, 64, 8191, 8192].map(|a| name(&t, a)),
        [
            None,
            Some("label"),
            Some("label"),
            Some("sized"),
            Some("sized"),
            None,
            Some("last"),
            Some("last"),
            None
        ]
    );
}

#[test]
fn an_unsized_exported_symbol_names_at_most_a_page() {
    let mut exported = SymbolTableBuilder::new(SymbolSource::Dynsym);
    exported.push(Svma(0x10), 0, "near", Binding::Global);
    exported.push(Svma(0x40), 0, "far", Binding::Global);
    exported.push(Svma(0x9000), 0, "last", Binding::Global);
    let exported = exported.build();
    let named = [0x3f, 0x40, 0x103f, 0x1040, 0x8fff, 0x9fff, 0xa000].map(|at| name(&exported, at));
    let far = Some("far");
    assert_eq!(named, [Some("near"), far, far, None, None, Some("last"), None]);
}

#[test]
fn an_unsized_exported_symbol_ends_where_its_code_does() {
    let mut exported = SymbolTableBuilder::new(SymbolSource::Dynsym);
    for (start, size, text) in
        [(0x10, 0, "memset"), (0x10, 0, "_memset"), (0x40, 0, "unclear"), (0x80, 8, "sized")]
    {
        exported.push(Svma(start), size, text, Binding::Global);
    }
    let mut asked = Vec::new();
    exported.end_unsized(|room| {
        asked.push((room.start.0, room.end.0));
        (room.start.0 == 0x10).then_some(Svma(0x20))
    });
    let exported = exported.build();
    assert_eq!(asked, [(0x40, 0x80), (0x10, 0x40)], "once an address, up to the next symbol");
    let named = [0x10, 0x1f, 0x20, 0x3f, 0x7f, 0x87, 0x88].map(|at| name(&exported, at));
    let memset = Some("memset");
    assert_eq!(named, [memset, memset, None, None, Some("unclear"), Some("sized"), None]);
}

#[test]
fn an_enclosing_symbol_is_found_after_a_short_inner_one() {
    let t = table(&[(16, 100, "outer", Binding::Global), (32, 4, "inner", Binding::Local)]);
    assert_eq!([34, 40].map(|a| name(&t, a)), [Some("inner"), Some("outer")]);
}

#[test]
fn bytes_round_trip_and_damage_is_refused() {
    let t = table(&[(16, 8, "a", Binding::Global), (32, 8, "bc", Binding::Global)]);
    let bytes = t.as_bytes().to_vec();
    let back = SymbolTable::from_bytes(Bytes::from_vec(bytes.clone())).unwrap();
    assert_eq!(back.iter().map(|s| s.name.to_owned()).collect::<Vec<_>>(), ["a", "bc"]);
    for cut in 0..bytes.len() {
        assert!(SymbolTable::from_bytes(Bytes::from_vec(bytes[..cut].to_vec())).is_none());
    }
}
