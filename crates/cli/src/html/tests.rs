use super::*;
use profile::view::flame::{Tree, Unit};

fn page(data: &PageData, about: &About) -> String {
    let mut out = Vec::new();
    write(&mut out, data, about, MOST_BYTES).expect("writing to memory");
    String::from_utf8(out).expect("UTF-8")
}

fn of_folded(text: &[u8]) -> PageData {
    PageData::of_tree(exchange::import::folded::read(text).tree, "e")
}

#[test]
fn names_cannot_leave_their_element() {
    let about = About { title: "<t></script>".to_owned(), ..About::default() };
    let text = page(&of_folded(b"p;</script></noscript><b>;x 3\n"), &about);
    assert_eq!(text.matches("</script>").count(), 4);
    assert_eq!(text.matches("</noscript>").count(), 1);
    assert!(text.contains("<title>&lt;t&gt;&lt;/script&gt;</title>"));
    assert!(!text.contains("<b>"));
}

#[test]
fn pruning_keeps_every_sum() {
    let mut tree = Tree::new(Unit::Samples);
    for at in 0..3000u64 {
        let path: Vec<_> = [at / 300, at / 7, at]
            .iter()
            .map(|part| {
                tree.intern(
                    &format!("f{}", part.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
                    profile::view::flame::FrameKind::Program,
                )
            })
            .collect();
        tree.add_path(&path, 1 + at % 5, 1);
    }
    let data = PageData::of_tree(tree, "e");
    let whole = encode(&data, usize::MAX).expect("in memory");
    assert!(whole.pruned.is_none());
    let small = encode(&data, whole.packed.len() / 2).expect("in memory");
    assert!(small.packed.len() <= whole.packed.len() / 2, "{}", small.packed.len());
    let (functions, share) = small.pruned.expect("something was pruned");
    assert!(functions > 100 && share < 0.01, "{functions} {share}");
}
