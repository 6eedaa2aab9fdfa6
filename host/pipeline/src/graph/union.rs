//! The columns of several origins whose rows go to one sink.

use super::Edge;
use crate::error::suggestion_or_list;
use howdah_state::Column;

/// Makes an edge bring the columns that the first origin has, in its order; a column that may be null
/// in one may be null in all. Origins are as people call them. What does not agree is returned.
pub(super) fn unite(
    (first, fields): (&str, &mut [Column]),
    (second, edge): (&str, &mut Edge),
) -> Result<(), Vec<String>> {
    let mut problems = Vec::new();
    let mut columns = Vec::with_capacity(fields.len());
    for field in fields.iter_mut() {
        let name = &field.name;
        let found = edge.fields.iter().zip(&edge.columns).find(|(column, _)| column.name == *name);
        let Some((column, index)) = found else {
            let known = || edge.fields.iter().map(|column| column.name.as_str());
            let close = suggestion_or_list(name, known, "it has");
            problems.push(format!("{first} has a column `{name}`, which {second} lacks{close}"));
            continue;
        };
        if column.column_type != field.column_type {
            problems.push(format!(
                "column `{name}` is {} in {first} and {} in {second}",
                field.column_type, column.column_type
            ));
        }
        field.nullable |= column.nullable;
        columns.push(*index);
    }
    for column in &edge.fields {
        if !fields.iter().any(|field| field.name == column.name) {
            let name = &column.name;
            problems.push(format!("{second} has a column `{name}`, which {first} lacks"));
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    edge.columns = columns;
    Ok(())
}

/// Says that rows cannot go to one sink, and the way out.
pub(super) fn refused(problem: &str) -> String {
    format!(
        "{problem}: rows that go to one sink have the same columns; state the types of a source's \
         columns in its `schema`, or take another sink"
    )
}

#[cfg(test)]
mod tests {
    use super::super::{Consumer, Distribution, Producer};
    use super::*;
    use howdah_state::ColumnType;

    fn edge(fields: Vec<Column>) -> Edge {
        let columns = (0..fields.len()).collect();
        Edge::of((Producer::Source(1), Consumer::Sink(0)), (columns, fields), Distribution::Forward)
    }

    fn auctions() -> [Column; 2] {
        let column = |name: &str| Column::required(name, ColumnType::Int64);
        [column("auction"), column("price")]
    }

    #[test]
    fn columns_come_in_the_order_of_the_first_and_may_be_null_if_they_may_in_one() {
        let mut fields = auctions();
        let mut edge = edge(vec![
            Column::nullable("price", ColumnType::Int64),
            Column::required("auction", ColumnType::Int64),
        ]);
        unite(("a", &mut fields), ("b", &mut edge)).expect("they agree");
        assert_eq!(edge.columns, [1, 0]);
        assert_eq!(fields.map(|field| field.nullable), [false, true]);
    }

    #[test]
    fn all_that_does_not_agree_is_named_with_both_and_the_column() {
        let mut fields = auctions();
        let mut edge = edge(vec![
            Column::required("prize", ColumnType::Int64),
            Column::required("auction", ColumnType::Utf8),
        ]);
        let problems = unite(("source `a`", &mut fields), ("source `b`", &mut edge));
        assert_eq!(
            problems.expect_err("they do not agree"),
            [
                "column `auction` is int64 in source `a` and utf8 in source `b`",
                "source `a` has a column `price`, which source `b` lacks; did you mean `prize`?",
                "source `b` has a column `prize`, which source `a` lacks",
            ]
        );
    }
}
