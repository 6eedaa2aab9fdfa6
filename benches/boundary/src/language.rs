//! The languages that components come from.

use howdah_bench_figures::Bar;
use std::path::PathBuf;

/// A language that takes part.
#[derive(Debug)]
pub(crate) struct Language {
    pub(crate) name: &'static str,
    /// Where its components are; `None`: those that the build of the workspace makes.
    directory: Option<PathBuf>,
    /// Nanoseconds for a row of the echo case over the native operator.
    pub(crate) echo_bar: Bar,
    /// Times the native operator in the queries.
    pub(crate) query_bar: Bar,
    /// Microseconds of a further instance.
    pub(crate) instantiate_bar: Bar,
    /// Milliseconds from the file to an instance.
    pub(crate) start_bar: Bar,
}

impl Language {
    /// Rust, and the others that have components.
    pub(crate) fn all(
        c: Option<PathBuf>,
        js: Option<PathBuf>,
        python: Option<PathBuf>,
    ) -> Vec<Self> {
        let compiled = |name, directory| Self {
            name,
            directory,
            echo_bar: Bar::OverPeerAtMost(12.0),
            query_bar: Bar::RatioAtMost(1.15),
            instantiate_bar: Bar::None,
            start_bar: Bar::None,
        };
        let interpreted = |name, directory, over_native| Self {
            echo_bar: Bar::OverPeerAtMost(over_native),
            query_bar: Bar::None,
            ..compiled(name, directory)
        };
        let rust = Self {
            instantiate_bar: Bar::AtMost(30.0),
            start_bar: Bar::AtMost(1.0),
            ..compiled("Rust", None)
        };
        let mut languages = vec![rust];
        languages.extend(c.map(|c| compiled("C", Some(c))));
        languages.extend(js.map(|js| interpreted("JavaScript", Some(js), 120.0)));
        languages.extend(python.map(|python| Self {
            start_bar: Bar::AtMost(50.0),
            ..interpreted("Python", Some(python), 450.0)
        }));
        languages
    }

    /// The path of its component of this name, if it has one.
    pub(crate) fn component(&self, name: &str) -> Option<PathBuf> {
        match &self.directory {
            Some(directory) => {
                Some(directory.join(name).with_extension("wasm")).filter(|path| path.is_file())
            }
            None => {
                let mut all = howdah_operator_artifacts::ALL.iter();
                all.find(|(known, _)| *known == name).map(|(_, path)| PathBuf::from(path))
            }
        }
    }
}
