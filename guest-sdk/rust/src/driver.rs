//! Runs an operator's per-record code over the batches of the host.

use std::marker::PhantomData;
use std::rc::Rc;

use crate::host::{self, Host};
use crate::record::Call;
use crate::state::DuringCall;
use crate::{
    Batch, CurrentKey, Error, Field, InputPort, Inputs, Open, Operator, Outputs, Result, Row,
    Timer, Timestamp,
};
use crate::{inputs, row, wit};

/// One instance of an operator, with its states.
pub(crate) struct Driver<O> {
    operator: O,
    /// What is told when calls begin and end.
    parts: Vec<Rc<dyn DuringCall>>,
    host: Host,
    /// The highest that has been seen.
    watermark: Timestamp,
}

/// What the operator is.
pub(crate) fn describe<O: Operator>(config: &str) -> Result<wit::Spec> {
    let mut open = Open::to_describe(config);
    O::open(&mut open)?;
    let (states, timers) = open.into_declared();
    Ok(wit::Spec { inputs: input_specs::<O>()?, outputs: output_specs::<O>()?, states, timers })
}

fn input_specs<O: Operator>() -> Result<Vec<wit::InputSpec>> {
    let mut specs: Vec<wit::InputSpec> = Vec::new();
    for port in <O::Input as Inputs>::PORTS {
        let own = port.name.is_empty();
        let name = if own { O::INPUT } else { port.name };
        if specs.iter().any(|other| other.name == name) {
            return Err(Error::new(format!("two inputs are called `{name}`")));
        }
        let of = if own { "the input".to_owned() } else { format!("input `{name}`") };
        specs.push(wit::InputSpec {
            name: name.to_owned(),
            fields: row::wit_fields(port.fields),
            key: key_names::<O::Key>(port, &of)?,
            changelog: port.changelog || (own && O::INPUT_CHANGELOG),
        });
    }
    Ok(specs)
}

fn output_specs<O: Operator>() -> Result<Vec<wit::OutputSpec>> {
    let mut specs: Vec<wit::OutputSpec> = Vec::new();
    for port in <O::Output as Outputs>::PORTS {
        let own = port.name.is_empty();
        let name = if own { O::OUTPUT } else { port.name };
        if specs.iter().any(|other| other.name == name) {
            return Err(Error::new(format!("two outputs are called `{name}`")));
        }
        specs.push(wit::OutputSpec {
            name: name.to_owned(),
            fields: row::wit_fields(port.fields),
            changelog: port.changelog || (own && O::OUTPUT_CHANGELOG),
        });
    }
    Ok(specs)
}

/// The names of the input's fields that are the key: each must be there, with the type of the
/// key's field.
pub(crate) fn key_names<K: Row>(port: &InputPort, of: &str) -> Result<Vec<String>> {
    if !port.key.is_empty() && port.key.len() != K::FIELDS.len() {
        let (given, wanted) = (port.key.len(), K::FIELDS.len());
        return Err(Error::new(format!("{of} names {given} fields as its key of {wanted}")));
    }
    let mut names = Vec::new();
    for (position, key) in K::FIELDS.iter().enumerate() {
        let name = port.key.get(position).copied().unwrap_or(key.name);
        match port.fields.iter().find(|field| field.name == name) {
            Some(Field { value_type, nullable: false, .. }) if *value_type == key.value_type => {
                names.push(name.to_owned());
            }
            Some(field) => {
                let nullable = if field.nullable { " and may be null" } else { "" };
                return Err(Error::new(format!(
                    "key field `{name}` is {:?}, but in {of} it is {:?}{nullable}",
                    key.value_type, field.value_type
                )));
            }
            None => {
                let names: Vec<_> = port.fields.iter().map(|field| field.name).collect();
                let names = names.join(", ");
                return Err(Error::new(format!(
                    "key field `{name}` is no field of {of}, which has {names}"
                )));
            }
        }
    }
    Ok(names)
}

impl<O: Operator> Driver<O> {
    /// Opens the operator.
    pub(crate) fn open(context: wit::Context, host: Host) -> Result<Self> {
        let mut open = Open::to_run(context, host.clone());
        let operator = host::within(&host, || O::open(&mut open))?;
        Ok(Self { operator, parts: open.into_parts(), host, watermark: Timestamp::MIN })
    }

    /// Runs the rows of a batch, then writes the states.
    pub(crate) fn process(&mut self, input: &wit::Input) -> Result<Vec<wit::Output>> {
        check_input::<O>(input)?;
        self.raise_watermark(input.watermark);
        let call = Call {
            keys: &input.keys.columns,
            key_count: input.keys.rows,
            row_keys: Some(&input.row_keys),
            times: &input.timestamps,
            watermark: self.watermark,
        };
        let batch = Batch { input, call: &call, types: PhantomData };
        let rows = input.batch.rows as usize;
        self.call(Some(input.keys.rows), rows, |operator, out| operator.process_batch(&batch, out))
    }

    /// Runs timers that are due, then writes the states.
    pub(crate) fn on_timers(&mut self, due: &wit::Due) -> Result<Vec<wit::Output>> {
        let count = due.keys.rows as usize;
        row::check::<O::Key>(&due.keys.columns, count)
            .map_err(|error| error.context("keys of timers"))?;
        if due.times.len() != count.saturating_mul(8) {
            return Err(Error::invalid_argument("there is not one time for each timer"));
        }
        self.raise_watermark(due.watermark);
        let call = Call {
            keys: &due.keys.columns,
            key_count: due.keys.rows,
            row_keys: None,
            times: &due.times,
            watermark: self.watermark,
        };
        self.call(Some(due.keys.rows), count, |operator, out| {
            for (index, time) in call.rows() {
                let current = CurrentKey { call: &call, index, key: PhantomData };
                O::Output::set_time(out, time);
                operator.on_timer(&Timer { current, family: due.timer, time }, out)?;
            }
            Ok(())
        })
    }

    /// Tells the operator that the watermark has risen.
    pub(crate) fn on_watermark(&mut self, watermark: i64) -> Result<Vec<wit::Output>> {
        self.raise_watermark(watermark);
        let watermark = self.watermark;
        self.call(None, 0, |operator, out| operator.on_watermark(watermark, out))
    }

    /// Lets the operator flush what it holds back.
    pub(crate) fn on_barrier(&mut self, checkpoint: u64) -> Result<Vec<wit::Output>> {
        self.call(None, 0, |operator, out| operator.on_barrier(checkpoint, out))
    }

    /// Tells the operator that a checkpoint is complete.
    pub(crate) fn on_checkpoint_complete(&mut self, checkpoint: u64) -> Result<()> {
        self.call(None, 0, |operator, _| operator.on_checkpoint_complete(checkpoint)).map(drop)
    }

    /// Tells the operator that the input has ended.
    pub(crate) fn close(&mut self) -> Result<Vec<wit::Output>> {
        self.call(None, 0, Operator::close)
    }

    /// A call of the host's: about so many `keys`, if it is about keys, with so many rows.
    fn call(
        &mut self,
        keys: Option<u32>,
        rows: usize,
        call: impl FnOnce(&mut O, &mut <O::Output as Outputs>::Emitters) -> Result<()>,
    ) -> Result<Vec<wit::Output>> {
        let Self { operator, parts, host, watermark } = self;
        host::within(host, || {
            if let Some(keys) = keys {
                parts.iter().for_each(|part| part.begin(keys));
            }
            let mut out = O::Output::emitters(O::OUTPUT_CHANGELOG, *watermark, rows);
            let result = call(operator, &mut out).and_then(|()| {
                let outputs = O::Output::finish(out)?;
                parts.iter().try_for_each(|part| part.commit())?;
                Ok(outputs)
            });
            parts.iter().for_each(|part| part.end());
            result
        })
    }

    fn raise_watermark(&mut self, watermark: i64) {
        self.watermark = self.watermark.max(Timestamp::from_millis(watermark));
    }
}

/// What `process_batch` does if the operator has none of its own.
pub(crate) fn process_rows<O: Operator>(
    operator: &mut O,
    batch: &Batch<'_, O::Input, O::Key>,
    out: &mut <O::Output as Outputs>::Emitters,
) -> Result<()> {
    let mut latest = Timestamp::MIN;
    if !O::PREPARES {
        batch.for_each(|row, record| {
            latest = latest.max(record.timestamp());
            O::Output::set_time(out, record.timestamp());
            operator.process(row, record, out)
        })?;
        O::Output::set_time(out, latest);
        return operator.finish_batch(&batch.each_key(), out);
    }
    let mut rows = Vec::with_capacity(batch.rows());
    for row in 0..batch.rows() {
        let (row, record) = batch.read(row)?;
        operator.prepare(&row, &record)?;
        rows.push((row, record));
    }
    for (row, record) in rows {
        latest = latest.max(record.timestamp());
        O::Output::set_time(out, record.timestamp());
        operator.process(row, &record, out)?;
    }
    O::Output::set_time(out, latest);
    operator.finish_batch(&batch.each_key(), out)
}

/// Checks once for each batch what the loop over its rows relies on.
fn check_input<O: Operator>(input: &wit::Input) -> Result<()> {
    let rows = input.batch.rows as usize;
    let Some(port) = <O::Input as Inputs>::PORTS.get(input.port as usize) else {
        return Err(Error::invalid_argument(format!("there is no input {}", input.port)));
    };
    inputs::check(port, &input.batch.columns, rows)
        .map_err(|error| error.context(if port.name.is_empty() { "input" } else { port.name }))?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::{Column, ValueType};
    use crate::testing::TestHost;
    use crate::{Emitter, ErrorKind, Key, Record, Row, ValueState};

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
