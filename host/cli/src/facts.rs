//! What `howdah check` and `howdah inspect` both say of a component.

use howdah_runtime::Inspection;
use indicatif::HumanBytes;
use std::fmt::Write;

/// How facts are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Output {
    /// For people.
    Text,
    /// One JSON object.
    Json,
}

/// Name, size, imports and exports.
pub(crate) fn component(inspection: &Inspection) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_component(&mut text, inspection);
    text
}

fn write_component(text: &mut String, inspection: &Inspection) -> std::fmt::Result {
    writeln!(text, "{}", inspection.name)?;
    writeln!(text, "  size          {}", HumanBytes(inspection.bytes))?;
    writeln!(text, "  sha256        {}", inspection.sha256)?;
    let lists = [
        ("imports", &inspection.imports),
        ("exports", &inspection.exports),
        ("granted", &inspection.granted),
    ];
    for (what, names) in lists {
        if what == "granted" && names.is_empty() {
            continue;
        }
        let mut label = what;
        for name in names {
            writeln!(text, "  {label:13} {name}")?;
            label = "";
        }
        if names.is_empty() {
            writeln!(text, "  {label:13} nothing")?;
        }
    }
    Ok(())
}
