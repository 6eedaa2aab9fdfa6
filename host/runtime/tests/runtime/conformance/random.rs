//! Random steps.

use super::job::Step;
use super::model::LATER;
use super::rows::{Command, Values};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// The empty text among them, and characters of several bytes.
const KEYS: [&str; 6] = ["", "a", "b", "naïve", "a key that is longer than others", "🐘"];

const COMMANDS: [&str; 32] = [
    "value.put",
    "value.put",
    "value.get",
    "value.delete",
    "list.append",
    "list.append",
    "list.get",
    "list.clear",
    "map.put",
    "map.put",
    "map.put",
    "map.get",
    "map.delete",
    "map.entries",
    "map.range",
    "map.range",
    "map.clear",
    "reducing.add",
    "reducing.add",
    "reducing.get",
    "reducing.clear",
    "event.set",
    "event.set",
    "event.delete",
    "processing.set",
    "processing.delete",
    "now",
    "watermark",
    "kind",
    "emit",
    "context",
    "config",
];

fn key() -> impl Strategy<Value = String> {
    select(&KEYS[..]).prop_map(str::to_owned)
}

fn int64() -> impl Strategy<Value = i64> {
    let extreme = select(vec![i64::MIN, i64::MIN + 1, -1, 0, 1, 1 << 53, i64::MAX - 1, i64::MAX]);
    prop_oneof![8 => -12_i64..60, 1 => extreme]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![4 => ".{0,8}", 1 => Just(String::new()), 1 => Just("ß\0🐘\u{feff}\n\"".repeat(50))]
}

/// A command to one of the first so many keys, of those whose names begin so.
fn command(keys: usize, family: &str) -> impl Strategy<Value = Command> + use<> {
    let names: Vec<&str> = COMMANDS.into_iter().filter(|name| name.starts_with(family)).collect();
    let later = LATER.into_iter().filter(|name| name.starts_with(family)).collect::<Vec<_>>();
    let commands = prop_oneof![4 => select(names), 1 => Just("later")];
    let fields = (option::weighted(0.9, -4_i64..12), option::weighted(0.85, int64()));
    let texts = (option::weighted(0.8, text()), select(later), option::of(0_usize..6));
    (select(&KEYS[..keys]), commands, fields, texts, 0_u8..4, int64()).prop_map(
        |(key, command, (map_key, number), (text, later, limit), kind, time)| {
            let text = match command {
                "later" => Some(later.to_owned()),
                "map.range" => limit.map(|limit| limit.to_string()),
                _ => text,
            };
            let folds = command == "reducing.add" || later == "reducing.add";
            // Sums that are too large have a test of their own.
            let number = number.map(|number| if folds { number % 1_000 } else { number });
            let (key, command) = (key.to_owned(), command.to_owned());
            Command { key, command, map_key, number, text, kind, time }
        },
    )
}

/// A batch of commands, of which now and then one fails. Many are about one state and few keys, so
/// that commands meet what others did.
fn commands() -> impl Strategy<Value = Vec<Command>> {
    let failures = prop_oneof![
        20 => Just(None),
        1 => select(vec!["fail", "crash", "dance"]).prop_map(Some),
    ];
    let families = ["", "value.", "list.", "map.", "map.", "reducing.", "event.", "processing."];
    let rows = (1..=KEYS.len(), select(families.to_vec()))
        .prop_flat_map(|(keys, family)| vec(command(keys, family), 1..40));
    (rows, failures).prop_map(|(mut rows, failure)| {
        rows.extend(failure.map(|name| Command::new("a", name).text("as told")));
        rows
    })
}

fn extreme<T: Copy + std::fmt::Debug + 'static>(
    any: impl Strategy<Value = T>,
    extremes: Vec<T>,
) -> impl Strategy<Value = T> {
    prop_oneof![2 => any, 1 => select(extremes)]
}

fn row() -> impl Strategy<Value = Values> {
    let largest = 10_i128.pow(38) - 1;
    let floats32 = vec![
        f32::NAN,
        -0.0,
        0.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::MIN_POSITIVE / 2.0,
        f32::MAX,
    ];
    let floats64 = vec![
        f64::NAN,
        -0.0,
        0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MIN_POSITIVE / 2.0,
        f64::MAX,
    ];
    let numbers = (
        option::of(any::<bool>()),
        option::of(extreme(any::<i32>(), vec![i32::MIN, i32::MAX, 0])),
        option::of(extreme(any::<i64>(), vec![i64::MIN, i64::MAX, 0, (1 << 53) + 1])),
        option::of(extreme(any::<f32>(), floats32)),
        option::of(extreme(any::<f64>(), floats64)),
    );
    let others = (
        option::of(extreme(-largest..=largest, vec![-largest, largest, 0, 1, -1, 1 << 64])),
        option::of(extreme(any::<i32>(), vec![i32::MIN, i32::MAX, 0])),
        option::of(extreme(any::<i64>(), vec![i64::MIN, i64::MAX, 0])),
        option::of(text()),
        option::of(vec(any::<u8>(), 0..12)),
    );
    (numbers, others).prop_map(|(numbers, others)| {
        let (boolean, int32, int64, float32, float64) = numbers;
        let (decimal, date, timestamp, utf8, binary) = others;
        Values { boolean, int32, int64, float32, float64, decimal, date, timestamp, utf8, binary }
    })
}

/// Rows of `values`, of which none is null in some columns, and all are in others.
pub(super) fn values(most: usize) -> impl Strategy<Value = Vec<(String, Values, i64)>> {
    let rows = vec((key(), row(), int64()), 1..most);
    (rows, any::<[bool; 10]>()).prop_map(|(mut rows, nulls)| {
        for (_, row, _) in &mut rows {
            // One in a few batches has columns of nulls alone.
            if nulls[0] && nulls[1] {
                row.boolean = None;
                row.utf8 = None;
            }
            if nulls[2] && nulls[3] {
                row.decimal = None;
                row.int64 = None;
            }
            if nulls[4] && nulls[5] {
                row.binary = row.binary.take().or(Some(Vec::new()));
                row.float64 = row.float64.or(Some(-0.0));
            }
        }
        rows
    })
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => commands().prop_map(Step::Commands),
        2 => values(8).prop_map(Step::Values),
        3 => (-10_i64..80).prop_map(Step::Watermark),
        1 => (1_000_i64..1_060).prop_map(Step::Clock),
        3 => Just(Step::Barrier),
        1 => Just(Step::Crash),
    ];
    (vec(step, 1..24), any::<bool>()).prop_map(|(mut steps, ends)| {
        // The clock never goes back.
        let mut now = 0;
        for step in &mut steps {
            if let Step::Clock(time) = step {
                now = now.max(*time);
                *time = now;
            }
        }
        if ends {
            steps.push(Step::Close);
        }
        steps
    })
}
