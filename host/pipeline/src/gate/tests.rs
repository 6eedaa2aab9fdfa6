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
        Some(Arrival::Idle(watermark)) => format!("idle{watermark}"),
        Some(Arrival::Barrier { checkpoint, last: false }) => format!("b{checkpoint}"),
        Some(Arrival::Barrier { checkpoint, last: true }) => format!("last{checkpoint}"),
        Some(Arrival::End) => "end".to_owned(),
    }
}

/// What comes of messages: of each a few letters.
fn steps(starts: &[Start], messages: Vec<(usize, Message)>) -> (Vec<String>, Alignment) {
    let watermark = starts.iter().map(|start| start.watermark).min().unwrap_or(i64::MIN);
    let mut alignment = Alignment::new(starts, watermark);
    let steps = messages.into_iter().map(|(channel, message)| {
        shown(alignment.accept(channel, message).expect("a channel that is open"))
    });
    (steps.collect(), alignment)
}

/// What happens, where the channels begin, what they deliver, and what comes of each message.
type Case = (&'static str, Vec<Start>, Vec<(usize, Message)>, &'static str);

/// Each has two channels unless it says otherwise.
fn watermark_cases() -> Vec<Case> {
    use Message::{End, Idle, Watermark};
    let two = || vec![start(0), start(1)];
    let ended = |watermark| Start { watermark, ended: true, ..start(0) };
    vec![
        (
            "the lowest of all channels counts",
            two(),
            vec![
                (0, Watermark(5)),
                (1, Watermark(3)),
                (0, Watermark(9)),
                (1, row(1)),
                (1, Watermark(7)),
            ],
            "- w3 - 1:1@3 w7",
        ),
        (
            "a regression changes nothing (one channel)",
            vec![start(0)],
            vec![(0, Watermark(5)), (0, Watermark(4)), (0, row(4)), (0, Watermark(6))],
            "w5 - 0:4@5 w6",
        ),
        (
            "a duplicate is told once (one channel)",
            vec![start(0)],
            vec![(0, Watermark(5)), (0, Watermark(5)), (0, Watermark(6)), (0, Watermark(6))],
            "w5 - w6 -",
        ),
        (
            "an idle channel is not waited for",
            two(),
            vec![(0, Watermark(5)), (1, Idle), (0, Watermark(8)), (1, Idle)],
            "- w5 w8 -",
        ),
        (
            "one that never had a watermark is idle like any other",
            two(),
            vec![(1, Idle), (0, Watermark(5)), (1, row(7)), (0, Watermark(8)), (1, Watermark(6))],
            "- w5 1:7@5 - w6",
        ),
        (
            "all idle is told once, and the highest counts, whichever was idle first",
            two(),
            vec![(0, Watermark(5)), (1, Watermark(3)), (0, Idle), (1, Idle), (1, Idle)],
            "- w3 - idle5 -",
        ),
        (
            "with the last that is idle the others' is reached",
            two(),
            vec![(0, Watermark(5)), (1, Watermark(3)), (1, Idle), (0, Idle)],
            "- w3 w5 idle5",
        ),
        (
            "late rows after idleness are behind the watermark, which waits for the channel again",
            two(),
            vec![
                (0, Watermark(5)),
                (1, Idle),
                (1, row(2)),
                (1, Watermark(2)),
                (0, Watermark(9)),
                (1, Watermark(7)),
            ],
            "- w5 1:2@5 - - w7",
        ),
        (
            "a channel that comes back is told, though the watermark is what it was",
            two(),
            vec![(0, Watermark(5)), (1, Watermark(5)), (0, Idle), (1, Idle), (0, Watermark(5))],
            "- w5 - idle5 w5",
        ),
        (
            "rows end the idleness of all without a word: they are the word",
            two(),
            vec![(0, Watermark(1)), (0, Idle), (1, Idle), (0, row(1)), (0, Idle)],
            "- - idle1 0:1@1 idle1",
        ),
        (
            "an idle channel takes part in barriers",
            two(),
            vec![(1, Idle), (0, Watermark(5)), (0, BARRIER(1)), (1, BARRIER(1)), (0, Watermark(6))],
            "- w5 - b1 w6",
        ),
        (
            "a channel at its end is not waited for, and all of them are the end",
            two(),
            vec![(0, Watermark(5)), (1, End), (0, End), (0, BARRIER(1)), (1, BARRIER(1))],
            "- w5 end - b1",
        ),
        (
            "with one at its end, the other idle is all idle",
            two(),
            vec![(0, Watermark(5)), (1, End), (0, Idle), (0, End)],
            "- w5 idle5 end",
        ),
        (
            "one at its end that was ahead counts when the other is idle",
            two(),
            vec![(0, Watermark(5)), (1, Watermark(9)), (1, End), (0, Idle)],
            "- w5 - idle9",
        ),
        (
            "rows after the end of an earlier run lead to another end",
            vec![ended(10), ended(20)],
            vec![(0, row(1)), (0, Watermark(12)), (0, End)],
            "0:1@10 w12 end",
        ),
    ]
}

#[test]
fn watermarks_of_channels_come_to_one() {
    for (case, starts, messages, expected) in watermark_cases() {
        let (steps, _) = steps(&starts, messages);
        assert_eq!(steps.join(" "), expected, "{case}");
    }
}

#[test]
fn a_watermark_that_goes_back_is_counted() {
    use Message::Watermark;
    let messages = vec![(0, Watermark(5)), (0, Watermark(4)), (0, Watermark(5)), (0, Watermark(6))];
    let (_, alignment) = steps(&[start(0)], messages);
    assert_eq!((alignment.regressions(), alignment.watermark()), (1, 6));
}

#[test]
fn a_run_goes_on_at_its_watermark_though_a_channel_that_was_idle_is_behind_it() {
    let behind = Start { watermark: 3, ..start(1) };
    let ahead = Start { watermark: 9, ..start(0) };
    let mut alignment = Alignment::new(&[ahead, behind], 9);
    let mut step = |channel, message| shown(alignment.accept(channel, message).expect("open"));
    assert_eq!(step(1, row(1)), "1:1@9");
    assert_eq!(step(1, Message::Watermark(5)), "-");
    assert_eq!(step(0, Message::Watermark(12)), "-");
    assert_eq!(step(1, Message::Watermark(10)), "w10");
}

#[test]
fn a_barrier_out_of_order_and_a_channel_that_is_blocked_are_refused() {
    let mut alignment = Alignment::new(&[start(0), start(0)], i64::MIN);
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
        let mut alignment = Alignment::new(&starts, i64::MIN);
        // The model: the highest watermark of each channel, and which of them count.
        let mut highest = vec![i64::MIN; channels.len()];
        let mut silent = BTreeSet::new();
        let (mut combined, mut all_idle) = (i64::MIN, false);
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
                    all_idle = false;
                    seen[port as usize].push(row_number(&row));
                }
                Some(Arrival::Watermark(watermark)) => {
                    prop_assert_eq!(Some(watermark), lowest.map(|it| it.max(combined)));
                    prop_assert!(watermark > combined || all_idle, "it is told once");
                    (combined, all_idle) = (watermark, false);
                }
                Some(Arrival::Idle(watermark)) => {
                    prop_assert_eq!(lowest, None);
                    let highest = highest.iter().copied().max();
                    prop_assert_eq!(Some(watermark), highest.map(|it| it.max(combined)));
                    (combined, all_idle) = (watermark, true);
                }
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
                prop_assert_eq!(lowest.is_none(), all_idle, "so was that all are idle");
            }
        }
        prop_assert!(ended);
        prop_assert_eq!(usize::try_from(part).expect("small"), channels[0].len());
        prop_assert_eq!(alignment.watermark, combined);
    }
}
