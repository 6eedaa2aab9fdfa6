use crate::{Context, Instance, Limits, OperatorSpec, Result};
use howdah_state::ValueState;

/// A compiled, checked operator. Cheap to clone.
#[derive(Clone)]
pub struct Component {}

impl Component {
    /// Asks the operator what it is. `config` is a JSON object.
    pub fn describe(&self, config: &str, limits: &Limits) -> Result<OperatorSpec> {
        todo!()
    }
    /// Makes the instance of one subtask and calls its `open`. `states` holds one for each of `spec.states`, in that order.
    pub fn instantiate(
        &self,
        spec: &OperatorSpec,
        context: Context,
        limits: &Limits,
        states: Vec<ValueState>,
    ) -> Result<Instance> {
        todo!()
    }
    /// SHA-256 of the component's bytes, in hex.
    pub fn digest(&self) -> &str {
        todo!()
    }
}
