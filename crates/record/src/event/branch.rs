//! Which branches the CPU's records shall hold: `any,u`, as `-j` and the term `branch_type=` name them.

use perfdata::abi::*;

use super::error::Fault;

/// Words and their bits, as perf names them.
const WORDS: [(&str, u64); 18] = [
    ("u", PERF_SAMPLE_BRANCH_USER),
    ("k", PERF_SAMPLE_BRANCH_KERNEL),
    ("hv", PERF_SAMPLE_BRANCH_HV),
    ("any", PERF_SAMPLE_BRANCH_ANY),
    ("any_call", PERF_SAMPLE_BRANCH_ANY_CALL),
    ("any_ret", PERF_SAMPLE_BRANCH_ANY_RETURN),
    ("ind_call", PERF_SAMPLE_BRANCH_IND_CALL),
    ("abort_tx", PERF_SAMPLE_BRANCH_ABORT_TX),
    ("in_tx", PERF_SAMPLE_BRANCH_IN_TX),
    ("no_tx", PERF_SAMPLE_BRANCH_NO_TX),
    ("cond", PERF_SAMPLE_BRANCH_COND),
    ("ind_jmp", PERF_SAMPLE_BRANCH_IND_JUMP),
    ("call", PERF_SAMPLE_BRANCH_CALL),
    ("save_type", PERF_SAMPLE_BRANCH_TYPE_SAVE),
    ("stack", PERF_SAMPLE_BRANCH_CALL_STACK),
    ("hw_index", PERF_SAMPLE_BRANCH_HW_INDEX),
    ("priv", PERF_SAMPLE_BRANCH_PRIV_SAVE),
    ("counter", PERF_SAMPLE_BRANCH_COUNTERS),
];

/// Where the branches may be taken; without any, it is where the event counts.
const WHERE: u64 = PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_KERNEL | PERF_SAMPLE_BRANCH_HV;

/// `PERF_SAMPLE_BRANCH_*` bits of words between commas; without a kind of branch, it is any.
pub fn parse_branch_filter(text: &str) -> Result<u64, Fault> {
    let mut bits = 0;
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let known = WORDS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
        bits |= known.ok_or_else(|| Fault::UnknownBranchFilter(word.to_owned()))?.1;
    }
    Ok(if bits & !WHERE == 0 { bits | PERF_SAMPLE_BRANCH_ANY } else { bits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_add_up_and_no_kind_means_any() {
        let calls = PERF_SAMPLE_BRANCH_ANY_CALL | PERF_SAMPLE_BRANCH_USER;
        assert_eq!(parse_branch_filter("any_call,u"), Ok(calls));
        assert_eq!(parse_branch_filter("k"), Ok(PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_KERNEL));
        assert_eq!(parse_branch_filter("any,jumpy"), Err(Fault::UnknownBranchFilter("jumpy".into())));
    }
}
