use super::*;

fn svg(stacks: &str, icicle: bool) -> String {
    let tree = crate::import::folded::read(stacks.as_bytes()).tree;
    let opts = SvgOpts {
        title: "T & t".to_owned(),
        subtitle: String::new(),
        width: 1000,
        min_width: None,
        icicle,
        palette: Palette::Kind,
    };
    let mut out = Vec::new();
    write(&mut out, &tree, &opts).expect("writing to memory");
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn names_are_escaped_and_amounts_told() {
    let svg = svg("a;std::vec<int>&\x1b[2J 3\na;c 1\n", false);
    assert!(svg.contains("<title>std::vec&lt;int&gt;&amp;\\x1b[2J\n3 samples, 75.00 %</title>"));
    assert!(svg.contains("T &amp; t"));
    assert!(!svg.contains('\x1b'));
}

#[test]
fn a_search_finds_frames_that_are_too_small_to_draw() {
    let svg = svg("a;tiny;x 1\na;big 100000\n", false);
    assert!(!svg.contains("<title>tiny"), "{svg}");
    let data = "{\"at\":[1],\"below\":[[0,1,1,1,2,1]],\"more\":false,\"names\":[\"tiny\",\"x\"]}";
    assert!(svg.contains(&format!("<metadata id=\"small\">{data}</metadata>")), "{svg}");
}

#[test]
fn an_icicle_has_its_root_at_the_top() {
    let y_of_all = |svg: &str| {
        let at = svg.find("<title>all\n").expect("root");
        let y = &svg[at + svg[at..].find("y=\"").expect("y") + 3..];
        y[..y.find('"').expect("end")].parse::<u32>().expect("number")
    };
    assert_eq!(y_of_all(&svg("a;b;c 1\n", true)), TOP);
    assert_eq!(y_of_all(&svg("a;b;c 1\n", false)), TOP + 3 * ROW);
}

#[test]
fn of_very_many_frames_the_widest_are_drawn() {
    let chain = |at: usize| (0..100).map(|depth| format!(";f{at}_{depth}")).collect::<String>();
    let stacks: String = (0..300).map(|at| format!("a{} {}\n", chain(at), 100 + at)).collect();
    let svg = svg(&stacks, false);
    // All frames of 119 of the 300 chains, with the two frames below them.
    assert_eq!(svg.matches("<g class=\"f\"").count(), 11_902);
    assert!(svg.contains("181 frames under 3.68 px not drawn"), "the note");
    assert!(svg.len() < 3_000_000);
}

#[test]
fn long_names_leave_fewer_frames_and_the_same_sum() {
    let long = "very::long::name::of::a::template".repeat(12);
    let chain = |at: usize| (0..20).map(|depth| format!(";{long}_{at}_{depth}")).collect::<String>();
    let stacks: String = (0..400).map(|at| format!("a{} {}\n", chain(at), 100 + at)).collect();
    let svg = svg(&stacks, false);
    assert!(svg.len() <= 3_000_000, "{} bytes", svg.len());
    assert!(svg.contains("<title>all\n119,800 samples, 100.00 %</title>"));
    let drawn: Vec<u64> = svg
        .split(" data-d=\"2\"")
        .filter_map(|frame| frame.rsplit_once("data-v=\""))
        .filter_map(|(_, value)| value.trim_end_matches('"').parse().ok())
        .collect();
    assert!(drawn.len() < 400 && drawn.iter().all(|value| *value >= 100), "{drawn:?}");
    assert!(svg.contains(" px not drawn"), "the note");
}

#[test]
fn an_empty_input_is_still_a_picture() {
    assert!(svg("", false).ends_with("</svg>\n"));
}
