//! The seam between the SDK and what runs it: the imports in a component, memory in a test.

use crate::log::Level;
use crate::{Result, wit};

/// What an operator may ask for.
pub(crate) trait Host {
    /// Gives a state that the operator declared.
    fn open_state(&self, name: &str) -> Result<Box<dyn StateHandle>>;

    /// Takes a log message.
    fn log(&self, level: Level, message: &str);

    /// Whether a message of this level is kept.
    fn log_enabled(&self, level: Level) -> bool;
}

/// A state of the host; the calls are those of `value-state` in the WIT.
pub(crate) trait StateHandle {
    /// The rows of the keys.
    fn get(&self, keys: &wit::Keys) -> Result<wit::Rows>;

    /// Writes one row for each key.
    fn put(&self, keys: &wit::Keys, columns: &[wit::Column]) -> Result<()>;

    /// Removes the rows of the keys.
    fn delete(&self, keys: &wit::Keys) -> Result<()>;
}

/// The host that runs this component.
pub(crate) struct Imports;

impl Host for Imports {
    fn open_state(&self, name: &str) -> Result<Box<dyn StateHandle>> {
        Ok(Box::new(wit::ValueState::open(name)?))
    }

    fn log(&self, level: Level, message: &str) {
        wit::logging::log(level, message);
    }

    fn log_enabled(&self, level: Level) -> bool {
        wit::logging::enabled(level)
    }
}

impl StateHandle for wit::ValueState {
    fn get(&self, keys: &wit::Keys) -> Result<wit::Rows> {
        Ok(Self::get(self, keys)?)
    }

    fn put(&self, keys: &wit::Keys, columns: &[wit::Column]) -> Result<()> {
        Ok(Self::put(self, keys, columns)?)
    }

    fn delete(&self, keys: &wit::Keys) -> Result<()> {
        Ok(Self::delete(self, keys)?)
    }
}
