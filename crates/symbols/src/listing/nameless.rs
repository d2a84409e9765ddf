//! Code without symbols: cut into functions by .eh_frame, else into neighbourhoods.

use crate::function_around;
use dso::Loaded;
use dso::unwind::UnwindInfo;
use profile::profile::Sums;
use profile::table::Dso;
use profile::view::annotate::{AnnotateAddress, AnnotateFunction};
use std::sync::Arc;

/// Hits nearer to each other than this are of one piece, where nothing separates functions.
const GAP_BYTES: u64 = 256;
/// Code shown after the last hit of such a piece.
const TAIL_BYTES: u64 = 16;

/// The pieces of `function`'s hits, each as a function of its own, the hottest first.
pub(super) fn pieces(dso: &Dso, file: &Loaded, function: &AnnotateFunction) -> Vec<AnnotateFunction> {
    let info = file.object().map(|object| UnwindInfo::new(Arc::clone(object)));
    let range = |addr: u64| function_around(dso, file, info.as_ref()?, addr);
    let mut pieces: Vec<AnnotateFunction> = Vec::new();
    for address in &function.addresses {
        let known = range(address.addr);
        let (start, size) = known.unwrap_or((address.addr, 0));
        match pieces.last_mut() {
            Some(last) if belongs(last, address.addr, known) => grow(last, address, known.is_none()),
            _ => pieces.push(AnnotateFunction {
                start,
                size: if known.is_some() { size } else { TAIL_BYTES },
                totals: address.sums.clone(),
                addresses: vec![address.clone()],
                ..function.clone()
            }),
        }
    }
    pieces.sort_by_key(|piece| std::cmp::Reverse(piece.totals.iter().map(|t| t.period).max()));
    pieces
}

fn belongs(piece: &AnnotateFunction, addr: u64, known: Option<(u64, u64)>) -> bool {
    match known {
        Some((start, _)) => start == piece.start,
        None => addr < piece.start.saturating_add(piece.size).saturating_add(GAP_BYTES),
    }
}

fn grow(piece: &mut AnnotateFunction, address: &AnnotateAddress, by_hits: bool) {
    if by_hits {
        piece.size = address.addr.saturating_sub(piece.start).saturating_add(TAIL_BYTES);
    }
    let add = |(total, sums): (&mut Sums, &Sums)| total.add(*sums);
    piece.totals.iter_mut().zip(&address.sums).for_each(add);
    piece.addresses.push(address.clone());
}
