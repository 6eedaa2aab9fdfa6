//! Which pages of a file that has to be decoded may have a key: by the least and greatest values
//! in its page index, where there is one.

use super::page::PageDirectory;
use super::plain::KeyPart;
use crate::{Column, ColumnType};
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use std::borrow::Cow;
use std::ops::Range;

/// The pages of the first key column.
#[derive(Debug)]
pub(super) struct KeyPages {
    pages: PageDirectory,
    /// Least and greatest value of each page; `None` when that is not known.
    bounds: Vec<Option<(KeyPart<'static>, KeyPart<'static>)>>,
    column_type: ColumnType,
}

impl KeyPages {
    /// `None` without a page index, or for a type whose bounds are not read.
    pub(super) fn new(
        metadata: &ArrowReaderMetadata,
        index: usize,
        column: &Column,
        file_bytes: u64,
    ) -> Option<Self> {
        let data_type = metadata.schema().fields().get(index)?.data_type();
        use ColumnType as T;
        let ordered = matches!(
            column.column_type,
            T::Int32 | T::Int64 | T::Date | T::TimestampMillis | T::Utf8 | T::Binary
        );
        if !ordered || ColumnType::from_arrow(data_type) != Some(column.column_type) {
            return None;
        }
        let pages = PageDirectory::new(metadata.metadata(), index, file_bytes)?;
        let mut bounds = Vec::new();
        let offset_index = metadata.metadata().offset_index()?;
        for (of_group, offsets) in metadata.metadata().column_index()?.iter().zip(offset_index) {
            let column_index = of_group.get(index)?;
            let pages = offsets.get(index)?.page_locations().len();
            bounds.extend((0..pages).map(|page| page_bounds(column_index, page)));
        }
        Some(Self { pages, bounds, column_type: column.column_type })
    }

    /// The parts of these rows in whose pages an encoded key may be.
    pub(super) fn candidates(
        &self,
        rows: Range<u32>,
        key: &[u8],
    ) -> impl Iterator<Item = Range<u32>> {
        let key = KeyPart::split(self.column_type, key).map(|(part, _)| part);
        let first = self.pages.page_of(rows.start);
        let last = self.pages.page_of(rows.end.saturating_sub(1));
        (first..=last).filter_map(move |page| {
            let may_have = match (self.bounds.get(page), &key) {
                (Some(Some((least, greatest))), Some(key)) => least <= key && key <= greatest,
                _ => true,
            };
            let of_page = self.pages.rows(page);
            let both = of_page.start.max(rows.start)..of_page.end.min(rows.end);
            (may_have && !both.is_empty()).then_some(both)
        })
    }
}

fn page_bounds(
    index: &ColumnIndexMetaData,
    page: usize,
) -> Option<(KeyPart<'static>, KeyPart<'static>)> {
    let bytes = |bytes: &[u8]| KeyPart::Bytes(Cow::Owned(bytes.to_vec()));
    Some(match index {
        ColumnIndexMetaData::INT32(index) => (
            KeyPart::Integer(i64::from(*index.min_value(page)?)),
            KeyPart::Integer(i64::from(*index.max_value(page)?)),
        ),
        ColumnIndexMetaData::INT64(index) => {
            (KeyPart::Integer(*index.min_value(page)?), KeyPart::Integer(*index.max_value(page)?))
        }
        // Bounds of text that are cut off lie further apart, never closer.
        ColumnIndexMetaData::BYTE_ARRAY(index) => {
            (bytes(index.min_value(page)?), bytes(index.max_value(page)?))
        }
        _ => return None,
    })
}
