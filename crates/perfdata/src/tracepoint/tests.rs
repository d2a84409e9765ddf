use super::*;

fn format(fields: &str, print: &str) -> Format {
    let text = format!(
        "name: n\nID: 7\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n{fields}\nprint fmt: {print}\n"
    );
    Format::parse("s", text.as_bytes(), Endian::Little, 8).unwrap()
}

fn check(fields: &str, print: &str, raw: &[u8], expected: &str) {
    let mut out = String::new();
    format(fields, print).print(raw, &mut out);
    assert_eq!(out, expected);
}

const AB: &str =
    "\tfield:int a;\toffset:4;\tsize:4;\tsigned:1;\n\tfield:u64 b;\toffset:8;\tsize:8;\tsigned:0;";

/// common_type 7, a = -2, b = 0x1234.
fn ab() -> Vec<u8> {
    let mut raw = vec![7, 0, 0, 0];
    raw.extend((-2i32).to_le_bytes());
    raw.extend(0x1234u64.to_le_bytes());
    raw
}

#[test]
fn numbers_are_printed_by_their_conversions() {
    check(
        AB,
        r#""a=%d u=%u b=%llx p=%p w=[%6d] z=%03d l=[%-4d]", REC->a, REC->a, REC->b, REC->b, REC->a, 5, 6"#,
        &ab(),
        "a=-2 u=4294967294 b=1234 p=0x1234 w=[    -2] z=005 l=[6   ]",
    );
}

#[test]
fn expressions_have_the_precedence_of_c() {
    check(
        AB,
        r#""%d %d %s %d", 1 + 2 * 3, (1 + 2) * 3 << 1, REC->a < 0 ? "neg" : "pos", (u8) 0x1ff"#,
        &ab(),
        "7 18 neg 255",
    );
    check(
        AB,
        r#""%u,%u", ((unsigned int) ((REC->b) >> 8)), ((unsigned int) ((REC->b) & ((1U << 8) - 1)))"#,
        &ab(),
        "18,52",
    );
}

#[test]
fn a_chain_of_operators_without_end_is_no_expression_and_a_long_one_is() {
    let chain = |count: usize| format!("\"%d\", {}", vec!["REC->a"; count].join("+"));
    check(AB, &chain(300), &ab(), "-600");
    // Each operator nests the ones before it: this would overflow the stack.
    let mut out = String::new();
    format(AB, &chain(200_000)).print(&ab(), &mut out);
    assert!(!out.contains("-400000"), "{}", out.len());
}

#[test]
fn a_mask_of_many_numbers_is_one_number() {
    let (_, args) = format(AB, r#""%d", REC->a & ((((0 | 1 | 2) + 1) << 1) - 1)"#).print.unwrap();
    assert_eq!(args, [Expr::Binary("&", Box::new(Expr::Field(1)), Box::new(Expr::Number(7)))]);
}

#[test]
fn flags_and_symbols_have_names() {
    check(
        AB,
        r#""%s %s %s", __print_flags(REC->b, "|", { 0x4, "four" }, { 0x10, "sixteen" }), __print_symbolic(7, { 7, "seven" }), __print_symbolic(8, { 7, "seven" })"#,
        &ab(),
        "four|sixteen|0x1220 seven 0x8",
    );
}

#[test]
fn fixed_and_dynamic_text_ends_at_its_nul() {
    let fields = "\tfield:char c[4];\toffset:4;\tsize:4;\tsigned:0;\n\tfield:__data_loc char[] d;\toffset:8;\tsize:4;\tsigned:0;";
    let mut raw = vec![7, 0, 0, 0, b'a', b'b', 0, 0];
    raw.extend((12u32 | 4 << 16).to_le_bytes());
    raw.extend(b"xyz\0");
    check(fields, r#""%s/%s", REC->c, __get_str(d)"#, &raw, "ab/xyz");
    check(
        fields,
        r#""%s", __print_hex(__get_dynamic_array(d), __get_dynamic_array_len(d))"#,
        &raw,
        "78 79 7a 00",
    );
}

#[test]
fn a_print_format_not_understood_lists_the_fields() {
    check(AB, r#""%d", mystery(REC->a)"#, &ab(), "[FAILED TO PARSE] a=-2 b=4660");
}

#[test]
fn a_short_payload_prints_zeros() {
    check(AB, r#""a=%d b=%llu", REC->a, REC->b"#, &[7, 0], "a=0 b=0");
}

#[test]
fn deep_nesting_is_refused() {
    let deep = format!("\"%d\", {}1{}", "(".repeat(5000), ")".repeat(5000));
    assert!(format(AB, &deep).print.is_none());
    assert!(format(AB, &format!("\"%d\", {}1", "-".repeat(5000))).print.is_none());
}

#[test]
fn tables_may_hold_names_without_values_and_end_with_null() {
    check(
        AB,
        r#""%s|%s|%s", __print_flags(REC->b, "|", { I_UNKNOWN, "unknown" }, { 0x4, "four" }, { 0, ((void *)0) }), __print_symbolic(2, { RT, "rt" }), __print_symbolic(3, { NET_RX_SOFTIRQ, "NET_RX" })"#,
        &ab(),
        "four|0x1230|0x2|NET_RX",
    );
    check(AB, r#""%p", (((struct page *)vmemmap_base) + (REC->b))"#, &ab(), "0x1234");
}

#[test]
fn socket_addresses_are_printed_by_family() {
    let fields = "\tfield:__u8 s[28];\toffset:4;\tsize:28;\tsigned:0;";
    let mut raw = vec![7, 0, 0, 0];
    raw.extend([2, 0, 0x1f, 0x90, 127, 0, 0, 1]);
    raw.resize(32, 0);
    check(fields, r#""%pISpc %pIS", REC->s, REC->s"#, &raw, "127.0.0.1:8080 127.0.0.1");
}

#[test]
fn code_addresses_have_names_if_somebody_knows_them() {
    let f = format(AB, r#""%pS %ps %pS", REC->b, REC->b, 5"#);
    let mut out = String::new();
    f.print_with(&ab(), &|a| (a == 0x1234).then(|| ("func".to_owned(), 4)), &mut out);
    assert_eq!(out, "func+0x4 func 0x5");
}

#[test]
fn one_word_of_the_text_is_printed_without_the_others() {
    let fields = format!("\tfield:char c[12];\toffset:16;\tsize:12;\tsigned:0;\n{AB}");
    let mut raw = ab();
    raw.extend(b"x b=9 a=7\0\0\0");
    let print = r#""c=%s w=%*d a=%d b=%s%s ==> ab=%d,%d end=%d", REC->c, 3, 5, REC->a, REC->b & 4 ? "four" : "S", REC->b & 0x10 ? "+" : "", 1, 2, 3"#;
    let f = format(&fields, print);
    let word = |name: &str| f.print_word(name, &raw);
    assert_eq!(word("a").as_deref(), Some("-2"), "not the text of a name");
    assert_eq!(word("b").as_deref(), Some("four+"));
    assert_eq!(word("ab").as_deref(), Some("1,2"));
    assert_eq!(word("end").as_deref(), Some("3"));
    assert_eq!(word("c").as_deref(), Some("x"), "a word ends at its space");
    assert_eq!(word("d"), None);
}
