//! Where iced-x86's spelling and objdump's differ: prefixes, x87, string instructions, implied operands.

use iced_x86::{Code, Instruction as Iced, OpKind, Register};

use super::Syntax;

/// The text of `iced`, whose bytes are `code`, as objdump spells it.
pub(super) fn respell(text: &str, iced: &Iced, code: &[u8], syntax: Syntax) -> String {
    let (mnemonic, operands) = text.split_once(' ').unwrap_or((text, ""));
    let (mut head, mnemonic, operands) = split_prefixes(mnemonic, operands.trim_start());
    let (mnemonic, operands) = match syntax {
        Syntax::Att => att(mnemonic, operands, iced),
        Syntax::Intel => intel(mnemonic, operands, iced),
    };
    if mnemonic.starts_with("cs nop") {
        let doubled = code.iter().take_while(|b| **b == 0x66).count().saturating_sub(1);
        head.insert_str(0, &"data16 ".repeat(doubled));
    }
    head.push_str(&mnemonic);
    if operands.is_empty() { head } else { format!("{head:<6} {operands}") }
}

/// `lock addl $1,(%rax)` is prefixes, mnemonic, operands.
fn split_prefixes<'a>(first: &'a str, rest: &'a str) -> (String, &'a str, &'a str) {
    const PREFIXES: [&str; 9] = ["lock", "rep", "repe", "repne", "repz", "repnz", "bnd", "notrack", "data16"];
    let (mut prefixes, mut mnemonic, mut operands) = (String::new(), first, rest);
    while PREFIXES.contains(&mnemonic) && !operands.is_empty() {
        prefixes.push_str(match mnemonic {
            "repe" => "repz",
            "repne" => "repnz",
            other => other,
        });
        prefixes.push(' ');
        (mnemonic, operands) = operands.split_once(' ').unwrap_or((operands, ""));
        operands = operands.trim_start();
    }
    (prefixes, mnemonic, operands)
}

/// x87 instructions on the two topmost registers, which iced leaves out.
const ON_TOP: [&str; 6] = ["fmulp", "faddp", "fsubp", "fsubrp", "fdivp", "fdivrp"];

/// A shift by an implied 1 (`d1 /n`).
fn is_shift_by_one(mnemonic: &str, iced: &Iced) -> bool {
    const SHIFTS: [&str; 7] = ["shl", "shr", "sar", "rol", "ror", "rcl", "rcr"];
    let is_shift = SHIFTS.iter().any(|s| mnemonic.strip_prefix(s).is_some_and(|rest| rest.len() <= 1));
    is_shift && SHIFTS_BY_ONE.contains(&iced.code())
}

/// By number and not by name: names of all codes would take 170 kB of the program.
const SHIFTS_BY_ONE: [Code; 32] = [
    Code::Rol_rm8_1,
    Code::Rol_rm16_1,
    Code::Rol_rm32_1,
    Code::Rol_rm64_1,
    Code::Ror_rm8_1,
    Code::Ror_rm16_1,
    Code::Ror_rm32_1,
    Code::Ror_rm64_1,
    Code::Rcl_rm8_1,
    Code::Rcl_rm16_1,
    Code::Rcl_rm32_1,
    Code::Rcl_rm64_1,
    Code::Rcr_rm8_1,
    Code::Rcr_rm16_1,
    Code::Rcr_rm32_1,
    Code::Rcr_rm64_1,
    Code::Shl_rm8_1,
    Code::Shl_rm16_1,
    Code::Shl_rm32_1,
    Code::Shl_rm64_1,
    Code::Shr_rm8_1,
    Code::Shr_rm16_1,
    Code::Shr_rm32_1,
    Code::Shr_rm64_1,
    Code::Sal_rm8_1,
    Code::Sal_rm16_1,
    Code::Sal_rm32_1,
    Code::Sal_rm64_1,
    Code::Sar_rm8_1,
    Code::Sar_rm16_1,
    Code::Sar_rm32_1,
    Code::Sar_rm64_1,
];

fn att(mnemonic: &str, operands: &str, iced: &Iced) -> (String, String) {
    let mut operands = operands.replace(",)", ")");
    let mut mnemonic = match mnemonic {
        "callq" => "call",
        "jmpq" => "jmp",
        "retq" => "ret",
        "pushq" if !operands.starts_with('$') => "push",
        "popq" => "pop",
        "leaveq" => "leave",
        other => other,
    }
    .to_owned();
    if iced.segment_prefix() == Register::CS && operands.starts_with("%cs:") {
        operands.drain(..4);
        mnemonic = format!("cs {mnemonic}");
    }
    if iced.is_string_instruction() {
        operands = operands.replace("(%rsi)", "%ds:(%rsi)").replace("(%rdi)", "%es:(%rdi)");
    } else if is_shift_by_one(&mnemonic, iced) {
        operands = operands.trim_start_matches("$0x1,").to_owned();
    } else if mnemonic.starts_with("imul") && iced.op_count() == 3 && operands.matches(',').count() == 1 {
        let same = operands.rsplit(',').next().unwrap_or("").to_owned();
        operands = format!("{operands},{same}");
    } else if operands.is_empty() && ON_TOP.contains(&mnemonic.as_str()) {
        operands = "%st,%st(1)".to_owned();
    } else if operands.is_empty() && mnemonic == "fxch" {
        operands = "%st(1)".to_owned();
    }
    (mnemonic, operands)
}

fn intel(mnemonic: &str, operands: &str, iced: &Iced) -> (String, String) {
    let mut operands = signless_rip(operands);
    let mut mnemonic = mnemonic.to_owned();
    if iced.op_count() == 2 && iced.op1_kind() == OpKind::Immediate64 {
        mnemonic = "movabs".to_owned();
    } else if iced.is_string_instruction() {
        mnemonic.truncate(mnemonic.trim_end_matches(['b', 'w', 'd', 'q']).len());
        operands = operands.replace("[rsi]", "ds:[rsi]").replace("[rdi]", "es:[rdi]");
        if mnemonic == "stos" && iced.op_count() == 2 && !operands.contains(',') {
            operands.push_str(&format!(",{:?}", iced.op1_register()).to_lowercase());
        }
    } else if is_shift_by_one(&mnemonic, iced) {
        operands = operands.trim_end_matches("0x1").to_owned() + "1";
    } else if mnemonic == "imul" && iced.op_count() == 3 && operands.matches(',').count() == 1 {
        let same = operands.split(',').next().unwrap_or("").to_owned();
        operands = format!("{same},{operands}");
    } else if mnemonic.starts_with('f') {
        operands = x87_intel(&mnemonic, operands);
    } else if mnemonic == "lea" {
        operands = without_size(&operands);
    }
    if iced.segment_prefix() == Register::CS && mnemonic == "nop" {
        operands = operands.replace("cs:[", "[");
        mnemonic = format!("cs {mnemonic}");
    }
    if iced.memory_base() == Register::None && iced.memory_index() == Register::None {
        operands = absolute(operands);
    }
    (mnemonic, operands)
}

/// objdump prints a rip-relative displacement as the 64-bit number it is.
fn signless_rip(operands: &str) -> String {
    let Some((before, rest)) = operands.split_once("[rip-0x") else { return operands.to_owned() };
    let Some((digits, after)) = rest.split_once(']') else { return operands.to_owned() };
    let value = u64::from_str_radix(digits, 16).unwrap_or(0);
    format!("{before}[rip+{:#x}]{after}", value.wrapping_neg())
}

fn x87_intel(mnemonic: &str, operands: String) -> String {
    match mnemonic {
        _ if operands.is_empty() && ON_TOP.contains(&mnemonic) => "st(1),st".to_owned(),
        "fxch" if operands.is_empty() => "st(1)".to_owned(),
        "fld" | "fst" | "fstp" | "fild" | "fist" | "fistp" | "fisttp" | "fxch" => {
            operands.trim_start_matches("st,").trim_end_matches(",st").to_owned()
        }
        _ if operands.contains("PTR") => {
            operands.trim_start_matches("st,").trim_end_matches(",st").to_owned()
        }
        _ => operands,
    }
}

/// `lea` addresses no memory, so it gets no size.
fn without_size(operands: &str) -> String {
    match operands.split_once(',').zip(operands.split_once('[')) {
        Some(((to, _), (_, address))) => format!("{to},[{address}"),
        None => operands.to_owned(),
    }
}

/// `fs:[0x28]` is `fs:0x28`, `[0x0]` is `ds:0x0`.
fn absolute(mut operands: String) -> String {
    for (from, to) in [("fs:[0x", "fs:0x"), ("gs:[0x", "gs:0x"), ("[0x", "ds:0x")] {
        let Some(at) = operands.find(from) else { continue };
        if let Some(close) = operands[at..].find(']') {
            operands.remove(at + close);
            operands.replace_range(at..at + from.len(), to);
            break;
        }
    }
    operands
}
