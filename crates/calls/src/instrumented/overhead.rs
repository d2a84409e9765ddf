//! The cost of a program's recording of itself: of a call, as the tracer measures it, and of all calls of a run.

use crate::instrumented::sleds::Instrumented;
use crate::recording::folder::Summary;
use tracer::layout;

/// Cost of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// CPU time of entry and exit, if the call makes no other, ns.
    pub leaf_ns: f64,
    /// The same in a tree of calls half of which make others.
    pub tree_ns: f64,
    /// Overhead of a recording, in that tree.
    pub tree_bytes: f64,
}

impl Cost {
    /// Between this and another.
    #[must_use]
    pub fn mean(self, other: Self) -> Self {
        let mean = |a: f64, b: f64| f64::midpoint(a, b);
        Self {
            leaf_ns: mean(self.leaf_ns, other.leaf_ns),
            tree_ns: mean(self.tree_ns, other.tree_ns),
            tree_bytes: mean(self.tree_bytes, other.tree_bytes),
        }
    }

    /// Overhead of a call of this many bytes: calls that make no other take [`LEAF_BYTES`], the others twice that.
    /// Where short calls are dropped nothing distinguishes them.
    #[must_use]
    pub fn ns(&self, bytes: f64) -> f64 {
        let of_tree = self.tree_bytes - LEAF_BYTES;
        if of_tree <= 0.0 {
            return self.tree_ns;
        }
        let slope = (self.tree_ns - self.leaf_ns).max(0.0) / of_tree;
        self.leaf_ns + slope * (bytes.clamp(LEAF_BYTES, 2.0 * LEAF_BYTES) - LEAF_BYTES)
    }
}

/// Bytes of a call that makes no other.
pub const LEAF_BYTES: f64 = layout::EVENT_BYTES as f64;

/// Costs of recorded calls on this machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallOverhead {
    /// A call.
    pub call: Cost,
    /// One of whose arguments one is recorded; `None` where no values are.
    pub valued: Option<Cost>,
}

/// Time that the calls of a recording took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpentTime {
    /// All calls together, ns.
    pub all_ns: f64,
    /// One call on average, ns.
    pub each_ns: f64,
}

impl CallOverhead {
    /// Between this and another.
    #[must_use]
    pub fn mean(self, other: Self) -> Self {
        let valued = self.valued.zip(other.valued).map(|(a, b)| a.mean(b));
        Self { call: self.call.mean(other.call), valued }
    }

    /// Reads it from the tracer's lines: method, ns of a leaf and of a tree, bytes, in thousandths.
    #[must_use]
    pub fn parse(printed: &str) -> Option<Self> {
        let costs = printed.lines().map_while(|line| {
            let mut words = line.split(' ');
            let way = words.next().and_then(|word| word.bytes().next())?;
            let mut thousandth = || words.next()?.parse::<f64>().ok().map(|value| value / 1e3);
            Some((way, Cost { leaf_ns: thousandth()?, tree_ns: thousandth()?, tree_bytes: thousandth()? }))
        });
        let costs: Vec<_> = costs.collect();
        let is_valued = |way: u8| way == layout::MEASURE_VALUES;
        let call = costs.iter().find(|(way, _)| !is_valued(*way))?.1;
        let valued = costs.iter().find(|(way, _)| is_valued(*way)).map(|(_, cost)| *cost);
        Some(Self { call, valued })
    }

    /// Time for the calls of a recording that has any.
    #[must_use]
    pub fn spent(&self, summary: &Summary) -> SpentTime {
        let value_ns = self.valued.map_or(0.0, |valued| valued.tree_ns - self.call.tree_ns);
        let calls = summary.calls.max(1) as f64;
        let bytes = summary.bytes as f64 / calls;
        let all_ns = summary.calls as f64 * self.call.ns(bytes) + value_ns * summary.valued as f64;
        SpentTime { all_ns, each_ns: all_ns / calls }
    }
}

/// How the functions found are recorded, as the tracer has it.
#[must_use]
pub fn measured_methods(found: &Instrumented) -> String {
    let is_reported = found.reports();
    let way = match (is_reported, found.wanted_calls > 0) {
        (true, _) => layout::MEASURE_REPORTED,
        (false, true) => layout::MEASURE_CALLED,
        (false, false) => layout::MEASURE_SLED,
    };
    let mut letters = String::from(char::from(way));
    if found.valued > 0 {
        letters.push(char::from(layout::MEASURE_VALUES));
    }
    letters
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICE: &str = "s 30000 40000 12000\nv 110000 120500 40000\n";

    #[test]
    fn the_price_is_read_as_the_tracer_writes_it() {
        let price = CallOverhead::parse(PRICE).expect("a price");
        assert_eq!(price.call, Cost { leaf_ns: 30.0, tree_ns: 40.0, tree_bytes: 12.0 });
        assert_eq!(price.valued.map(|valued| valued.tree_ns), Some(120.5));
        assert_eq!(CallOverhead::parse("tally 0.1.0\n"), None);
        assert_eq!(CallOverhead::parse("s 40000 12000"), None);
    }

    #[test]
    fn calls_cost_as_much_as_their_bytes_say_that_they_make_others() {
        let cost = CallOverhead::parse(PRICE).expect("a price").call;
        assert_eq!([8.0, 12.0, 16.0, 99.0].map(|bytes| cost.ns(bytes)), [30.0, 40.0, 50.0, 50.0]);
        let dropped = Cost { tree_bytes: 0.04, ..cost };
        assert_eq!([8.0, 16.0].map(|bytes| dropped.ns(bytes)), [40.0, 40.0], "with -t");
    }
}
