//! Pipelines with several sources, operators and sinks.

use crate::common::{Bench, Bid, bids, csv, last_bids, wait_for_checkpoint};
use howdah_operator_artifacts::{
    AUCTION_STATS, AUCTION_WINNERS, BIDDER_SESSIONS, DISTINCT_BIDDERS, LAST_BID,
};
use howdah_pipeline::StartOptions;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The last bids go on to the figures of their auctions; both are kept, and bids on their own are
/// counted too.
fn figures(rate_limit: u64) -> String {
    format!(
        "name = \"figures\"\nstate-directory = \"state\"\nparallelism = 2\n\
         [checkpoint]\ninterval-ms = 20\nsync = false\n\
         [source.bids]\npath = \"events.csv\"\nevent-time = \"date_time\"\n\
         filter = {{ event_type = 2 }}\nrate-limit-rows-per-second = {rate_limit}\n\
         [operator.stats]\ncomponent = \"{AUCTION_STATS}\"\ninput = \"last-bid\"\n\
         parallelism = 3\n\
         [operator.last-bid]\ncomponent = \"{LAST_BID}\"\ninput = \"bids\"\n\
         [operator.all]\ncomponent = \"{AUCTION_STATS}\"\ninput = \"bids\"\nparallelism = 1\n\
         [sink.last]\ntype = \"files\"\npath = \"out\"\ninput = \"last-bid\"\n\
         [sink.stats]\ntype = \"files\"\npath = \"stats\"\ninput = \"stats\"\n\
         [sink.all]\ntype = \"files\"\npath = \"all\"\ninput = \"all\"\n"
    )
}

/// For each auction the figures after all bids: count, least, greatest, sum.
fn totals(bids: &[Bid]) -> BTreeMap<i64, [i64; 4]> {
    let mut totals = BTreeMap::new();
    for bid in bids {
        let [count, least, most, sum] = totals.entry(bid.auction).or_insert([0, i64::MAX, 0, 0]);
        *count += 1;
        *least = bid.price.min(*least);
        *most = bid.price.max(*most);
        *sum += bid.price;
    }
    totals
}

/// The figures with the highest count of each auction in the files of a sink, and how many rows
/// there are.
fn emitted_totals(bench: &Bench, directory: &str) -> (BTreeMap<i64, [i64; 4]>, usize) {
    let rows = bench.numbers(directory);
    let count = rows.len();
    let mut totals = BTreeMap::new();
    for row in rows {
        let figures: [i64; 4] = row[1..].try_into().expect("four figures");
        let best = totals.entry(row[0]).or_insert(figures);
        if figures[0] > best[0] {
            *best = figures;
        }
    }
    (totals, count)
}

fn check_figures(bench: &Bench, bids: &[Bid]) {
    let last = last_bids(bids);
    assert_eq!(bench.output(), last);
    assert_eq!(emitted_totals(bench, "stats"), (totals(&last), last.len()));
    assert_eq!(emitted_totals(bench, "all"), (totals(bids), bids.len()));
}

#[test]
fn rows_go_through_two_operators_and_to_all_who_take_them() {
    let (bench, bids) = (Bench::new(), bids(20_000));
    bench.write("events.csv", csv(&bids));
    let summary = bench.prepare_file(&figures(0)).expect("a pipeline");
    let summary =
        summary.start(StartOptions::default()).expect("started").wait().expect("a summary");
    assert!(summary.finished);
    assert_eq!(summary.rows_in, 20_000);
    check_figures(&bench, &bids);
    let tables: Vec<&str> = summary.states.iter().map(|state| state.table.as_str()).collect();
    let expected = ["figures__last-bid__last", "figures__stats__stats", "figures__all__stats"];
    assert_eq!(tables, expected);
}

#[test]
fn a_graph_goes_on_from_its_last_checkpoint_with_the_same_result() {
    let (bench, bids) = (Bench::new(), bids(6_000));
    bench.write("events.csv", csv(&bids));
    for _ in 0..4 {
        let pipeline = bench.prepare_file(&figures(10_000)).expect("a pipeline");
        let handle = pipeline.start(StartOptions::default()).expect("started");
        wait_for_checkpoint(&handle);
        drop(handle);
    }
    let pipeline = bench.prepare_file(&figures(0)).expect("a pipeline");
    let summary =
        pipeline.start(StartOptions::default()).expect("started").wait().expect("a summary");
    assert!(summary.restored_from.is_some());
    assert!(summary.rows_in < 6_000, "it went on");
    check_figures(&bench, &bids);
}

#[test]
fn an_operator_that_goes_is_refused_with_its_name() {
    let (bench, bids) = (Bench::new(), bids(100));
    bench.write("events.csv", csv(&bids));
    let run = |text: &str| bench.prepare_file(text)?.start(StartOptions::default())?.wait();
    run(&figures(0)).expect("a summary");
    let changed = figures(0).replace("[operator.all]", "[operator.every]");
    let error = run(&changed.replace("input = \"all\"", "input = \"every\"")).expect_err("changed");
    let message = error.to_string();
    for expected in ["operator `all` is gone", "operator `every` is new", "sink `all`'s input"] {
        assert!(message.contains(expected), "{message}");
    }
}

/// Auctions and bids, each in a source of its own, come together.
fn winners(rate_limit: u64) -> String {
    format!(
        "name = \"winners\"\nstate-directory = \"state\"\nparallelism = 2\n\
         [checkpoint]\ninterval-ms = 20\nsync = false\n\
         [source.auctions]\npath = \"auctions.csv\"\nevent-time = \"opens\"\n\
         rate-limit-rows-per-second = {rate_limit}\n\
         [source.bids]\npath = \"bids.csv\"\nevent-time = \"date_time\"\n\
         rate-limit-rows-per-second = {}\n\
         [operator.winners]\ncomponent = \"{AUCTION_WINNERS}\"\n\
         [operator.winners.inputs]\n\
         auctions = {{ from = \"auctions\", key = [\"auction\"] }}\nbids = \"bids\"\n\
         [operator.stats]\ncomponent = \"{AUCTION_STATS}\"\ninput = \"winners\"\n\
         key = [\"seller\"]\n\
         [sink.winners]\ntype = \"files\"\npath = \"out\"\ninput = \"winners\"\n\
         [sink.sellers]\ntype = \"files\"\npath = \"sellers\"\ninput = \"stats\"\n",
        rate_limit * 20
    )
}

const AUCTIONS: i64 = 300;
const BIDS: i64 = 6_000;

fn expires(auction: i64) -> i64 {
    auction * 20 + 500 + auction % 7 * 100
}

/// The auction that a bid is for, its bidder and price; one in three bids comes too late.
fn bid(time: i64) -> (i64, i64, i64) {
    let auction = (time / 20 - time * 7 % 40).clamp(0, AUCTIONS - 1);
    (auction, time % 31, time * 13 % 97)
}

pub(crate) fn write_winners(bench: &Bench) {
    let mut auctions = "auction,seller,expires,opens\n".to_owned();
    for auction in 0..AUCTIONS {
        let (expires, opens) = (expires(auction), auction * 20);
        writeln!(auctions, "{auction},{},{expires},{opens}", auction % 5).expect("text");
    }
    bench.write("auctions.csv", auctions);
    let mut bids = "auction,bidder,price,date_time\n".to_owned();
    for time in 0..BIDS {
        let (auction, bidder, price) = bid(time);
        writeln!(bids, "{auction},{bidder},{price},{time}").expect("text");
    }
    bench.write("bids.csv", bids);
}

/// For each auction that has bids in time the best price, and who bid it.
fn winning_bids() -> BTreeMap<i64, (i64, i64)> {
    let mut best: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for time in 0..BIDS {
        let (auction, bidder, price) = bid(time);
        let known = best.get(&auction);
        if time < expires(auction) && known.is_none_or(|(known, _)| price > *known) {
            best.insert(auction, (price, bidder));
        }
    }
    best
}

/// Checks what a sink has of the winning bids.
pub(crate) fn check_winning_bids(bench: &Bench, directory: &str) -> Vec<Vec<i64>> {
    let best = winning_bids();
    let row = |(auction, (price, bidder)): (&i64, &(i64, i64))| {
        vec![*auction, auction % 5, *bidder, *price]
    };
    let expected: Vec<Vec<i64>> = best.iter().map(row).collect();
    assert_eq!(bench.numbers(directory), expected);
    expected
}

fn check_winners(bench: &Bench) {
    let expected = check_winning_bids(bench, "out");
    let mut sellers = BTreeMap::new();
    for row in &expected {
        let [count, least, most, sum] = sellers.entry(row[1]).or_insert([0, i64::MAX, 0, 0]);
        (*count, *sum) = (*count + 1, *sum + row[3]);
        (*least, *most) = (row[3].min(*least), row[3].max(*most));
    }
    assert_eq!(emitted_totals(bench, "sellers").0, sellers);
}

#[test]
fn two_sources_come_together_in_one_operator() {
    let bench = Bench::new();
    write_winners(&bench);
    let pipeline = bench.prepare_file(&winners(0)).expect("a pipeline");
    let summary =
        pipeline.start(StartOptions::default()).expect("started").wait().expect("a summary");
    assert_eq!(summary.rows_in, 6_300);
    check_winners(&bench);
    // Nothing is new, so nothing fires again.
    let pipeline = bench.prepare_file(&winners(0)).expect("a pipeline");
    let summary =
        pipeline.start(StartOptions::default()).expect("started").wait().expect("a summary");
    assert_eq!((summary.rows_in, summary.rows_out), (0, 0));
    check_winners(&bench);
}

#[test]
fn a_source_that_is_idle_does_not_hold_back_the_other() {
    let bench = Bench::new();
    write_winners(&bench);
    let mut text = winners(0);
    for (name, more) in [("auctions", "idle-after-ms = 1\n"), ("bids", "")] {
        std::fs::create_dir(bench.path(name)).expect("made");
        let file = format!("{name}.csv");
        std::fs::rename(bench.path(&file), bench.path(name).join(&file)).expect("moved");
        let followed = format!("\"{name}/*.csv\"\nfollow = true\n{more}");
        text = text.replace(&format!("\"{file}\"\n"), &followed);
    }
    // Both may go on for ever. That all auctions are over is known from this bid alone.
    bench.write("bids/late.csv", "auction,bidder,price,date_time\n0,0,0,100000\n");
    let handle = bench.prepare_file(&text).expect("a pipeline");
    let handle = handle.start(StartOptions::default()).expect("started");
    while bench.numbers("out").len() < winning_bids().len() {
        wait_for_checkpoint(&handle);
    }
    handle.stop();
    handle.wait().expect("stopped");
    check_winners(&bench);
}

#[test]
fn a_join_goes_on_from_its_last_checkpoint_with_the_same_result() {
    let bench = Bench::new();
    write_winners(&bench);
    for _ in 0..4 {
        let pipeline = bench.prepare_file(&winners(400)).expect("a pipeline");
        let handle = pipeline.start(StartOptions::default()).expect("started");
        wait_for_checkpoint(&handle);
        drop(handle);
    }
    let pipeline = bench.prepare_file(&winners(0)).expect("a pipeline");
    pipeline.start(StartOptions::default()).expect("started").wait().expect("a summary");
    check_winners(&bench);
}

#[test]
fn rows_that_are_appended_to_one_source_join_those_of_the_other() {
    let bench = Bench::new();
    write_winners(&bench);
    let all = std::fs::read_to_string(bench.path("bids.csv")).expect("bids");
    let half = all.lines().take(3_001).map(|line| format!("{line}\n")).collect::<String>();
    bench.write("bids.csv", half);
    // Stopped, not ended: no time has come that the other half is before.
    let handle = bench.prepare_file(&winners(20)).expect("a pipeline");
    let handle = handle.start(StartOptions::default()).expect("started");
    wait_for_checkpoint(&handle);
    handle.stop();
    handle.wait().expect("stopped");
    bench.write("bids.csv", all);
    let pipeline = bench.prepare_file(&winners(0)).expect("a pipeline");
    pipeline.start(StartOptions::default()).expect("started").wait().expect("a summary");
    check_winners(&bench);
}

#[test]
fn everything_that_is_wrong_with_a_graph_is_told_at_once() {
    let bench = Bench::new();
    write_winners(&bench);
    let text = winners(0)
        .replace("interval-ms", "interval")
        .replace("input = \"winners\"\nkey", "input = \"winers\"\nkey")
        .replace("auctions = { from = \"auctions\", key = [\"auction\"] }\n", "");
    let error = bench.prepare_file(&text).expect_err("refused").to_string();
    for expected in [
        "there is no source or operator `winers`; did you mean `winners`?",
        "`interval` in [checkpoint]",
    ] {
        assert!(error.contains(expected), "{error}");
    }

    let text = winners(0)
        .replace("bids = \"bids\"", "bidz = \"bids\"")
        .replace("key = [\"seller\"]", "key = [\"seler\"]");
    let error = bench.prepare_file(&text).expect_err("refused").to_string();
    for expected in [
        "operator `winners` has no input `bidz`; did you mean `bids`?",
        "the output of operator `winners` has no column `seler`; did you mean `seller`?",
    ] {
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn rows_go_from_a_source_to_a_sink_as_they_are() {
    let (bench, bids) = (Bench::new(), bids(3_000));
    let mut text = "auction,bidder,price,date_time,seq\n".to_owned();
    for bid in &bids {
        let Bid { auction, bidder, price, date_time, seq } = bid;
        writeln!(text, "{auction},{bidder},{price},{date_time},{seq}").expect("text");
    }
    bench.write("events.csv", text);
    let text = "name = \"copy\"\n[source]\npath = \"events.csv\"\nfilter = { price = 7 }\n\
                schema = { date_time = \"timestamp-millis\" }\n\
                [sink]\ntype = \"files\"\npath = \"out\"\n";
    let pipeline = bench.prepare_file(text).expect("a pipeline");
    let summary = pipeline.start(StartOptions::default()).expect("started").wait();
    let expected: Vec<Bid> = bids.into_iter().filter(|bid| bid.price == 7).collect();
    assert_eq!(summary.expect("a summary").rows_out, expected.len() as u64);
    let mut output = bench.output();
    output.sort_unstable_by_key(|bid| bid.seq);
    assert_eq!(output, expected);
}

#[test]
fn checkpoints_that_are_late_and_rows_that_wait_change_no_result() {
    let (bench, bids) = (Bench::new(), bids(6_000));
    bench.write("events.csv", csv(&bids));
    let late = |rate_limit| {
        let checkpoint = "timeout-ms = 1\ntolerated-failures = 1000\nleast-pause-ms = 1\n";
        let batch = "[operator.stats.batch]\nrows = 100\nwait-ms = 5\n";
        let figures =
            figures(rate_limit).replace("sync = false\n", &format!("sync = false\n{checkpoint}"));
        format!("{figures}{batch}")
    };
    let pipeline = bench.prepare_file(&late(10_000)).expect("a pipeline");
    let handle = pipeline.start(StartOptions::default()).expect("started");
    while handle.progress().rows_out == 0 {
        std::thread::yield_now();
    }
    drop(handle);
    let pipeline = bench.prepare_file(&late(0)).expect("a pipeline");
    pipeline.start(StartOptions::default()).expect("started").wait().expect("a summary");
    check_figures(&bench, &bids);
}

/// Sessions go to a sink; bids that are too late for one are counted.
fn sessions() -> String {
    format!(
        "name = \"sessions\"\nstate-directory = \"state\"\nparallelism = 2\n\
         [checkpoint]\ninterval-ms = 20\nsync = false\n\
         [source]\npath = \"bids.csv\"\nevent-time = \"date_time\"\n\
         [operator.sessions]\ncomponent = \"{BIDDER_SESSIONS}\"\ninput = \"source\"\n\
         config = {{ gap-ms = 10 }}\n\
         [operator.late]\ncomponent = \"{AUCTION_STATS}\"\ninput = \"sessions.late\"\n\
         columns = {{ auction = \"bidder\" }}\n\
         [sink.sessions]\ntype = \"files\"\npath = \"out\"\ninput = \"sessions.sessions\"\n\
         [sink.late]\ntype = \"files\"\npath = \"late\"\ninput = \"late\"\n"
    )
}

#[test]
fn each_output_of_an_operator_goes_its_own_way() {
    let bench = Bench::new();
    let mut text = "bidder,price,date_time\n".to_owned();
    for seq in 0..40_000 {
        let time = if seq % 10 == 9 { seq - 9_000 } else { seq };
        writeln!(text, "{},{},{time}", seq % 7, seq % 97).expect("text");
    }
    bench.write("bids.csv", text);
    let pipeline = bench.prepare_file(&sessions()).expect("a pipeline");
    pipeline.start(StartOptions::default()).expect("started").wait().expect("a summary");
    let mut in_sessions = 0;
    for name in bench.parts() {
        let mut reader = csv::Reader::from_path(bench.path("out").join(name)).expect("a file");
        for record in reader.records() {
            in_sessions += record.expect("a record")[3].parse::<usize>().expect("a number");
        }
    }
    let (late, rows) = emitted_totals(&bench, "late");
    assert!(rows > 0 && in_sessions > 0, "{rows} {in_sessions}");
    let counted: i64 = late.values().map(|figures| figures[0]).sum();
    assert_eq!(usize::try_from(counted).expect("a count"), rows);
    // A bid is in one session, or late.
    assert_eq!(in_sessions + rows, 40_000);
}

#[test]
fn outputs_that_do_not_fit_are_refused_with_the_way_out() {
    let bench = Bench::new();
    bench.write("bids.csv", "bidder,auction,price,date_time\n1,1,1,1\n");
    for (from, to, expected) in [
        (
            "input = \"sessions.late\"",
            "input = \"sessions\"",
            "operator `sessions` has 2 outputs; name one of them: `sessions.PORT`; there are \
             sessions and late",
        ),
        (
            "input = \"sessions.late\"",
            "input = \"source\"",
            "nothing takes the output `late` of operator `sessions`",
        ),
        (
            "input = \"sessions.late\"",
            "input = \"sessions.lat\"",
            "operator `sessions` has no output `lat`; did you mean `late`?",
        ),
        (
            "columns = { auction = \"bidder\" }\n",
            "",
            "the operator wants a column `auction`, which the output `late` of operator `sessions` \
             lacks",
        ),
        (BIDDER_SESSIONS, DISTINCT_BIDDERS, "operator `sessions` has no output `late`; it has"),
    ] {
        let text = sessions().replace(from, to);
        let error = bench.prepare_file(&text).expect_err("refused").to_string();
        assert!(error.contains(expected), "{error}");
    }
    let text = sessions()
        .replace(BIDDER_SESSIONS, DISTINCT_BIDDERS)
        .replace("sessions.late", "sessions")
        .replace("sessions.sessions", "sessions")
        .replace("{ auction = \"bidder\" }", "{ price = \"bidders\" }")
        .replace("config = { gap-ms = 10 }\n", "");
    let error = bench.prepare_file(&text).expect_err("a changelog").to_string();
    assert!(error.contains("is a changelog, whose rows may take back others"), "{error}");
}

/// Bids of two sources, one of which has its columns in another order, to one operator and to one
/// sink.
fn united(rate_limit: u64) -> String {
    let source = |name: &str| {
        format!(
            "[source.{name}]\npath = \"{name}.csv\"\nevent-time = \"date_time\"\n\
             schema = {{ date_time = \"timestamp-millis\" }}\n\
             rate-limit-rows-per-second = {rate_limit}\n"
        )
    };
    format!(
        "name = \"united\"\nstate-directory = \"state\"\nparallelism = 2\n\
         [checkpoint]\ninterval-ms = 20\nsync = false\n{}{}\
         [operator.last]\ncomponent = \"{LAST_BID}\"\ninput = \"odd\"\n\
         [operator.stats]\ncomponent = \"{AUCTION_STATS}\"\ninput = [\"even\", \"last\"]\n\
         [sink.bids]\ntype = \"files\"\npath = \"out\"\ninput = [\"last\", \"even\", \"odd\"]\n\
         [sink.stats]\ntype = \"files\"\npath = \"stats\"\ninput = \"stats\"\n",
        source("even"),
        source("odd")
    )
}

fn write_united(bench: &Bench, bids: &[Bid]) {
    let (mut even, mut odd) = (
        "auction,bidder,price,date_time,seq\n".to_owned(),
        "seq,date_time,price,bidder,auction\n".to_owned(),
    );
    for Bid { auction, bidder, price, date_time, seq } in bids {
        if seq % 2 == 0 {
            writeln!(even, "{auction},{bidder},{price},{date_time},{seq}").expect("text");
        } else {
            writeln!(odd, "{seq},{date_time},{price},{bidder},{auction}").expect("text");
        }
    }
    bench.write("even.csv", even);
    bench.write("odd.csv", odd);
}

#[test]
fn rows_of_several_origins_come_together_whatever_is_broken_off() {
    let (bench, bids) = (Bench::new(), bids(6_000));
    write_united(&bench, &bids);
    for _ in 0..3 {
        let pipeline = bench.prepare_file(&united(5_000)).expect("a pipeline");
        let handle = pipeline.start(StartOptions::default()).expect("started");
        wait_for_checkpoint(&handle);
        drop(handle);
    }
    // In whatever order they are named.
    let text = united(0).replace("[\"even\", \"last\"]", "[\"last\", \"even\"]");
    let pipeline = bench.prepare_file(&text).expect("a pipeline");
    let summary =
        pipeline.start(StartOptions::default()).expect("started").wait().expect("a summary");
    assert!(summary.restored_from.is_some());
    let (even, odd): (Vec<Bid>, Vec<Bid>) = bids.iter().partition(|bid| bid.seq % 2 == 0);
    let last = last_bids(&odd);
    let mut expected = [bids, last.clone()].concat();
    expected.sort_unstable();
    assert_eq!(bench.output(), expected);
    let counted = [even, last].concat();
    assert_eq!(emitted_totals(&bench, "stats"), (totals(&counted), counted.len()));
}

#[test]
fn origins_that_do_not_agree_are_refused_with_both_and_the_column() {
    let bench = Bench::new();
    write_united(&bench, &bids(10));
    let changed = "[source.even.schema]\nprice = \"utf8\"\n";
    let text = format!("{}{changed}", united(0))
        .replace("[\"last\", \"even\", \"odd\"]", "[\"odd\", \"even\"]")
        .replacen("schema = { date_time = \"timestamp-millis\" }\n", "", 1)
        .replace(changed, &format!("{changed}date_time = \"timestamp-millis\"\n"));
    let error = bench.prepare_file(&text).expect_err("refused").to_string();
    for expected in [
        "column `price` is int64 in source `odd` and utf8 in source `even`: rows that go to one sink \
         have the same columns",
        "even.csv is utf8, but the operator's field `price` is int64",
    ] {
        assert!(error.contains(expected), "{error}");
    }
    bench.write("odd.csv", "seq,date_time,prize,bidder,auction\n");
    let error = bench.prepare_file(&united(0)).expect_err("refused").to_string();
    assert!(error.contains("price"), "{error}");
    write_united(&bench, &bids(10));
    let twice = united(0).replace("[\"even\", \"last\"]", "[\"even\", \"even\"]");
    let error = bench.prepare_file(&twice).expect_err("refused").to_string();
    assert!(error.contains("source `even` would be taken twice"), "{error}");
}

#[test]
fn what_was_reached_while_a_source_was_idle_does_not_go_back() {
    let bench = Bench::new();
    let header = "bidder,price,date_time\n";
    for directory in ["quiet", "busy"] {
        std::fs::create_dir(bench.path(directory)).expect("made");
    }
    bench.write("quiet/a.csv", format!("{header}1,7,10\n"));
    bench.write("busy/a.csv", format!("{header}2,7,100000\n"));
    let source = |name: &str, more: &str| {
        format!(
            "[source.{name}]\npath = \"{name}\"\nformat = \"csv\"\n\
             event-time = \"date_time\"\n{more}"
        )
    };
    let text = |more: &str| {
        sessions()
            .replace("[source]\npath = \"bids.csv\"\nevent-time = \"date_time\"\n", "")
            .replace("input = \"source\"", "input = [\"quiet\", \"busy\"]")
            + &source("quiet", more)
            + &source("busy", more)
    };
    let pipeline = bench.prepare_file(&text("follow = true\nidle-after-ms = 1\n"));
    let handle = pipeline.expect("a pipeline").start(StartOptions::default()).expect("started");
    // The session of bidder 1 is over, though its own source is not that far.
    while bench.parts().is_empty() {
        wait_for_checkpoint(&handle);
    }
    handle.stop();
    handle.wait().expect("stopped");
    bench.write("quiet/b.csv", format!("{header}3,5,50\n"));
    let pipeline = bench.prepare_file(&text("")).expect("a pipeline");
    pipeline.start(StartOptions::default()).expect("started").wait().expect("a summary");
    assert_eq!(bench.numbers("late"), [[3, 1, 5, 5, 5]]);
}

/// Figures of auctions, from a source that so many subtasks read.
fn shared(source: &str, parallelism: u32, rate_limit: u64) -> String {
    format!(
        "name = \"shared\"\nstate-directory = \"state\"\nparallelism = 2\n\
         [checkpoint]\ninterval-ms = 10\nsync = false\n\
         [source]\n{source}\nevent-time = \"date_time\"\nfilter = {{ event_type = 2 }}\n\
         parallelism = {parallelism}\nrate-limit-rows-per-second = {rate_limit}\n\
         [operator]\nname = \"stats\"\ncomponent = \"{AUCTION_STATS}\"\n\
         [sink]\ntype = \"files\"\npath = \"stats\"\n"
    )
}

#[test]
fn several_subtasks_read_a_source_whatever_their_number_in_each_run() {
    let bids = bids(6_000);
    let generated = "connector = \"nexmark\"\nevents = 12_000";
    for source in [generated, "path = \"in/*.csv\""] {
        let run = |parallelisms: &[u32]| {
            let bench = Bench::new();
            std::fs::create_dir(bench.path("in")).expect("made");
            for (number, part) in bids.chunks(500).enumerate() {
                bench.write(&format!("in/part-{number}.csv"), csv(part));
            }
            let mut restored = 0;
            for (number, parallelism) in parallelisms.iter().enumerate() {
                let last = number + 1 == parallelisms.len();
                let text = shared(source, *parallelism, if last { 0 } else { 20_000 });
                let pipeline = bench.prepare_file(&text).expect("a pipeline");
                let handle = pipeline.start(StartOptions::default()).expect("started");
                if last {
                    let summary = handle.wait().expect("a summary");
                    assert!(summary.finished);
                    restored += summary.restored_from.unwrap_or(0);
                } else {
                    wait_for_checkpoint(&handle);
                }
            }
            assert_eq!(restored > 0, parallelisms.len() > 1);
            emitted_totals(&bench, "stats")
        };
        let at_once = run(&[1]);
        assert!(at_once.1 > 5_000);
        assert_eq!(run(&[3]), at_once);
        assert_eq!(run(&[3, 2, 1, 4]), at_once);
    }
}
