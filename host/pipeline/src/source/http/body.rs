//! The rows of a body. All of them are right, or none is taken.

use crate::config::{OnError, SourceConfig};
use crate::source::SourceBatch;
use crate::source::object::Object;
use crate::source::plan::Plan;
use crate::source::reject::Rejects;
use crate::source::rows::{BadValue, Rows};
use serde_json::{Value, json};
use std::sync::Arc;

/// Reads bodies.
#[derive(Debug)]
pub(super) struct BodyReader {
    config: SourceConfig,
    plan: Arc<Plan>,
}

/// Why a body is not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BadBody {
    /// A row is malformed; `None`: as a whole.
    Row { line: u64, column: Option<String>, reason: String },
    /// It has more rows than it may have.
    TooManyRows { limit: usize },
    /// The host failed.
    Internal(String),
}

impl BadBody {
    /// For the answer.
    pub(super) fn to_json(&self) -> Value {
        match self {
            Self::Row { line, column, reason } => {
                let error = format!("line {line}: {reason}; no row was taken");
                json!({ "error": error, "line": line, "column": column })
            }
            Self::TooManyRows { limit } => {
                let error = format!(
                    "the body has more than {limit} rows; send fewer at a time, or raise body-rows"
                );
                json!({ "error": error })
            }
            Self::Internal(reason) => json!({ "error": reason }),
        }
    }
}

impl BodyReader {
    pub(super) fn new(config: &SourceConfig, plan: Arc<Plan>) -> Self {
        // Whoever sends a malformed row is told.
        Self { config: SourceConfig { on_error: OnError::Fail, ..config.clone() }, plan }
    }

    /// The rows of a body, each with its number in it.
    pub(super) fn read(&self, body: &[u8], rows_limit: usize) -> Result<SourceBatch, BadBody> {
        let names = self.plan.columns().iter().map(|column| column.name.clone()).collect();
        let mut object = Object::new(names);
        let mut rows = Rows::new(Arc::clone(&self.plan), 0);
        let mut number = 0;
        for (line, text) in (1..).zip(body.split(|byte| *byte == b'\n')) {
            if text.trim_ascii().is_empty() {
                continue;
            }
            number += 1;
            if usize::try_from(number).is_ok_and(|number| number > rows_limit) {
                return Err(BadBody::TooManyRows { limit: rows_limit });
            }
            let bad = |column, reason| BadBody::Row { line, column, reason };
            object.parse(text).map_err(|reason| bad(None, reason))?;
            let appended = rows.append(number, |column| object.value(column));
            appended.map_err(|BadValue { column, reason }| bad(Some(column), reason))?;
        }
        let batch = rows.finish(&mut Rejects::new(&self.config));
        batch.map_err(|error| BadBody::Internal(error.to_string()))
    }
}
