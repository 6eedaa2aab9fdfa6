//! The sections of a component and of the core modules in it.

use serde::Serialize;
use std::ops::Range;
use wasmparser::{BinaryReaderError, KnownCustom, Parser, Payload};

/// What is kept of a list that a file may make as long as it likes.
const ENTRIES_LIMIT: usize = 256;
/// What is kept of a name in a file.
const NAME_LIMIT_CHARS: usize = 128;
/// Bytes of a page of memory, unless the memory says otherwise.
const PAGE_BYTES: u64 = 65_536;

/// A tool that took part in making the component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Producer {
    /// What it did: `language`, `processed-by` or `sdk`.
    pub field: String,
    /// Its name.
    pub name: String,
    /// Its version; may be empty.
    pub version: String,
    /// Whether that is said of a module or component in it alone, as of an interpreter that runs
    /// what another language is written in.
    pub nested: bool,
}

/// Custom sections of one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CustomSection {
    /// Their name.
    pub name: String,
    /// How many there are, in the component and its modules.
    pub count: u64,
    /// Their length together.
    pub bytes: u64,
}

/// A core module in a component.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CoreModule {
    /// Its name, if it says one.
    pub name: Option<String>,
    /// Its length.
    pub bytes: u64,
    /// Length of its code.
    pub code_bytes: u64,
    /// Length of its data.
    pub data_bytes: u64,
    /// The memories that it defines.
    pub memories: Vec<Memory>,
}

/// A linear memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// What it has from the beginning.
    pub minimum_bytes: u64,
    /// What it may grow to; `None`: what the host allows.
    pub maximum_bytes: Option<u64>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Sections {
    pub(super) producers: Vec<Producer>,
    pub(super) custom: Vec<CustomSection>,
    pub(super) modules: Vec<CoreModule>,
}

/// Reads the sections, those of nested modules and components included.
pub(super) fn read(bytes: &[u8]) -> Result<Sections, BinaryReaderError> {
    let mut sections = Sections::default();
    // What is open: the component itself, and what is nested in it.
    let mut open: Vec<Option<CoreModule>> = vec![None];
    for payload in Parser::new(0).parse_all(bytes) {
        match payload? {
            Payload::ModuleSection { unchecked_range, .. } => {
                open.push(Some(CoreModule {
                    bytes: length(&unchecked_range),
                    ..CoreModule::default()
                }));
            }
            Payload::ComponentSection { .. } => open.push(None),
            Payload::End(_) => {
                if let Some(Some(module)) = open.pop()
                    && sections.modules.len() < ENTRIES_LIMIT
                {
                    sections.modules.push(module);
                }
            }
            Payload::CustomSection(custom) => {
                sections.add(custom.name(), custom.data().len());
                match custom.as_known() {
                    KnownCustom::Producers(producers) => {
                        sections.producers(producers, open.len() > 1)?;
                    }
                    KnownCustom::Name(names) => {
                        if let Some(Some(module)) = open.last_mut() {
                            module.name = module_name(names);
                        }
                    }
                    _ => {}
                }
            }
            payload => {
                if let Some(Some(module)) = open.last_mut() {
                    module.read(payload)?;
                }
            }
        }
    }
    sections.custom.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    Ok(sections)
}

impl Sections {
    fn add(&mut self, name: &str, bytes: usize) {
        let name = shown(name);
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let known = self.custom.len();
        match self.custom.iter_mut().find(|known| known.name == name) {
            Some(known) => {
                known.count += 1;
                known.bytes = known.bytes.saturating_add(bytes);
            }
            None if known < ENTRIES_LIMIT => {
                self.custom.push(CustomSection { name, count: 1, bytes });
            }
            None => {}
        }
    }

    fn producers(
        &mut self,
        section: wasmparser::ProducersSectionReader<'_>,
        nested: bool,
    ) -> Result<(), BinaryReaderError> {
        for field in section {
            let field = field?;
            for value in field.values {
                let value = value?;
                let producer = Producer {
                    field: shown(field.name),
                    name: shown(value.name),
                    version: shown(value.version),
                    nested,
                };
                self.add_producer(producer);
            }
        }
        Ok(())
    }

    fn add_producer(&mut self, producer: Producer) {
        let count = self.producers.len();
        let Producer { field, name, version, nested } = &producer;
        let known = self
            .producers
            .iter_mut()
            .find(|known| (&known.field, &known.name, &known.version) == (field, name, version));
        match known {
            Some(known) => known.nested &= nested,
            None if count < ENTRIES_LIMIT => self.producers.push(producer),
            None => {}
        }
    }
}

impl CoreModule {
    fn read(&mut self, payload: Payload<'_>) -> Result<(), BinaryReaderError> {
        match payload {
            Payload::CodeSectionStart { size, .. } => self.code_bytes = size.into(),
            Payload::DataSection(data) => self.data_bytes = length(&data.range()),
            Payload::MemorySection(memories) => {
                for memory in memories {
                    let memory = memory?;
                    let page_bytes = memory
                        .page_size_log2
                        .map_or(PAGE_BYTES, |log2| 1_u64.checked_shl(log2).unwrap_or(0));
                    if self.memories.len() < ENTRIES_LIMIT {
                        self.memories.push(Memory {
                            minimum_bytes: memory.initial.saturating_mul(page_bytes),
                            maximum_bytes: memory
                                .maximum
                                .map(|pages| pages.saturating_mul(page_bytes)),
                        });
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// The name that a module gives itself. A name section that is damaged has none; it matters to
/// nobody else.
fn module_name(names: wasmparser::NameSectionReader<'_>) -> Option<String> {
    names.into_iter().find_map(|name| match name {
        Ok(wasmparser::Name::Module { name, .. }) => Some(shown(name)),
        _ => None,
    })
}

fn length(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

/// A name from a file, fit for a terminal.
fn shown(name: &str) -> String {
    name.escape_debug().take(NAME_LIMIT_CHARS).collect()
}
