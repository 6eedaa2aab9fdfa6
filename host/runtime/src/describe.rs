//! Asks a component what it is.

use crate::component::Component;
use crate::guest::Guest;
use crate::host::{CallScope, Subject};
use crate::limits::Limits;
use crate::spec::{self, OperatorSpec};
use crate::{Error, ErrorKind, Result};

pub(crate) fn describe(
    component: &Component,
    config: &str,
    limits: &Limits,
) -> Result<OperatorSpec> {
    let subject = Subject::Component(component.name().to_owned());
    let mut guest = Guest::new(component, subject, limits, None)?;
    let described = guest.call("describe", CallScope::Named, |exports, store| {
        exports.operator.call_describe(store, config)
    })?;
    spec::check(described, component.handlers()).map_err(|what| {
        Error::new(
            ErrorKind::Component,
            format!("{} describes an operator that cannot run: {what}", guest.subject()),
        )
    })
}
