use super::*;
use crate::bindings::types::Decimal;
use howdah_state::StateDescriptor;

/// The spec of a component that has all handlers.
fn check(spec: wit::Spec) -> Check<OperatorSpec> {
    super::check(spec, Handlers { timers: true, watermark: true, checkpoint: true })
}

fn field(name: &str, type_: ValueType) -> Field {
    Field { name: name.to_owned(), type_, nullable: false }
}

/// Bids in, bids out, one state: what the tests change one thing of.
fn bids() -> wit::Spec {
    wit::Spec {
        inputs: vec![bid_input("bids")],
        outputs: vec![wit::OutputSpec {
            name: "last".to_owned(),
            fields: vec![field("auction", ValueType::Int64)],
            changelog: true,
        }],
        states: vec![bid_state("last-bid")],
        timers: vec![],
    }
}

fn bid_input(name: &str) -> wit::InputSpec {
    wit::InputSpec {
        name: name.to_owned(),
        fields: vec![
            field("auction", ValueType::Int64),
            field("price", ValueType::Float64),
            Field { nullable: true, ..field("channel", ValueType::Utf8) },
        ],
        key: vec!["auction".to_owned()],
        changelog: false,
    }
}

fn bid_state(name: &str) -> wit::StateSpec {
    wit::StateSpec {
        name: name.to_owned(),
        kind: wit::StateKind::Value,
        fields: vec![field("price", ValueType::Int64)],
        schema_version: 3,
        ttl: None,
    }
}

/// What is wrong with the spec after this change.
#[track_caller]
fn refused(change: impl FnOnce(&mut wit::Spec)) -> String {
    let mut spec = bids();
    change(&mut spec);
    check(spec).unwrap_err()
}

#[test]
fn a_good_spec_is_taken_over() {
    let spec = check(bids()).unwrap();
    assert_eq!(spec.inputs[0].key_columns(), [Column::required("auction", ColumnType::Int64)]);
    assert_eq!(spec.key_columns(), spec.inputs[0].key_columns());
    assert_eq!(spec.inputs[0].fields[2], Column::nullable("channel", ColumnType::Utf8));
    assert_eq!(spec.inputs[0].schema().field(2).name(), "channel");
    assert!(spec.outputs[0].changelog);
    assert_eq!(spec.states[0].schema_version, 3);
    assert_eq!(spec.states[0].fields, [Column::required("price", ColumnType::Int64)]);
}

#[test]
fn an_operator_has_an_input() {
    let error = refused(|spec| spec.inputs.clear());
    assert_eq!(error, "it has no input, but needs at least one");
}

#[test]
fn names_are_unique() {
    let error = refused(|spec| spec.inputs.push(bid_input("bids")));
    assert_eq!(error, "two inputs are called `bids`");
    let error = refused(|spec| spec.outputs.push(spec.outputs[0].clone()));
    assert_eq!(error, "two outputs are called `last`");
    let error = refused(|spec| spec.states.push(bid_state("LAST-bid")));
    assert_eq!(error, "two states are called `LAST-bid` (upper and lower case alike)");
}

#[test]
fn names_have_a_length_and_an_alphabet() {
    for name in ["", "a b", "ä", "../x", &"n".repeat(65)] {
        let error = refused(|spec| spec.states[0].name = name.to_owned());
        assert!(error.contains("a name has 1 to 64 letters, digits, `_` and `-`"), "{error}");
    }
    let mut spec = bids();
    spec.states[0].name = "n".repeat(64);
    assert!(check(spec).is_ok());
}

#[test]
fn the_fields_of_an_input_are_distinct() {
    let error = refused(|spec| spec.inputs[0].fields.push(field("price", ValueType::Date)));
    assert_eq!(error, "two fields of input `bids` are called `price`");
}

#[test]
fn an_input_has_a_key() {
    let error = refused(|spec| spec.inputs[0].key.clear());
    assert_eq!(error, "input `bids` has no key: name at least one of its fields as key");
}

#[test]
fn a_key_field_exists() {
    let error = refused(|spec| spec.inputs[0].key = vec!["bidder".to_owned()]);
    assert_eq!(error, "input `bids`: the key field `bidder` is not among its fields");
}

#[test]
fn a_key_field_is_named_once() {
    let error = refused(|spec| spec.inputs[0].key.push("auction".to_owned()));
    assert_eq!(error, "two key fields of input `bids` are called `auction`");
}

#[test]
fn a_key_field_is_not_nullable() {
    let error = refused(|spec| spec.inputs[0].key = vec!["channel".to_owned()]);
    assert_eq!(error, "input `bids`: the key field `channel` is nullable, which no key may be");
}

#[test]
fn a_key_field_is_no_float() {
    let error = refused(|spec| spec.inputs[0].key = vec!["price".to_owned()]);
    assert_eq!(error, "input `bids`: the key field `price` is float64, which no key may be");
}

#[test]
fn all_inputs_have_keys_of_the_same_types() {
    let error = refused(|spec| {
        let mut other = bid_input("people");
        other.fields[0].type_ = ValueType::Int32;
        spec.inputs.push(other);
    });
    assert_eq!(
        error,
        "the keys of input `bids` (int64) and input `people` (int32) have different types"
    );
}

#[test]
fn other_inputs_may_name_the_key_differently() {
    let mut spec = bids();
    let mut other = bid_input("auctions");
    other.fields[0].name = "id".to_owned();
    other.key = vec!["id".to_owned()];
    spec.inputs.push(other);
    assert_eq!(check(spec).unwrap().key_columns()[0].name, "auction");
}

fn family(name: &str) -> wit::TimerSpec {
    wit::TimerSpec { name: name.to_owned(), domain: wit::TimeDomain::EventTime }
}

#[test]
fn every_kind_of_state_becomes_a_table() {
    let mut spec = bids();
    let state = |name: &str, kind| wit::StateSpec { kind, ..bid_state(name) };
    spec.states.push(state("bids", wit::StateKind::List));
    let map_key = vec![field("bidder", ValueType::Utf8), field("day", ValueType::Date)];
    spec.states.push(state("bidders", wit::StateKind::Map(map_key)));
    spec.states.push(state("most", wit::StateKind::Reducing(vec![wit::Reducer::Max])));
    spec.states[1].ttl = Some(wit::Ttl { millis: 5, update: wit::TtlUpdate::OnWrite });
    spec.timers.push(family("closes"));
    let tables = check(spec).unwrap().tables("shop", "auctions");
    let names: Vec<String> = tables.iter().map(StateDescriptor::table_name).collect();
    assert_eq!(
        names,
        [
            "shop__auctions__last-bid",
            "shop__auctions__bids",
            "shop__auctions__bidders",
            "shop__auctions__most",
            "shop__auctions__closes",
        ]
    );
    let kinds: Vec<&StateKind> = tables.iter().map(|table| &table.kind).collect();
    let map_key = vec![
        Column::required("bidder", ColumnType::Utf8),
        Column::required("day", ColumnType::Date),
    ];
    let kinds_expected = [
        StateKind::Value,
        StateKind::List,
        StateKind::Map { map_key },
        StateKind::Reducing { reducers: vec![Reducer::Max] },
        StateKind::Timers,
    ];
    assert!(kinds.into_iter().eq(&kinds_expected));
    let ttls: Vec<Option<u64>> = tables.iter().map(|table| table.ttl_ms).collect();
    assert_eq!(ttls, [None, Some(5), None, None, None]);
    assert!(tables[4].value.is_empty());
    assert!(tables.iter().all(|table| table.key[0].name == "auction"));
}

#[test]
fn a_time_to_live_is_positive_and_counts_from_the_last_write() {
    let refused =
        |millis, update| refused(|spec| spec.states[0].ttl = Some(wit::Ttl { millis, update }));
    assert_eq!(
        refused(0, wit::TtlUpdate::OnWrite),
        "state `last-bid`: the time to live is 0 ms, but must be at least 1"
    );
    let error = refused(1, wit::TtlUpdate::OnReadAndWrite);
    assert!(error.starts_with("state `last-bid`: "), "{error}");
}

#[test]
fn a_map_key_has_fields_that_may_be_keys() {
    let refused = |map_key| refused(|spec| spec.states[0].kind = wit::StateKind::Map(map_key));
    assert_eq!(
        refused(vec![]),
        "map key of state `last-bid` has no fields, but needs at least one"
    );
    assert_eq!(
        refused(vec![field("rate", ValueType::Float32)]),
        "map key of state `last-bid`: the field `rate` is float32, which no key may be"
    );
    assert_eq!(
        refused(vec![Field { nullable: true, ..field("bidder", ValueType::Int64) }]),
        "map key of state `last-bid`: the field `bidder` is nullable, which no key may be"
    );
    let error = refused(vec![field("auction", ValueType::Int64)]);
    let said = "state `last-bid`: its map key field `auction` is called like a key field";
    assert!(error.starts_with(said), "{error}");
}

#[test]
fn a_map_may_be_a_set() {
    let mut spec = bids();
    spec.states[0].kind = wit::StateKind::Map(vec![field("bidder", ValueType::Int64)]);
    spec.states[0].fields.clear();
    assert!(check(spec).unwrap().states[0].fields.is_empty());
}

#[test]
fn a_reducing_state_has_a_reducer_for_each_field() {
    let refused = |reducers, type_| {
        refused(|spec| {
            spec.states[0].kind = wit::StateKind::Reducing(reducers);
            spec.states[0].fields[0].type_ = type_;
        })
    };
    assert_eq!(
        refused(vec![], ValueType::Int64),
        "state `last-bid` has 0 reducers for 1 fields, but needs one for each"
    );
    assert_eq!(
        refused(vec![wit::Reducer::Sum], ValueType::Utf8),
        "state `last-bid`: the field `price` is utf8, which has no sum"
    );
    assert_eq!(
        refused(vec![wit::Reducer::Count], ValueType::Utf8),
        "state `last-bid`: the field `price` is utf8, but a count is int64"
    );
}

#[test]
fn timers_do_not_share_a_name_with_a_state() {
    let error = refused(|spec| spec.timers.push(family("Last-Bid")));
    assert_eq!(error, "two states or timers are called `Last-Bid` (upper and lower case alike)");
    let error = refused(|spec| spec.timers = vec![family("a"), family("a")]);
    assert_eq!(error, "two timers are called `a` (upper and lower case alike)");
}

#[test]
fn the_names_of_tables_are_unambiguous() {
    for name in ["a__b", "_a", "a_"] {
        let error = refused(|spec| spec.states[0].name = name.to_owned());
        assert!(error.starts_with(&format!("state `{name}`: the name becomes part")), "{error}");
        let error = refused(|spec| spec.timers.push(family(name)));
        assert!(error.starts_with(&format!("timers `{name}`: the name becomes part")), "{error}");
    }
}

#[test]
fn timers_need_a_handler() {
    let mut spec = bids();
    spec.timers.push(family("closes"));
    let error = super::check(spec, Handlers::default()).unwrap_err();
    assert!(
        error.starts_with(
            "timers `closes`: the component does not export howdah:operator/timer-handler"
        ),
        "{error}"
    );
}

#[test]
fn columns_do_not_clash_with_those_that_a_kind_of_table_adds() {
    let error = refused(|spec| {
        spec.states[0].kind = wit::StateKind::List;
        spec.states[0].fields[0].name = "position".to_owned();
    });
    assert!(error.contains("the field `position` clashes"), "{error}");
    let error = refused(|spec| {
        spec.states[0].ttl = Some(wit::Ttl { millis: 1, update: wit::TtlUpdate::OnWrite });
        spec.states[0].fields[0].name = "expires_at".to_owned();
    });
    assert!(error.contains("the field `expires_at` clashes"), "{error}");
    let error = refused(|spec| {
        spec.states.clear();
        spec.timers.push(family("closes"));
        spec.inputs[0].fields[0].name = "time".to_owned();
        spec.inputs[0].key = vec!["time".to_owned()];
    });
    assert_eq!(
        error,
        "timers `closes`: the key field `time` clashes with the table's own column `time`: rename \
         it"
    );
}

#[test]
fn decimals_have_a_sound_precision_and_scale() {
    for (precision, scale) in [(0, 0), (39, 0), (5, 6)] {
        let error = refused(|spec| {
            let type_ = ValueType::Decimal128(Decimal { precision, scale });
            spec.outputs[0].fields.push(field("total", type_));
        });
        assert!(error.contains(&format!("`total` is decimal128({precision},{scale})")), "{error}");
    }
}

#[test]
fn a_state_field_does_not_clash_with_the_tables_own_columns() {
    for name in ["kg", "KG"] {
        let error = refused(|spec| spec.states[0].fields[0].name = name.to_owned());
        assert!(error.contains(&format!("the field `{name}` clashes")), "{error}");
    }
    let error = refused(|spec| {
        spec.inputs[0].fields[0].name = "kg".to_owned();
        spec.inputs[0].key = vec!["kg".to_owned()];
    });
    assert!(error.contains("the key field `kg` clashes"), "{error}");
}

#[test]
fn a_state_field_does_not_clash_with_a_key_field() {
    let error = refused(|spec| spec.states[0].fields[0].name = "Auction".to_owned());
    assert_eq!(
        error,
        "state `last-bid`: its field `Auction` is called like a key field (upper and lower case \
         alike), and both are columns of its table: rename it"
    );
}

#[test]
fn table_columns_have_plain_names() {
    let mut error = refused(|spec| spec.states[0].fields[0].name = "_price".to_owned());
    assert!(error.contains("`_price` begins with `_`"), "{error}");
    error = refused(|spec| spec.states[0].fields[0].name = "a.b".to_owned());
    assert!(error.contains("`a.b` is no column name for a table"), "{error}");
    error = refused(|spec| spec.states[0].fields[0].name = "f".repeat(65));
    assert!(error.contains("is no column name for a table"), "{error}");
}

#[test]
fn columns_that_are_in_no_table_may_have_other_names() {
    let mut spec = bids();
    spec.inputs[0].fields.push(field("_date (UTC)", ValueType::Date));
    assert!(check(spec).is_ok());
}

#[test]
fn names_cannot_forge_messages() {
    let error = refused(|spec| spec.inputs[0].fields[1].name = "a\nb".to_owned());
    assert!(error.contains(r"`a\nb`") && !error.contains('\n'), "{error}");
}

#[test]
fn everything_has_a_limit() {
    let many = |count: usize| (0..count).map(|i| field(&format!("f{i}"), ValueType::Date));
    let error = refused(|spec| spec.outputs[0].fields.extend(many(1024)));
    assert_eq!(error, "there are 1025 fields of output `last`, more than 1024");
    let error = refused(|spec| {
        spec.states = (0..65).map(|i| bid_state(&format!("s{i}"))).collect();
    });
    assert_eq!(error, "there are 65 states, more than 64");
    let error = refused(|spec| spec.timers = (0..17).map(|i| family(&format!("t{i}"))).collect());
    assert_eq!(error, "there are 17 timers, more than 16");
}

#[test]
fn a_state_has_a_field() {
    let error = refused(|spec| spec.states[0].fields.clear());
    assert_eq!(error, "state `last-bid` has no fields, but needs at least one");
}
