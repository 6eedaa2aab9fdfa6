//! What the host keeps for one instance, and the functions that the operator imports.

mod call;
mod clock;
mod logging;
mod metrics;
mod state;
mod task;
mod timers;

use crate::wasi::{Lasting, Wasi};
pub(crate) use call::{BudgetExceeded, Call, CallScope, Ended};
pub(crate) use state::{column_bytes, link_lent};
pub(crate) use task::{DueTimers, TIMERS_PER_CALL, Task};

use crate::instance::Context;
use crate::limits::{GrowthLimiter, Limits};
use crate::metrics::InstanceMetrics;
use std::fmt;
use std::sync::Arc;
use wasmtime::component::ResourceTable;

/// The data of an instance's store.
pub(crate) struct HostState {
    pub(crate) subject: Subject,
    pub(crate) limits: Limits,
    pub(crate) growth: GrowthLimiter,
    pub(crate) metrics: InstanceMetrics,
    /// The running call.
    pub(crate) call: Call,
    /// State and keys of the subtask; `None` for `describe`, which must be pure.
    pub(crate) task: Option<Task>,
    /// What the operator measures.
    figures: metrics::Figures,
    pub(crate) handles: ResourceTable,
    /// What it was granted of WASI.
    pub(crate) wasi: Option<Box<Wasi>>,
}

impl HostState {
    pub(crate) fn new(subject: Subject, limits: &Limits, task: Option<Task>) -> Self {
        let mut handles = ResourceTable::new();
        handles.set_max_capacity(limits.handles);
        Self {
            figures: metrics::Figures::new(&subject),
            subject,
            limits: limits.clone(),
            growth: GrowthLimiter::new(limits),
            metrics: InstanceMetrics::default(),
            call: Call::new(limits),
            task,
            handles,
            wasi: None,
        }
    }
}

/// What outlives an instance that failed, so that another can go on.
pub(crate) struct Remains {
    pub(crate) task: Task,
    figures: metrics::Figures,
    metrics: InstanceMetrics,
    wasi: Option<Lasting>,
}

impl HostState {
    /// What another instance goes on with; `None` for `describe`.
    pub(crate) fn into_remains(self) -> Option<Remains> {
        let Self { figures, metrics, task, wasi, .. } = self;
        let wasi = wasi.map(|wasi| wasi.into_lasting());
        task.map(|task| Remains { task, figures, metrics, wasi })
    }

    /// The host's side of an instance that goes on where another failed.
    pub(crate) fn after(
        subject: Subject,
        limits: &Limits,
        remains: Remains,
        mut wasi: Option<Box<Wasi>>,
    ) -> Self {
        let Remains { task, figures, metrics, wasi: lasting } = remains;
        if let Some((wasi, lasting)) = wasi.as_mut().zip(lasting) {
            wasi.go_on(lasting);
        }
        Self { figures, metrics, wasi, ..Self::new(subject, limits, Some(task)) }
    }
}

/// Who runs; what errors and logs call it.
#[derive(Debug, Clone)]
pub(crate) enum Subject {
    /// A component that is asked what it is.
    Component(String),
    /// One subtask of an operator.
    Subtask(Arc<Context>),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Component(name) => write!(f, "component {name}"),
            Self::Subtask(context) => {
                write!(f, "operator {} (subtask {})", context.operator, context.subtask)
            }
        }
    }
}
