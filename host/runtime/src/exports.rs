//! What a component exports: the operator, and handlers that it may leave out.

use crate::bindings::{checkpoint_handler, operator, timer_handler, watermark_handler};
use crate::host::HostState;
use wasmtime::Store;
use wasmtime::component::InstancePre;

/// Which of the handlers a component has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Handlers {
    /// `timer-handler`: it is called when timers are due.
    pub timers: bool,
    /// `watermark-handler`: it is called when the watermark has risen.
    pub watermark: bool,
    /// `checkpoint-handler`: it is told of completed checkpoints.
    pub checkpoint: bool,
}

/// A component that is ready to be instantiated.
pub(crate) struct Linked {
    pre: InstancePre<HostState>,
    operator: operator::GuestIndices,
    timers: Option<timer_handler::GuestIndices>,
    watermark: Option<watermark_handler::GuestIndices>,
    checkpoint: Option<checkpoint_handler::GuestIndices>,
}

/// The functions of an instance.
pub(crate) struct Exports {
    pub(crate) operator: operator::Guest,
    pub(crate) timers: Option<timer_handler::Guest>,
    pub(crate) watermark: Option<watermark_handler::Guest>,
    pub(crate) checkpoint: Option<checkpoint_handler::Guest>,
}

impl Linked {
    /// Looks up the functions of the interfaces that the component has.
    pub(crate) fn new(pre: InstancePre<HostState>, handlers: Handlers) -> wasmtime::Result<Self> {
        let Handlers { timers, watermark, checkpoint } = handlers;
        Ok(Self {
            operator: operator::GuestIndices::new(&pre)?,
            timers: timers.then(|| timer_handler::GuestIndices::new(&pre)).transpose()?,
            watermark: watermark.then(|| watermark_handler::GuestIndices::new(&pre)).transpose()?,
            checkpoint: checkpoint
                .then(|| checkpoint_handler::GuestIndices::new(&pre))
                .transpose()?,
            pre,
        })
    }

    pub(crate) fn handlers(&self) -> Handlers {
        Handlers {
            timers: self.timers.is_some(),
            watermark: self.watermark.is_some(),
            checkpoint: self.checkpoint.is_some(),
        }
    }

    pub(crate) fn instantiate(&self, store: &mut Store<HostState>) -> wasmtime::Result<Exports> {
        let instance = self.pre.instantiate(&mut *store)?;
        let (timers, watermark, checkpoint) = (&self.timers, &self.watermark, &self.checkpoint);
        Ok(Exports {
            operator: self.operator.load(&mut *store, &instance)?,
            timers: timers.as_ref().map(|i| i.load(&mut *store, &instance)).transpose()?,
            watermark: watermark.as_ref().map(|i| i.load(&mut *store, &instance)).transpose()?,
            checkpoint: checkpoint.as_ref().map(|i| i.load(&mut *store, &instance)).transpose()?,
        })
    }
}
