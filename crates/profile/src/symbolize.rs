//! Names, after aggregation: every distinct frame is requested once.
//!
//! The caller may answer the requests in any order and on any thread:
//! ```text
//!   profile.requests(want) ── one per DSO ──→ (threads, DsoSource) ──→ profile.answer(…)
//! ```

use crate::profile::{NameState, Profile};
use crate::source::{DsoSource, NamedFrame, Want};
use crate::table::{DsoId, FrameId, InlineFrame, SymbolId, SymbolRange};
use std::collections::{BTreeMap, BTreeSet};

/// The frames of one DSO that still lack the requested names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolizeRequest {
    /// The DSO.
    pub dso: DsoId,
    /// Lookup addresses, sorted, distinct.
    pub addrs: Vec<u64>,
    /// The frames of all addresses, one after the other.
    frames: Vec<FrameId>,
    /// By address: where its frames end in `frames`.
    ends: Vec<usize>,
    want: Want,
}

impl SymbolizeRequest {
    /// Requested level of detail.
    #[must_use]
    pub fn want(&self) -> Want {
        self.want
    }

    /// A request for the frames of one DSO, in order of their lookup addresses.
    fn of(sorted: &[(DsoId, u64, FrameId)], want: Want) -> Self {
        let mut this =
            Self { dso: sorted[0].0, addrs: Vec::new(), frames: Vec::new(), ends: Vec::new(), want };
        for of_addr in sorted.chunk_by(|a, b| a.1 == b.1) {
            this.addrs.push(of_addr[0].1);
            this.frames.extend(of_addr.iter().map(|(_, _, frame)| *frame));
            this.ends.push(this.frames.len());
        }
        this
    }

    /// Cuts the request into pieces of at most `len` addresses, for several threads.
    #[must_use]
    pub fn split(self, len: usize) -> Vec<Self> {
        let pieces = self.addrs.chunks(len.max(1)).zip(self.ends.chunks(len.max(1)));
        let mut start = 0;
        pieces
            .map(|(addrs, ends)| {
                let from = std::mem::replace(&mut start, ends[ends.len() - 1]);
                Self {
                    dso: self.dso,
                    addrs: addrs.to_vec(),
                    frames: self.frames[from..start].to_vec(),
                    ends: ends.iter().map(|end| end - from).collect(),
                    want: self.want,
                }
            })
            .collect()
    }

    /// The frames of each address.
    fn frames(&self) -> impl Iterator<Item = &[FrameId]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| &self.frames[std::mem::replace(&mut start, end)..end])
    }
}

impl Profile {
    /// Requests to make so that every frame has the detail of `want`.
    #[must_use]
    pub fn requests(&self, want: Want) -> Vec<SymbolizeRequest> {
        self.requests_from(want, 0)
    }

    /// The same, for the frames from `first` on: those before have been requested.
    #[must_use]
    pub fn requests_from(&self, want: Want, first: usize) -> Vec<SymbolizeRequest> {
        self.requests_of(want, first, |state| match state {
            NameState::Unasked => true,
            NameState::Named { with_lines, .. } => want == Want::Lines && !with_lines,
            NameState::Missing(_) => false,
        })
    }

    /// The frames without a name, for a second request: code without a symbol may have bounds.
    #[must_use]
    pub fn requests_without_symbol(&self) -> Vec<SymbolizeRequest> {
        self.requests_of(Want::Names, 0, |state| matches!(state, NameState::Missing(_)))
    }

    fn requests_of(
        &self,
        want: Want,
        first: usize,
        is_lacking: impl Fn(NameState) -> bool,
    ) -> Vec<SymbolizeRequest> {
        let mut lacking: Vec<(DsoId, u64, FrameId)> = Vec::new();
        for (index, frame) in self.frames.entries().iter().enumerate().skip(first) {
            let state = self.names.by_frame.get(index).copied().unwrap_or(NameState::Unasked);
            if is_lacking(state) {
                lacking.push((frame.dso, frame.lookup, FrameId::from_index(index)));
            }
        }
        lacking.sort_unstable();
        lacking.chunk_by(|a, b| a.0 == b.0).map(|of_dso| SymbolizeRequest::of(of_dso, want)).collect()
    }

    /// Takes the answers to a request, in the order of its addresses.
    pub fn answer(
        &mut self,
        request: &SymbolizeRequest,
        answers: Vec<Result<Vec<NamedFrame>, dso::Missing>>,
    ) {
        self.names.by_frame.resize(self.frames.len(), NameState::Unasked);
        for (frames, answer) in request.frames().zip(answers) {
            let state = match answer {
                Ok(named) if !named.is_empty() => self.keep_names(request, &named),
                Ok(_) => NameState::Missing(dso::Missing::NoSymbolAt),
                Err(reason) => {
                    self.names.refused.insert((reason, request.dso));
                    NameState::Missing(reason)
                }
            };
            for frame in frames {
                self.names.by_frame[frame.index()] = state;
            }
        }
    }

    fn keep_names(&mut self, request: &SymbolizeRequest, named: &[NamedFrame]) -> NameState {
        let first =
            u32::try_from(self.names.inlines.len()).expect("invariant: fewer than 2^32 inline frames");
        for frame in named {
            let inline = InlineFrame {
                symbol: self.symbol_of(request.dso, frame),
                file: frame.file.as_deref().map(|file| self.strings.intern(file)),
                line: frame.line,
            };
            self.names.inlines.push(inline);
        }
        let len = u32::try_from(named.len()).expect("invariant: a frame has fewer than 2^32 inline frames");
        NameState::Named { first, len, with_lines: request.want == Want::Lines }
    }

    fn symbol_of(&mut self, dso: DsoId, frame: &NamedFrame) -> SymbolId {
        let NamedFrame { start, size, inlined, .. } = *frame;
        // Addresses come in ascending order: most are in the function of the one before.
        if let Some(last) = self.names.inlines.last().map(|inline| inline.symbol) {
            let known = self.symbols.of(last);
            let is_same = *known == SymbolRange { dso, name: known.name, start, size, inlined };
            if is_same && self.strings.of(known.name) == frame.name {
                return last;
            }
        }
        let name = self.strings.intern(&frame.name);
        self.symbols.intern(SymbolRange { dso, name, start, size, inlined })
    }

    /// Asks `source` for everything lacking, on this thread.
    pub fn symbolize(&mut self, source: &dyn DsoSource, want: Want) {
        for request in self.requests(want) {
            let answers = source.symbolize(self.dsos.of(request.dso), &request.addrs, want);
            self.answer(&request, answers);
        }
        self.settle_precise_paths();
    }

    /// How many frames have no name, by reason.
    #[must_use]
    pub fn missing_names(&self) -> BTreeMap<dso::Missing, u64> {
        let mut counts = BTreeMap::new();
        for state in &self.names.by_frame {
            if let NameState::Missing(reason) = state {
                *counts.entry(*reason).or_default() += 1;
            }
        }
        counts
    }

    /// The DSOs that have frames without a symbol for this reason.
    #[must_use]
    pub fn dsos_missing_names(&self, why: dso::Missing) -> BTreeSet<DsoId> {
        self.names.refused.iter().filter(|(reason, _)| *reason == why).map(|(_, dso)| *dso).collect()
    }
}
