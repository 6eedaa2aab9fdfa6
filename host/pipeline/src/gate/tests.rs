//! The alignment against a model that sees whole channels at once.

use super::*;
use crate::exchange::Exchange;
use crate::lines::Lines;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use howdah_state::{Column, ColumnType, KeyGroups};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

fn start(port: u32) -> Start {
    Start { port, watermark: i64::MIN, ended: false }
}

/// A row with a number.
fn row(number: i64) -> Message {
    let fields = [Column::required("key", ColumnType::Int64)];
    let groups = KeyGroups::new(128, 1).expect("key groups");
    let mut exchange = Exchange::new(&fields, vec![0], groups).expect("an exchange");
    let column: ArrayRef = Arc::new(Int64Array::from(vec![number]));
    let batch = RecordBatch::try_from_iter([("key", column)]).expect("a batch");
    let mut split = exchange.split(&batch, &[number], None, &Lines::default()).expect("split");
    Message::Rows(split.remove(0).expect("rows"))
}

fn row_number(rows: &Rows) -> i64 {
    rows.batch.column(0).as_primitive::<Int64Type>().value(0)
}

const BARRIER: fn(u64) -> Message = |checkpoint| Message::Barrier { checkpoint, last: false };

/// What came out, in a few letters.
fn shown(arrival: Option<Arrival>) -> String {
    match arrival {
        None => "-".to_owned(),
        Some(Arrival::Rows { port, rows }) => {
            format!("{port}:{}@{}", row_number(&rows), rows.watermark)
        }
        Some(Arrival::Watermark(watermark)) => format!("w{watermark}"),
        Some(Arrival::Idle) => "idle".to_owned(),
        Some(Arrival::Barrier { checkpoint, last: false }) => format!("b{checkpoint}"),
        Some(Arrival::Barrier { checkpoint, last: true }) => format!("last{checkpoint}"),
        Some(Arrival::End) => "end".to_owned(),
    }
}

fn steps(starts: &[Start], messages: Vec<(usize, Message)>) -> (Vec<String>, Alignment) {
    let mut alignment = Alignment::new(starts);
    let steps = messages.into_iter().map(|(channel, message)| {
        shown(alignment.accept(channel, message).expect("a channel that is open"))
    });
    (steps.collect(), alignment)
}

#[test]
fn the_watermark_is_the_lowest_of_all_channels() {
    use Message::Watermark;
    let messages = vec![
        (0, Watermark(5)),
        (1, Watermark(3)),
        (0, Watermark(9)),
        (1, row(1)),
        (1, Watermark(7)),
    ];
    let (steps, _) = steps(&[start(0), start(1)], messages);
    assert_eq!(steps, ["-", "w3", "-", "1:1@3", "w7"]);
}

#[test]
fn a_watermark_that_goes_back_is_counted_and_changes_nothing() {
    use Message::Watermark;
    let messages = vec![(0, Watermark(5)), (0, Watermark(4)), (0, Watermark(5)), (0, Watermark(6))];
    let (steps, alignment) = steps(&[start(0)], messages);
    assert_eq!(steps, ["w5", "-", "-", "w6"]);
    assert_eq!((alignment.regressions(), alignment.watermark), (1, 6));
}

#[test]
fn an_idle_channel_is_not_waited_for_until_it_has_something() {
    use Message::{Idle, Watermark};
    let messages = vec![
        (0, Watermark(5)),
        (1, Idle),
        (0, Watermark(8)),
        (0, Idle),
        (0, Idle),
        (1, row(1)),
        (1, Watermark(6)),
        (1, Watermark(9)),
        (0, Watermark(8)),
        (0, Watermark(10)),
    ];
    let (steps, _) = steps(&[start(0), start(1)], messages);
    assert_eq!(steps, ["-", "w5", "w8", "idle", "-", "1:1@8", "-", "w9", "-", "-"]);
}

#[test]
fn a_channel_at_its_end_is_not_waited_for_and_all_of_them_are_the_end() {
    use Message::{End, Watermark};
    let messages = vec![(0, Watermark(5)), (1, End), (0, End), (0, BARRIER(1)), (1, BARRIER(1))];
    let (steps, _) = steps(&[start(0), start(1)], messages);
    assert_eq!(steps, ["-", "w5", "end", "-", "b1"]);
}

#[test]
fn rows_after_the_end_of_an_earlier_run_lead_to_another_end() {
    let ended = |watermark| Start { watermark, ended: true, ..start(0) };
    let messages = vec![(0, row(1)), (0, Message::Watermark(12)), (0, Message::End)];
    let (steps, _) = steps(&[ended(10), ended(20)], messages);
    assert_eq!(steps, ["0:1@10", "w12", "end"]);
}

#[test]
fn a_barrier_out_of_order_and_a_channel_that_is_blocked_are_refused() {
    let mut alignment = Alignment::new(&[start(0), start(0)]);
    assert!(alignment.accept(0, BARRIER(1)).expect("the first").is_none());
    assert!(!alignment.is_open(0) && alignment.is_open(1));
    alignment.accept(0, row(1)).expect_err("blocked");
    alignment.accept(1, BARRIER(2)).expect_err("another barrier");
}

/// What a channel sends between two barriers: rows and watermarks.
#[derive(Debug, Clone)]
enum Sent {
    Row,
    Watermark(i64),
    Idle,
}

fn sent() -> impl Strategy<Value = Sent> {
    prop_oneof![
        4 => Just(Sent::Row),
        2 => (0_i64..100).prop_map(Sent::Watermark),
        1 => Just(Sent::Idle),
    ]
}

/// For each channel what it sends, in parts that barriers end.
fn channels() -> impl Strategy<Value = Vec<Vec<Vec<Sent>>>> {
    (1_usize..5, 1_usize..4).prop_flat_map(|(channels, parts)| {
        let part = proptest::collection::vec(sent(), 0..12);
        let parts = proptest::collection::vec(part, parts);
        proptest::collection::vec(parts, channels)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever the interleaving, what comes before a barrier is what was sent before it, in the
    /// order of each channel; and the watermark is that of the model and never goes back.
    #[test]
    fn barriers_cut_all_channels_at_the_same_place(
        channels in channels(),
        turns in proptest::collection::vec(0_usize..16, 400),
    ) {
        let mut number = 0;
        let mut next = || {
            number += 1;
            number
        };
        // For each channel its messages, and the rows of each part.
        let mut rows: Vec<Vec<Vec<i64>>> = vec![Vec::new(); channels.len()];
        let mut queues = Vec::new();
        for (channel, parts) in channels.iter().enumerate() {
            let mut queue = std::collections::VecDeque::new();
            for (checkpoint, part) in (1..).zip(parts) {
                let mut of_part = Vec::new();
                for sent in part {
                    queue.push_back(match sent {
                        Sent::Row => {
                            of_part.push(next());
                            row(of_part[of_part.len() - 1])
                        }
                        Sent::Watermark(watermark) => Message::Watermark(*watermark),
                        Sent::Idle => Message::Idle,
                    });
                }
                rows[channel].push(of_part);
                queue.push_back(BARRIER(checkpoint));
            }
            queue.push_back(Message::End);
            queues.push(queue);
        }

        let starts: Vec<Start> = (0..).zip(&channels).map(|(port, _)| start(port)).collect();
        let mut alignment = Alignment::new(&starts);
        // The model: the highest watermark of each channel, and which of them count.
        let mut highest = vec![i64::MIN; channels.len()];
        let mut silent = BTreeSet::new();
        let mut combined = i64::MIN;
        let mut seen: Vec<Vec<i64>> = vec![Vec::new(); channels.len()];
        let (mut part, mut ended, mut turns) = (0, false, turns.into_iter().cycle());
        while queues.iter().any(|queue| !queue.is_empty()) {
            let turn = turns.next().expect("without end") % queues.len();
            let channel = (turn..queues.len()).chain(0..turn).find(|at| {
                alignment.is_open(*at) && !queues[*at].is_empty()
            });
            let channel = channel.expect("some channel is open: no deadlock");
            let message = queues[channel].pop_front().expect("a message");
            match &message {
                Message::Rows(_) => { silent.remove(&channel); }
                Message::Watermark(watermark) => {
                    silent.remove(&channel);
                    highest[channel] = highest[channel].max(*watermark);
                }
                Message::Idle | Message::End => { silent.insert(channel); }
                Message::Barrier { .. } => {}
            }
            let active = (0..channels.len()).filter(|at| !silent.contains(at));
            let lowest = active.map(|at| highest[at]).min();
            let is_news = !matches!(message, Message::Rows(_) | Message::Barrier { .. });
            match alignment.accept(channel, message).expect("accepted") {
                None => {}
                Some(Arrival::Rows { port, rows: row }) => {
                    prop_assert_eq!(row.watermark, combined);
                    seen[port as usize].push(row_number(&row));
                }
                Some(Arrival::Watermark(watermark)) => {
                    prop_assert_eq!(Some(watermark), lowest);
                    prop_assert!(watermark > combined);
                    combined = watermark;
                }
                Some(Arrival::Idle) => prop_assert_eq!(lowest, None),
                Some(Arrival::Barrier { checkpoint, .. }) => {
                    prop_assert_eq!(checkpoint, part + 1);
                    for (channel, seen) in seen.iter_mut().enumerate() {
                        let at = usize::try_from(part).expect("small");
                        prop_assert_eq!(&std::mem::take(seen), &rows[channel][at]);
                    }
                    part += 1;
                }
                Some(Arrival::End) => ended = true,
            }
            if is_news && !ended {
                prop_assert!(lowest.is_none_or(|lowest| lowest <= combined), "it was told");
            }
        }
        prop_assert!(ended);
        prop_assert_eq!(usize::try_from(part).expect("small"), channels[0].len());
        prop_assert_eq!(alignment.watermark, combined);
    }
}
