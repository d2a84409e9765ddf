//! `--color`.

use display::term::Colour;

/// When to colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum ColourArg {
    /// On a terminal, unless NO_COLOR is set or TERM is `dumb`.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl From<ColourArg> for Colour {
    fn from(arg: ColourArg) -> Self {
        match arg {
            ColourArg::Auto => Self::Auto,
            ColourArg::Always => Self::Always,
            ColourArg::Never => Self::Never,
        }
    }
}
