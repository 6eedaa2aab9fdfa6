//! Keyed operator state in Apache Paimon tables.
#![allow(unused)] // skeleton; removed when the crate is whole

mod column;
mod error;
mod key;
mod key_group;
mod reader;
mod store;
mod value_state;

pub use column::{Column, ColumnType};
pub use error::{Error, ErrorKind, Result};
pub use key::{EncodedKeys, KeyBatch, KeyEncoder};
pub use key_group::KeyGroups;
pub use reader::{At, StateReader, TableInfo, list_tables};
pub use store::{
    Restore, StateDescriptor, StateEvent, StateStore, StateTable, StoreOptions, TableMetrics,
};
pub use value_state::{Rows, ValueState};
