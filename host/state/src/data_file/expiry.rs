//! When the rows of a data file end, without reading them.

use crate::schema::TableSchema;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::statistics::Statistics;
use std::ops::RangeInclusive;

/// The ends of the first and the last row to end, in milliseconds since the Unix epoch, as the
/// file's own statistics have them; `None` when rows have no end or a part of the file does not
/// say.
pub(super) fn expiry_range_ms(
    metadata: &ParquetMetaData,
    schema: &TableSchema,
) -> Option<RangeInclusive<i64>> {
    let name = &schema.value.get(schema.expires_column()?)?.name;
    let columns = metadata.file_metadata().schema_descr().columns();
    let index = columns.iter().position(|column| column.name() == name)?;
    let mut range: Option<(i64, i64)> = None;
    for group in metadata.row_groups() {
        let Some(Statistics::Int64(ends)) = group.columns().get(index)?.statistics() else {
            return None;
        };
        if ends.null_count_opt().is_some_and(|nulls| nulls > 0) {
            return None;
        }
        let (first, last) = (*ends.min_opt()?, *ends.max_opt()?);
        let (from, to) = range.get_or_insert((first, last));
        *from = (*from).min(first);
        *to = (*to).max(last);
    }
    range.map(|(first, last)| first..=last)
}
