use super::*;
use crate::ErrorKind;
use crate::config::PipelineConfig;
use crate::graph::fields;
use howdah_runtime::InputSpec;
use std::path::Path;

/// The message of what a pipeline file is refused for, without the directory.
type Refused = String;

fn input() -> InputSpec {
    InputSpec {
        name: "bids".into(),
        fields: vec![
            Column::required("auction", ColumnType::Int64),
            Column::required("bidder", ColumnType::Int64),
            Column::required("price", ColumnType::Int64),
            Column::nullable("channel", ColumnType::Utf8),
        ],
        key: vec!["bidder".into(), "auction".into()],
        changelog: false,
    }
}

fn csv(names: &[&str]) -> FileShape {
    let column =
        |name: &&str| FileColumn { name: (*name).to_owned(), column_type: Some(ColumnType::Int64) };
    FileShape::guessed(names.iter().map(column).collect(), false)
}

/// Resolves a pipeline file with these lines in [source] (from line 4) and [operator].
fn resolve(source: &str, operator: &str, shape: &FileShape) -> Result<Plan, Refused> {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("bids.csv"), "").expect("written");
    std::fs::write(directory.path().join("o.wasm"), "").expect("written");
    let text = format!(
        "name = \"q\"\n[source]\npath = \"bids.csv\"\n{source}\n[operator]\nname = \"o\"\n\
         component = \"o.wasm\"\n{operator}\n[sink]\ntype = \"null\"\n"
    );
    let file = directory.path().join("q.toml");
    let config = PipelineConfig::parse(Path::new(&file), &text).expect("a configuration");
    let shown = |error: Error| {
        assert_eq!(error.kind(), ErrorKind::Config);
        error.to_string().replace(&format!("{}/", directory.path().display()), "")
    };
    let line = config.operators[0].component.line;
    let wanted = fields::wanted(&config, &config.links[0], &input(), line);
    let wanted = wanted.map_err(|mut errors| shown(errors.remove(0)))?;
    Plan::resolve(&config.file, &config.sources[0], &wanted, shape).map_err(shown)
}

#[test]
fn fields_are_found_by_name_and_take_the_operators_types() {
    let shape = csv(&["price", "url", "bidder", "auction", "channel"]);
    let plan = resolve("", "", &shape).expect("a plan");
    assert_eq!(plan.columns(), input().fields);
}

#[test]
fn filter_columns_are_read_first_and_may_lack_a_value() {
    let shape = csv(&["price", "bidder", "auction", "channel", "event_type"]);
    let plan = resolve("filter = { event_type = 2, price = 5 }", "", &shape).expect("a plan");
    let read: Vec<_> =
        plan.columns().iter().map(|column| (column.name.as_str(), column.nullable)).collect();
    let expected = [
        ("event_type", true),
        ("price", true),
        ("auction", false),
        ("bidder", false),
        ("channel", true),
    ];
    assert_eq!(read, expected);
    assert_eq!(plan.filter(), [Scalar::Int64(2), Scalar::Int64(5)]);
}

#[test]
fn key_columns_and_mapped_columns_may_have_other_names() {
    let shape = csv(&["p", "who", "what", "channel"]);
    let plan = resolve("", "key = [\"who\", \"what\"]\ncolumns = { price = \"p\" }", &shape)
        .expect("a plan");
    let read: Vec<_> = plan.columns().iter().map(|column| column.name.as_str()).collect();
    assert_eq!(read, ["what", "who", "p", "channel"]);
}

#[test]
fn a_key_column_that_does_not_exist_is_refused_with_a_suggestion() {
    let shape = csv(&["price", "bidder", "auction", "channel"]);
    assert_eq!(
        resolve("", "key = [\"bider\", \"auction\"]", &shape).expect_err("refused"),
        "q.toml:8: bids.csv has no column `bider`; did you mean `bidder`?"
    );
}

#[test]
fn a_key_with_too_few_columns_is_refused() {
    let shape = csv(&["price", "bidder", "auction", "channel"]);
    assert_eq!(
        resolve("", "key = [\"bidder\"]", &shape).expect_err("refused"),
        "q.toml:8: `key` names 1 columns, but the operator's key has 2: bidder and auction"
    );
}

#[test]
fn a_column_that_the_operator_wants_and_the_file_lacks_is_refused() {
    let shape = csv(&["cost", "bidder", "auction", "channel"]);
    assert_eq!(
        resolve("", "", &shape).expect_err("refused"),
        "q.toml:7: the operator wants a column `price`, which bids.csv lacks; name the column \
         that it is to take: [operator] columns = { price = \"...\" }"
    );
}

#[test]
fn a_mapping_of_a_field_that_does_not_exist_is_refused() {
    let shape = csv(&["price", "bidder", "auction", "channel"]);
    assert_eq!(
        resolve("", "columns = { prise = \"price\" }", &shape).expect_err("refused"),
        "q.toml:8: the operator's input has no field `prise`; did you mean `price`?"
    );
}

#[test]
fn an_event_time_column_must_be_a_time() {
    let mut shape = csv(&["price", "bidder", "auction", "channel", "time"]);
    assert!(resolve("event-time = \"time\"", "", &shape).is_ok());
    shape.columns[4].column_type = Some(ColumnType::Utf8);
    assert_eq!(
        resolve("event-time = \"time\"", "", &shape).expect_err("refused"),
        "q.toml:4: `event-time` in [source] is column `time`, which is utf8; it must be \
         timestamp-millis, or int64 milliseconds since the epoch"
    );
    assert_eq!(
        resolve("event-time = \"tine\"", "", &shape).expect_err("refused"),
        "q.toml:4: bids.csv has no column `tine`; did you mean `time`?"
    );
}

#[test]
fn a_filter_of_another_type_is_refused() {
    let shape = csv(&["price", "bidder", "auction", "channel", "event_type"]);
    assert_eq!(
        resolve("filter = { event_type = \"two\" }", "", &shape).expect_err("refused"),
        "q.toml:4: `event_type` in [source.filter] is the text `two`, but the column is int64"
    );
}

#[test]
fn a_stated_type_must_fit_the_operator() {
    let shape = csv(&["price", "bidder", "auction", "channel"]);
    let plan = resolve("schema = { price = \"int32\" }", "", &shape).expect("a plan");
    assert_eq!(plan.columns()[2].column_type, ColumnType::Int32);
    assert_eq!(
        resolve("schema = { price = \"float64\" }", "", &shape).expect_err("refused"),
        "q.toml:7: column `price` of bids.csv is float64, but the operator's field `price` is \
         int64, which cannot take it without loss"
    );
}

#[test]
fn a_stated_type_of_a_column_that_does_not_exist_is_refused() {
    let shape = csv(&["price", "bidder", "auction", "channel"]);
    assert_eq!(
        resolve("schema = { pryce = \"int32\" }", "", &shape).expect_err("refused"),
        "q.toml:4: bids.csv has no column `pryce`; did you mean `price`?"
    );
}

#[test]
fn a_typed_file_must_have_types_that_fit() {
    let mut shape = csv(&["price", "bidder", "auction", "channel"]);
    shape.typed = true;
    assert_eq!(
        resolve("", "", &shape).expect_err("refused"),
        "q.toml:7: column `channel` of bids.csv is int64, but the operator's field `channel` is \
         utf8, which cannot take it without loss"
    );
}

#[test]
fn rows_of_an_open_file_may_lack_a_nullable_column() {
    let mut shape = csv(&["price", "bidder", "auction"]);
    assert!(resolve("", "", &shape).is_err());
    shape.open = true;
    assert!(resolve("", "", &shape).is_ok());
}

#[test]
fn only_types_that_lose_nothing_widen() {
    let decimal = |precision, scale| ColumnType::Decimal128 { precision, scale };
    assert!(widens(ColumnType::Int32, ColumnType::Int64));
    assert!(widens(ColumnType::Int64, decimal(21, 2)));
    assert!(widens(decimal(5, 2), decimal(6, 3)));
    assert!(!widens(ColumnType::Int64, ColumnType::Float64));
    assert!(!widens(ColumnType::Int64, decimal(20, 2)));
    assert!(!widens(decimal(5, 2), decimal(5, 3)));
    assert!(!widens(ColumnType::Int64, ColumnType::Int32));
}
