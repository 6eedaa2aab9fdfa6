//! One row of the result.

use serde::Serialize;
use std::fmt;

/// What a figure has to reach.
#[derive(Debug, Clone, Copy)]
pub enum Bar {
    /// The ratio to the peer is at most this: the figures count cost.
    RatioAtMost(f64),
    /// The ratio to the peer is at least this: the figures count speed.
    RatioAtLeast(f64),
    /// The figure is at most this much more than the peer's.
    OverPeerAtMost(f64),
    /// The figure itself is at most this.
    AtMost(f64),
    /// For information.
    None,
}

/// A figure of ours, and what it is held against.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    suite: &'static str,
    /// What was measured.
    case: String,
    /// The figure of howdah.
    howdah: f64,
    /// The figure of the peer in the same case.
    peer: Option<f64>,
    /// Which peer.
    peer_name: Option<&'static str>,
    /// What the figures count.
    unit: &'static str,
    /// The figure of howdah divided by that of the peer.
    ratio: Option<f64>,
    /// What has to be reached, in words.
    bar: Option<String>,
    /// Whether it is.
    pub met: Option<bool>,
    /// More about it.
    detail: String,
}

impl Figure {
    /// A figure of `cargo xtask bench <suite>`, against nothing yet.
    pub fn new(
        suite: &'static str,
        case: impl Into<String>,
        unit: &'static str,
        howdah: f64,
    ) -> Self {
        Self {
            suite,
            case: case.into(),
            howdah,
            peer: None,
            peer_name: None,
            unit,
            ratio: None,
            bar: None,
            met: None,
            detail: String::new(),
        }
    }

    /// Holds the figure against a peer; `None` when the peer was left out.
    #[must_use]
    pub fn against(mut self, name: &'static str, peer: Option<f64>) -> Self {
        self.peer = peer;
        self.peer_name = peer.map(|_| name);
        self.ratio = peer.map(|peer| self.howdah / peer);
        self
    }

    /// Says what has to be reached. Without the peer, a ratio is neither reached nor missed.
    #[must_use]
    pub fn bar(mut self, bar: Bar) -> Self {
        (self.bar, self.met) = match bar {
            Bar::RatioAtMost(most) => {
                (Some(format!("<= {most}x")), self.ratio.map(|ratio| ratio <= most))
            }
            Bar::RatioAtLeast(least) => {
                (Some(format!(">= {least}x")), self.ratio.map(|ratio| ratio >= least))
            }
            Bar::OverPeerAtMost(most) => {
                let over = self.peer.map(|peer| self.howdah - peer);
                (Some(format!("<= +{most}")), over.map(|over| over <= most))
            }
            Bar::AtMost(most) => (Some(format!("<= {most}")), Some(self.howdah <= most)),
            Bar::None => (None, None),
        };
        self
    }

    /// More about it, for people.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// The line over the rows.
    pub fn heading() -> String {
        format!(
            "{:<44} {:>9} {:>9} {:<7} {:>6} {:>8} {:<4} {}",
            "case", "howdah", "peer", "unit", "ratio", "bar", "met", "peer, more"
        )
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |figure: Option<f64>| match figure {
            None => "-".to_owned(),
            Some(figure) if figure >= 1000.0 => format!("{figure:.0}"),
            Some(figure) if figure >= 10.0 => format!("{figure:.1}"),
            Some(figure) => format!("{figure:.3}"),
        };
        write!(
            f,
            "{:<44} {:>9} {:>9} {:<7} {:>6} {:>8} {:<4} {}",
            self.case,
            number(Some(self.howdah)),
            number(self.peer),
            self.unit,
            self.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}")),
            self.bar.as_deref().unwrap_or("-"),
            self.met.map_or("-", |met| if met { "yes" } else { "NO" }),
            self.peer_name.unwrap_or("-"),
        )?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, ", {}", self.detail) }
    }
}
