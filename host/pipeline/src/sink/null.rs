//! Nowhere.

use super::{Sink, SinkWriter};
use crate::checkpoint::SinkHandle;
use crate::error::Result;
use howdah_runtime::Output;

/// A sink that keeps nothing.
pub(super) struct Null;

impl Sink for Null {
    fn connector(&self) -> &'static str {
        "null"
    }

    fn has_output(&self) -> Result<bool> {
        Ok(false)
    }

    fn recover(&mut self, _: Option<(u64, &[SinkHandle])>) -> Result<()> {
        Ok(())
    }

    fn writer(&self, _: u32, _: u64) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(Self))
    }

    fn commit(&mut self, _: u64, _: &[SinkHandle]) -> Result<()> {
        Ok(())
    }
}

impl SinkWriter for Null {
    fn write(&mut self, _: &Output) -> Result<()> {
        Ok(())
    }

    fn prepare(&mut self, _: u64) -> Result<Option<SinkHandle>> {
        Ok(None)
    }
}
