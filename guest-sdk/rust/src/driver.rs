//! Runs an operator's per-record code over the batches of the host.

use std::marker::PhantomData;
use std::rc::Rc;

use crate::columns::chunk;
use crate::host::Host;
use crate::state::BatchState;
use crate::{Emitter, Error, Field, Open, Operator, Record, Result, Row, RowKind, Timestamp};
use crate::{log, row, wit};

/// One instance of an operator, with its states.
pub(crate) struct Driver<O> {
    operator: O,
    states: Vec<Rc<dyn BatchState>>,
    host: Rc<dyn Host>,
    /// The highest that has been seen.
    watermark: Timestamp,
}

/// What the operator is.
pub(crate) fn describe<O: Operator>(config: &str) -> Result<wit::Spec> {
    let mut open = Open::to_describe(config);
    O::open(&mut open)?;
    check_key::<O>()?;
    Ok(wit::Spec {
        inputs: vec![wit::InputSpec {
            name: O::INPUT.to_owned(),
            fields: row::fields::<O::Input>(),
            key: <O::Key as Row>::FIELDS.iter().map(|field| field.name.to_owned()).collect(),
            changelog: O::INPUT_CHANGELOG,
        }],
        outputs: vec![wit::OutputSpec {
            name: O::OUTPUT.to_owned(),
            fields: row::fields::<O::Output>(),
            changelog: O::OUTPUT_CHANGELOG,
        }],
        states: open.into_declared(),
        timers: Vec::new(),
    })
}

/// Each key field must be a field of the input, of the same type.
fn check_key<O: Operator>() -> Result<()> {
    let input = <O::Input as Row>::FIELDS;
    for key in <O::Key as Row>::FIELDS {
        let same_name = |field: &&Field| field.name == key.name;
        match input.iter().find(same_name) {
            Some(field) if field == key => {}
            Some(field) => {
                let nullable = if field.nullable { " and may be null" } else { "" };
                return Err(Error::new(format!(
                    "key field `{}` is {:?}, but in the input it is {:?}{nullable}",
                    key.name, key.value_type, field.value_type
                )));
            }
            None => {
                let names: Vec<_> = input.iter().map(|field| field.name).collect();
                return Err(Error::new(format!(
                    "key field `{}` is no field of the input, which has {}",
                    key.name,
                    names.join(", ")
                )));
            }
        }
    }
    Ok(())
}

impl<O: Operator> Driver<O> {
    /// Opens the operator.
    pub(crate) fn open(context: wit::Context, host: Rc<dyn Host>) -> Result<Self> {
        let mut open = Open::to_run(context, Rc::clone(&host));
        let operator = log::to_host(&host, || O::open(&mut open))?;
        Ok(Self { operator, states: open.into_states(), host, watermark: Timestamp::MIN })
    }

    /// Runs the rows of a batch, then writes the states.
    pub(crate) fn process(&mut self, input: &wit::Input) -> Result<Vec<wit::Output>> {
        let host = Rc::clone(&self.host);
        log::to_host(&host, || {
            let result = self.run_batch(input);
            self.states.iter().for_each(|state| state.end());
            result
        })
    }

    fn run_batch(&mut self, input: &wit::Input) -> Result<Vec<wit::Output>> {
        check_input::<O>(input)?;
        self.watermark = Timestamp::from_millis(input.watermark);
        self.states.iter().for_each(|state| state.begin(input.keys.rows as usize));

        let rows = input.batch.rows as usize;
        let mut out = Emitter::new(O::OUTPUT_CHANGELOG, self.watermark, rows);
        for row in 0..rows {
            let record = record(input, row)?;
            out.set_time(record.timestamp());
            let values = O::Input::read(&input.batch.columns, row)?;
            self.operator.process(values, &record, &mut out)?;
        }
        let outputs = out.finish()?;
        self.states.iter().try_for_each(|state| state.commit())?;
        Ok(outputs)
    }

    /// Lets the operator flush what it holds back.
    pub(crate) fn on_barrier(&mut self, checkpoint: u64) -> Result<Vec<wit::Output>> {
        self.outside_of_batch(|operator, out| operator.on_barrier(checkpoint, out))
    }

    /// Tells the operator that the input has ended.
    pub(crate) fn close(&mut self) -> Result<Vec<wit::Output>> {
        self.outside_of_batch(Operator::close)
    }

    fn outside_of_batch(
        &mut self,
        call: impl FnOnce(&mut O, &mut Emitter<O::Output>) -> Result<()>,
    ) -> Result<Vec<wit::Output>> {
        let mut out = Emitter::new(O::OUTPUT_CHANGELOG, self.watermark, 0);
        log::to_host(&self.host, || call(&mut self.operator, &mut out))?;
        out.finish()
    }
}

/// Checks once for each batch what the loop over its rows relies on.
fn check_input<O: Operator>(input: &wit::Input) -> Result<()> {
    let rows = input.batch.rows as usize;
    if input.port != 0 {
        return Err(Error::invalid_argument(format!("there is no input {}", input.port)));
    }
    row::check::<O::Input>(&input.batch.columns, rows).map_err(|error| error.context("input"))?;
    row::check::<O::Key>(&input.keys.columns, input.keys.rows as usize)
        .map_err(|error| error.context("keys of the input"))?;
    let kinds_len = input.batch.row_kinds.as_ref().map_or(rows, Vec::len);
    if input.timestamps.len() != rows.saturating_mul(8)
        || input.row_keys.len() != rows.saturating_mul(4)
        || kinds_len != rows
    {
        return Err(Error::invalid_argument(
            "timestamps, row keys or row kinds of the input do not have one value a row",
        ));
    }
    Ok(())
}

/// What is known about a row beside its fields.
#[inline]
fn record<K>(input: &wit::Input, row: usize) -> Result<Record<'_, K>> {
    let kind = match &input.batch.row_kinds {
        None => RowKind::Insert,
        Some(kinds) => RowKind::from_byte(kinds.get(row).copied().unwrap_or_default())?,
    };
    let key = chunk(&input.row_keys, row).map(u32::from_le_bytes);
    let timestamp = chunk(&input.timestamps, row).map(i64::from_le_bytes);
    match (key, timestamp) {
        (Some(key), Some(timestamp)) if key < input.keys.rows => Ok(Record {
            keys: &input.keys.columns,
            key_index: key as usize,
            kind,
            timestamp: Timestamp::from_millis(timestamp),
            watermark: Timestamp::from_millis(input.watermark),
            key: PhantomData,
        }),
        _ => Err(Error::invalid_argument(format!("row {row} of the input has no key"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::{Column, ValueType};
    use crate::testing::TestHost;
    use crate::{ErrorKind, Key, Row, ValueState};

    #[derive(Row)]
    struct Number {
        key: i64,
        note: Option<String>,
    }

    #[derive(Key)]
    struct Odd {
        key: i64,
    }

    #[derive(Row, Clone)]
    struct Sum {
        sum: i64,
    }

    struct Sums {
        sums: ValueState<Odd, Sum>,
    }

    impl Operator for Sums {
        type Input = Number;
        type Key = Odd;
        type Output = Number;
        const OUTPUT_CHANGELOG: bool = true;

        fn open(open: &mut Open<Odd>) -> Result<Self> {
            Ok(Self { sums: open.value_with_version("sums", 3)? })
        }

        fn process(
            &mut self,
            number: Number,
            record: &Record<'_, Odd>,
            out: &mut Emitter<Number>,
        ) -> Result<()> {
            let sum = self.sums.get(record)?.map_or(0, |sum| sum.sum);
            self.sums.put(record, Sum { sum: sum + number.key });
            out.emit(&number);
            Ok(())
        }
    }

    #[derive(Row)]
    struct Text {
        key: String,
    }

    /// Does nothing, keyed like `Sums`, over any input.
    struct Stateless<I>(PhantomData<I>);

    impl<I: Row + 'static> Operator for Stateless<I> {
        type Input = I;
        type Key = Odd;
        type Output = Sum;

        fn open(_: &mut Open<Odd>) -> Result<Self> {
            Ok(Self(PhantomData))
        }

        fn process(&mut self, _: I, _: &Record<'_, Odd>, _: &mut Emitter<Sum>) -> Result<()> {
            Ok(())
        }
    }

    fn field(name: &str, type_: ValueType, nullable: bool) -> wit::Field {
        wit::Field { name: name.to_owned(), type_, nullable }
    }

    fn int64s(values: &[i64]) -> Column {
        let data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Column { data, offsets: None, validity: None }
    }

    /// Two rows with the keys 5 and 7.
    fn input() -> wit::Input {
        let notes = Column {
            data: b"ab".to_vec(),
            offsets: Some([0_u32, 1, 2].iter().flat_map(|offset| offset.to_le_bytes()).collect()),
            validity: None,
        };
        wit::Input {
            port: 0,
            batch: wit::Batch { rows: 2, columns: vec![int64s(&[5, 7]), notes], row_kinds: None },
            timestamps: int64s(&[1, 2]).data,
            watermark: 0,
            keys: wit::KeyColumns { rows: 2, columns: vec![int64s(&[5, 7])] },
            row_keys: [0_u32, 1].iter().flat_map(|key| key.to_le_bytes()).collect(),
        }
    }

    /// What the driver says to an input with something wrong.
    fn refusal(spoil: impl FnOnce(&mut wit::Input)) -> Error {
        let mut input = input();
        spoil(&mut input);
        let host = TestHost::<Stateless<Number>>::new().unwrap();
        host.open_driver().unwrap().process(&input).unwrap_err()
    }

    #[test]
    fn describe_gives_what_the_types_and_open_declare() {
        let spec = describe::<Sums>("{}").unwrap();
        let [input] = &spec.inputs[..] else { panic!("{spec:?}") };
        assert_eq!(input.name, "input");
        assert_eq!(input.key, ["key"]);
        assert!(!input.changelog);
        let fields = [field("key", ValueType::Int64, false), field("note", ValueType::Utf8, true)];
        assert_eq!(input.fields, fields);
        let [output] = &spec.outputs[..] else { panic!("{spec:?}") };
        assert_eq!(output.fields, fields);
        assert!(output.changelog);
        let [state] = &spec.states[..] else { panic!("{spec:?}") };
        assert_eq!((state.name.as_str(), state.schema_version), ("sums", 3));
        assert_eq!(state.fields, [field("sum", ValueType::Int64, false)]);
    }

    #[test]
    fn a_row_whose_key_index_is_out_of_range_is_refused() {
        let error = refusal(|input| input.row_keys[4] = 2);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains("row 1"), "{error}");
    }

    #[test]
    fn a_short_column_is_refused_by_name() {
        let error = refusal(|input| input.batch.columns[0].data.truncate(15));
        assert!(error.message().contains("input: column `key`: 15 bytes"), "{error}");
    }

    #[test]
    fn a_missing_column_is_refused() {
        let error = refusal(|input| input.batch.columns.truncate(1));
        assert!(error.message().contains("1 columns, not 2"), "{error}");
    }

    #[test]
    fn a_missing_timestamp_is_refused() {
        let error = refusal(|input| input.timestamps.truncate(15));
        assert!(error.message().contains("timestamps"), "{error}");
    }

    #[test]
    fn text_that_is_no_utf8_is_refused() {
        let error = refusal(|input| input.batch.columns[1].data[0] = 0xFF);
        assert!(error.message().contains("UTF-8"), "{error}");
    }

    #[test]
    fn an_unknown_row_kind_is_refused() {
        let error = refusal(|input| input.batch.row_kinds = Some(vec![0, 4]));
        assert!(error.message().contains("4 is no row kind"), "{error}");
    }

    #[test]
    fn an_undeclared_port_is_refused() {
        assert!(refusal(|input| input.port = 1).message().contains("no input 1"));
    }

    #[test]
    fn a_key_field_of_another_type_than_the_input_is_refused() {
        let error = describe::<Stateless<Text>>("{}").unwrap_err();
        assert_eq!(
            error.message(),
            "key field `key` is ValueType::Int64, but in the input it is ValueType::Utf8"
        );
    }

    #[test]
    fn a_key_field_that_the_input_lacks_is_refused() {
        let error = describe::<Stateless<Sum>>("{}").unwrap_err();
        assert_eq!(error.message(), "key field `key` is no field of the input, which has sum");
    }
}
