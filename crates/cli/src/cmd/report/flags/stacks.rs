//! Flags of `tally report` about stacks.

/// Call graphs, inlined functions, branch stacks.
#[derive(clap::Args)]
#[allow(clippy::struct_excessive_bools)]
pub struct StackArgs {
    /// Call graphs, such as graph,0.5,caller
    ///
    /// graph|fractal|flat|folded|none, minimum %, limit, caller|callee, function|address|srcline, percent|period|count
    #[arg(short = 'g', long, value_name = "HOW", num_args = 0..=1, default_missing_value = "")]
    pub call_graph: Option<String>,
    /// Call graphs from the root
    #[arg(short = 'G', long)]
    pub inverted: bool,
    /// Count samples at callers as well (default with call chains)
    #[arg(long, overrides_with = "no_children")]
    pub children: bool,
    /// Count samples at the leaf only
    #[arg(long, overrides_with = "children")]
    pub no_children: bool,
    /// Look at this many frames of a chain
    #[arg(long, value_name = "N")]
    pub max_stack: Option<usize>,
    /// Functions that count as parent for the sort key `parent` (regular expression)
    #[arg(short = 'p', long, value_name = "REGEX")]
    pub parent: Option<String>,
    /// With the sort key `parent`: leave out samples without one
    #[arg(short = 'x', long)]
    pub exclude_other: bool,
    /// Fold callees of these functions into them (regular expression)
    #[arg(long, value_name = "REGEX")]
    pub ignore_callees: Option<String>,
    /// Show inlined functions (default when the lines are read anyway)
    #[arg(long, overrides_with = "no_inline")]
    pub inline: bool,
    /// Show no inlined functions
    #[arg(long, overrides_with = "inline")]
    pub no_inline: bool,
    /// Show samples even if there are branch stacks
    #[arg(long)]
    pub no_branch_stack: bool,
    /// Show the branches of branch stacks (default if there are any)
    #[arg(short = 'b', long, conflicts_with = "no_branch_stack")]
    pub branch_stack: bool,
}
