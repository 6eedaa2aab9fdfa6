//! Makes components of operators in Rust: finds a compiler for their target, and encodes the core
//! modules that it makes. For the command line, and for the build of this workspace's operators.

mod toolchain;

pub use toolchain::{OVERRIDE, TARGET, Toolchain};

use anyhow::{Context, Result};
use std::path::Path;
use wit_component::{ComponentEncoder, StringEncoding};
use wit_parser::{Resolve, SourceMap};

/// Wraps a core module as a component, and checks it. The module says itself which interfaces it
/// has, as the Rust SDK has it do.
///
/// # Errors
/// When a file cannot be read or written, or the module does not say so.
pub fn encode(module: &Path, component: &Path) -> Result<()> {
    write_component(&read(module)?, module, component, &[])
}

/// The same for a core module that does not say so, as those of C compilers: it has what a world
/// has. `sources` are the WIT files of the package, name and text. The component says that it is in
/// C: the compiler does not.
///
/// # Errors
/// When a file cannot be read or written, or the module has not what the world has.
pub fn encode_for_world(
    module: &Path,
    component: &Path,
    sources: &[(&str, &str)],
    world: &str,
) -> Result<()> {
    let mut bytes = read(module)?;
    let mut map = SourceMap::default();
    for (name, text) in sources {
        map.push_str(name, *text);
    }
    let parsed = map.parse().map_err(|(_, error)| anyhow::anyhow!("bad WIT: {error}"))?;
    let mut resolve = Resolve::default();
    let package = resolve.push_group(parsed)?;
    let world = resolve.select_world(&[package], Some(world))?;
    let utf8 = StringEncoding::UTF8;
    wit_component::embed_component_metadata(&mut bytes, &resolve, world, utf8, false)?;
    write_component(&bytes, module, component, &producers("C"))
}

fn read(module: &Path) -> Result<Vec<u8>> {
    std::fs::read(module).with_context(|| format!("cannot read {}", module.display()))
}

/// A section `producers`: what language a component is in, and of which SDK.
fn producers(language: &str) -> Vec<u8> {
    let text = |text: &str| -> Vec<u8> {
        // Far below the 128 that would take two bytes.
        u8::try_from(text.len()).into_iter().chain(text.bytes()).collect()
    };
    let field = |field: &str, name: &str, version: &str| {
        [text(field), vec![1], text(name), text(version)].concat()
    };
    let sdk = field("sdk", "howdah", env!("CARGO_PKG_VERSION"));
    let data = [text("producers"), vec![2], field("language", language, ""), sdk].concat();
    let length = u8::try_from(data.len()).into_iter();
    std::iter::once(0).chain(length).chain(data).collect()
}

/// `sections` go behind those of the component.
fn write_component(bytes: &[u8], module: &Path, component: &Path, sections: &[u8]) -> Result<()> {
    let mut bytes = ComponentEncoder::default()
        .validate(true)
        .module(bytes)
        .and_then(ComponentEncoder::encode)
        .with_context(|| format!("cannot make a component of {}", module.display()))?;
    bytes.extend(sections);
    // Under its final name only when it is whole: a pipeline may be about to load it.
    let partial = component.with_extension("wasm.partial");
    std::fs::write(&partial, bytes)
        .and_then(|()| std::fs::rename(&partial, component))
        .with_context(|| format!("cannot write {}", component.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_section_names_language_and_sdk() {
        let section = producers("C");
        let text = String::from_utf8_lossy(&section);
        assert!(
            text.contains("\u{8}language\u{1}\u{1}C\0\u{3}sdk\u{1}\u{6}howdah\u{5}"),
            "{text:?}"
        );
        let rest = u8::try_from(section.len() - 2).unwrap();
        assert_eq!(section.get(..2), Some([0, rest].as_slice()));
    }
}
