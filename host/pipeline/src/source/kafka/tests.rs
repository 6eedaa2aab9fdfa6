//! Against brokers in this process, which librdkafka has for tests.

use super::*;
use crate::config::PipelineConfig;
use crate::source::Wanted;
use crate::source::conformance::{Row, check, check_shares, rest};
use crate::{ErrorKind, clock};
use howdah_state::Column;
use rdkafka::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer};

const TOPIC: &str = "rows";

/// Brokers, and the topic in them; and the directory of a pipeline file.
struct Brokers(MockCluster<'static, DefaultProducerContext>, tempfile::TempDir);

impl Brokers {
    fn new(partitions: i32) -> Self {
        let cluster = MockCluster::new(1).expect("brokers");
        cluster.create_topic(TOPIC, partitions, 1).expect("a topic");
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("o.wasm"), "").expect("written");
        Self(cluster, directory)
    }

    fn send(&self, partition: i32, messages: &[(Option<&str>, &str)]) {
        let mut client = ClientConfig::new();
        client.set("bootstrap.servers", self.0.bootstrap_servers());
        let producer: BaseProducer = client.create().expect("a producer");
        for (key, value) in messages {
            let mut record = BaseRecord::to(TOPIC).partition(partition).payload(*value);
            if let Some(key) = key {
                record = record.key(*key);
            }
            producer.send(record.timestamp(7_000)).expect("queued");
        }
        producer.flush(REQUEST_TIMEOUT).expect("sent");
    }

    fn config(&self, source: &str) -> PipelineConfig {
        let text = format!(
            "name = \"q\"\n[source]\nconnector = \"kafka\"\nbrokers = \"{}\"\ntopic = \
             \"{TOPIC}\"\n{source}\n[operator]\nname = \"o\"\ncomponent = \"o.wasm\"\n[sink]\ntype \
             = \"null\"\n",
            self.0.bootstrap_servers()
        );
        PipelineConfig::parse(&self.1.path().join("q.toml"), &text).expect("a configuration")
    }

    fn open(
        &self,
        source: &str,
        fields: &[Column],
        position: Option<&SourcePosition>,
    ) -> Result<Box<dyn Source>> {
        Ok(Box::new(self.open_topic(source, fields, position)?))
    }

    fn open_topic(
        &self,
        source: &str,
        fields: &[Column],
        position: Option<&SourcePosition>,
    ) -> Result<KafkaSource> {
        self.open_share(source, fields, Share::WHOLE, position)
    }

    fn open_share(
        &self,
        source: &str,
        fields: &[Column],
        share: Share,
        position: Option<&SourcePosition>,
    ) -> Result<KafkaSource> {
        let config = self.config(source);
        let source = &config.sources[0];
        let shape = crate::source::inspect(source, &config.directories)?;
        let wanted = |field: &Column| Wanted {
            field: field.clone(),
            column: field.name.clone(),
            line: None,
            node_line: 1,
        };
        let wanted: Vec<Wanted> = fields.iter().map(wanted).collect();
        let plan = Plan::resolve(&config.file, source, &wanted, &shape)?;
        let topic = source.topic.as_ref().expect("a topic");
        KafkaSource::open(source, topic, &Arc::new(plan), share, position)
    }
}

fn fields() -> Vec<Column> {
    vec![
        Column::required("id", ColumnType::Int64),
        Column::nullable("name", ColumnType::Utf8),
        Column::required("at", ColumnType::TimestampMillis),
    ]
}

fn json(id: i64) -> String {
    format!("{{\"id\":{id},\"other\":[1],\"at\":{}}}", 1_000 + id)
}

fn send_ids(brokers: &Brokers, partition: i32, ids: std::ops::Range<i64>) {
    let messages: Vec<String> = ids.map(json).collect();
    let messages: Vec<_> = messages.iter().map(|message| (None, message.as_str())).collect();
    brokers.send(partition, &messages);
}

/// Rows until so many are there.
fn read(source: &mut dyn Source, count: usize) -> Vec<Row> {
    let until = clock::now() + REQUEST_TIMEOUT;
    let mut rows = Vec::new();
    while rows.len() < count && clock::now() < until {
        rows.extend(rest(source, 3));
    }
    assert_eq!(rows.len(), count, "{rows:?}");
    rows
}

/// Asks until the source is at its end.
fn end(source: &mut dyn Source) {
    let until = clock::now() + REQUEST_TIMEOUT;
    while clock::now() < until {
        match source.next(10).expect("read") {
            Next::End => return,
            Next::Idle(_) => std::thread::yield_now(),
            Next::Batch(batch) => assert_eq!(batch.rows.num_rows(), 0, "nothing is left"),
        }
    }
    panic!("it comes to no end");
}

/// Waits for messages where the source has none now.
struct Patient(Box<dyn Source>);

impl Source for Patient {
    fn next(&mut self, rows_limit: usize) -> Result<Next> {
        let until = clock::now() + REQUEST_TIMEOUT;
        loop {
            match self.0.next(rows_limit)? {
                Next::Idle(_) if clock::now() < until => std::thread::yield_now(),
                next => return Ok(next),
            }
        }
    }

    fn progress(&self) -> Progress {
        self.0.progress()
    }

    fn position(&self) -> Result<SourcePosition> {
        self.0.position()
    }
}

#[test]
fn a_topic_keeps_the_contract() {
    let brokers = Brokers::new(1);
    send_ids(&brokers, 0, 0..12);
    let open = |position: Option<&SourcePosition>| -> Result<Box<dyn Source>> {
        let source = brokers.open("bounded = true\nevent-time = \"at\"", &fields(), position)?;
        Ok(Box::new(Patient(source)))
    };
    let all = check(&open);
    assert_eq!((all.len(), all[3].1), (12, 1_003));
}

#[test]
fn any_number_of_subtasks_reads_each_partition_once() {
    let brokers = Brokers::new(7);
    for partition in 0..7 {
        let first = i64::from(partition) * 10;
        send_ids(&brokers, partition, first..first + 4);
    }
    let settings = "bounded = true\nevent-time = \"at\"";
    let open = |share: Share, position: Option<&SourcePosition>| -> Result<Box<dyn Source>> {
        let source = brokers.open_share(settings, &fields(), share, position)?;
        Ok(Box::new(Patient(Box::new(source))))
    };
    let all = rest(&mut *open(Share::WHOLE, None).expect("opened"), 1_000);
    assert_eq!(all.len(), 28);
    check_shares(&open, &all);
}

#[test]
fn a_subtask_whose_partitions_never_had_a_row_is_not_waited_for() {
    let brokers = Brokers::new(4);
    send_ids(&brokers, 0, 0..3);
    let open = |subtask| {
        let share = Share { subtask, of: 2 };
        brokers.open_share("event-time = \"at\"", &fields(), share, None).expect("opened")
    };
    let (mut rows, mut nothing) = (open(0), open(1));
    read(&mut rows, 3);
    assert!(!rows.has_had_nothing());
    let until = clock::now() + REQUEST_TIMEOUT;
    while !nothing.has_had_nothing() && clock::now() < until {
        assert!(rest(&mut nothing, 3).is_empty());
    }
    assert!(nothing.has_had_nothing());
}

#[test]
fn more_subtasks_than_partitions_are_refused() {
    let brokers = Brokers::new(2);
    let share = Share { subtask: 2, of: 3 };
    let error = brokers.open_share("", &fields(), share, None).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Config);
    let message = error.to_string();
    for words in ["2 partitions", "3 subtasks of source `source`", "`parallelism`", "to 2 or less"]
    {
        assert!(message.contains(words), "`{words}` is not in: {message}");
    }
}

#[test]
fn a_bounded_source_ends_with_what_was_there_also_after_a_restart() {
    let brokers = Brokers::new(2);
    send_ids(&brokers, 0, 0..5);
    send_ids(&brokers, 1, 5..8);
    let mut source = brokers.open("bounded = true", &fields(), None).expect("opened");
    let position = source.position().expect("a position");
    send_ids(&brokers, 0, 20..30);
    read(&mut *source, 8);
    end(&mut *source);
    let mut again = brokers.open("bounded = true", &fields(), Some(&position)).expect("opened");
    read(&mut *again, 8);
    end(&mut *again);
}

#[test]
fn a_run_without_a_checkpoint_may_begin_at_the_end() {
    let brokers = Brokers::new(1);
    send_ids(&brokers, 0, 0..5);
    let mut source = brokers.open("start = \"latest\"", &fields(), None).expect("opened");
    send_ids(&brokers, 0, 5..8);
    let rows = read(&mut *source, 3);
    assert!(rows[0].0.contains("\"id\":5"), "{rows:?}");
}

/// Asks for rows until the source's limit of event times is this.
fn wait_for_limit(source: &mut dyn Source, limit: Option<i64>) {
    let until = clock::now() + REQUEST_TIMEOUT;
    while source.event_time_limit() != limit {
        assert!(clock::now() < until, "the limit is {:?}", source.event_time_limit());
        rest(source, 10);
    }
}

#[test]
fn the_partition_that_is_behind_holds_the_watermark_back_at_its_end_too() {
    let brokers = Brokers::new(3);
    send_ids(&brokers, 0, 0..40);
    send_ids(&brokers, 1, 0..4);
    let mut source = brokers.open("event-time = \"at\"", &fields(), None).expect("opened");
    assert_eq!(source.event_time_limit(), Some(i64::MIN), "nothing is known of any");
    read(&mut *source, 44);
    // The third has never had a row, and none is there.
    wait_for_limit(&mut *source, Some(1_003));
    send_ids(&brokers, 0, 40..50);
    read(&mut *source, 10);
    assert_eq!(source.event_time_limit(), Some(1_003), "the second is at its end, and behind");
    send_ids(&brokers, 1, 4..30);
    read(&mut *source, 26);
    assert_eq!(source.event_time_limit(), Some(1_029));
    // It is behind after a restart, too.
    let position = source.position().expect("a position");
    let source = brokers.open("event-time = \"at\"", &fields(), Some(&position));
    wait_for_limit(&mut *source.expect("opened"), Some(1_029));
}

#[test]
fn a_partition_without_rows_for_long_holds_nothing_back() {
    let brokers = Brokers::new(2);
    send_ids(&brokers, 0, 0..40);
    send_ids(&brokers, 1, 0..4);
    let source = "event-time = \"at\"\nidle-after-ms = 1";
    let mut source = brokers.open(source, &fields(), None).expect("opened");
    read(&mut *source, 44);
    wait_for_limit(&mut *source, None);
}

#[test]
fn a_partition_of_filtered_rows_is_as_far_as_these() {
    let brokers = Brokers::new(2);
    send_ids(&brokers, 0, 7..8);
    send_ids(&brokers, 1, 20..30);
    let source = "event-time = \"at\"\n[source.filter]\nid = 7";
    let mut source = brokers.open(source, &fields(), None).expect("opened");
    wait_for_limit(&mut *source, Some(1_007));
    send_ids(&brokers, 0, 70..80);
    wait_for_limit(&mut *source, Some(1_029));
}

#[test]
fn partitions_take_turns() {
    let brokers = Brokers::new(2);
    send_ids(&brokers, 0, 0..600);
    send_ids(&brokers, 1, 1_000..1_010);
    let mut source = brokers.open("", &fields(), None).expect("opened");
    let mut rows = Vec::new();
    while !rows.iter().any(|row: &Row| row.0.contains("\"id\":1000,")) {
        match source.next(3).expect("read") {
            Next::Batch(batch) => rows.extend(crate::source::conformance::rows_of(&batch)),
            Next::Idle(_) => std::thread::yield_now(),
            Next::End => panic!("an end"),
        }
    }
    assert!(rows.len() < 600, "the first partition was read to its end before");
}

#[test]
fn an_error_behind_messages_is_told_after_them() {
    let brokers = Brokers::new(1);
    send_ids(&brokers, 0, 0..5);
    let mut source = brokers.open("", &fields(), None).expect("opened");
    read(&mut *source, 5);
    send_ids(&brokers, 0, 5..6);
    // The client tells of it once.
    let refused = rdkafka::types::RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    brokers.0.request_errors(rdkafka::types::RDKafkaApiKey::Fetch, &[refused]);
    // It takes its time, and messages are there by then.
    (6..30).for_each(|id| send_ids(&brokers, 0, id..id + 1));
    let until = clock::now() + REQUEST_TIMEOUT;
    let error = loop {
        assert!(clock::now() < until, "no error");
        if let Err(error) = source.next(10) {
            break error;
        }
    };
    assert!(error.to_string().contains("let this user do so"), "{error}");
}

#[test]
fn all_partitions_together_hold_as_much_as_one_would() {
    let brokers = Brokers::new(1);
    let config = brokers.config("");
    let topic = config.sources[0].topic.as_ref().expect("a topic");
    let prefetch = |partitions| {
        settings(topic, partitions).get("queued.max.messages.kbytes").map(str::to_owned)
    };
    assert_eq!(prefetch(1).as_deref(), Some("65536"));
    assert_eq!(prefetch(16).as_deref(), Some("4096"));
    assert_eq!(prefetch(1_000).as_deref(), Some("1024"));
    let config = brokers.config("[source.properties]\n\"queued.max.messages.kbytes\" = 7");
    let topic = config.sources[0].topic.as_ref().expect("a topic");
    assert_eq!(settings(topic, 16).get("queued.max.messages.kbytes"), Some("7"));
}

#[test]
fn a_source_that_was_bounded_goes_on_where_it_no_longer_is() {
    let brokers = Brokers::new(1);
    send_ids(&brokers, 0, 0..5);
    let mut source = brokers.open("bounded = true", &fields(), None).expect("opened");
    read(&mut *source, 5);
    end(&mut *source);
    let position = source.position().expect("a position");
    send_ids(&brokers, 0, 5..8);
    let mut source = brokers.open("", &fields(), Some(&position)).expect("opened");
    read(&mut *source, 3);
}

#[test]
fn csv_messages_have_the_fields_of_the_stated_schema() {
    let brokers = Brokers::new(1);
    brokers.send(0, &[(None, "1004,\"a,b\",4"), (None, "1005,,5\n"), (None, "1006,6")]);
    let source = "format = \"csv\"\non-error = \"skip\"\n[source.schema]\nat = \
                  \"timestamp-millis\"\nname = \"utf8\"\nid = \"int64\"";
    let mut source = brokers.open(source, &fields(), None).expect("opened");
    let rows = read(&mut *source, 2);
    assert!(rows[0].0.contains("\"name\":\"a,b\""), "{rows:?}");
    assert!(rows[1].0.contains("\"id\":5"), "{rows:?}");
}

#[test]
fn a_message_has_its_key_and_place_as_columns() {
    let brokers = Brokers::new(1);
    brokers.send(0, &[(Some("k"), "v"), (None, "w")]);
    let fields = [
        Column::required("value", ColumnType::Utf8),
        Column::nullable("kafka.key", ColumnType::Utf8),
        Column::required("kafka.offset", ColumnType::Int64),
    ];
    let source = "format = \"raw\"\nevent-time = \"kafka.timestamp\"";
    let mut source = brokers.open(source, &fields, None).expect("opened");
    let rows = read(&mut *source, 2);
    assert_eq!(rows[0].0, "{\"value\":\"v\",\"kafka.key\":\"k\",\"kafka.offset\":0}\n");
    assert_eq!(rows[1].0, "{\"value\":\"w\",\"kafka.offset\":1}\n");
    assert_eq!(rows[1].1, 7_000);
}

#[test]
fn a_malformed_message_is_named_by_partition_and_offset() {
    let brokers = Brokers::new(1);
    brokers.send(0, &[(None, &json(1)), (None, "{\"id\":\"x\"}")]);
    let mut source = brokers.open("", &fields(), None).expect("opened");
    let until = clock::now() + REQUEST_TIMEOUT;
    let error = loop {
        assert!(clock::now() < until, "no error");
        if let Err(error) = source.next(10) {
            break error;
        }
    };
    assert!(error.to_string().contains("topic rows, partition 0:1:"), "{error}");
}

#[test]
fn an_outage_of_the_brokers_is_waited_for() {
    let brokers = Brokers::new(1);
    send_ids(&brokers, 0, 0..5);
    let mut source = brokers.open_topic("", &fields(), None).expect("opened");
    read(&mut source, 5);
    brokers.0.broker_down(1).expect("down");
    let until = clock::now() + REQUEST_TIMEOUT;
    while !source.cut_off {
        assert!(clock::now() < until, "the outage is not noticed");
        assert!(rest(&mut source, 10).is_empty());
    }
    brokers.0.broker_up(1).expect("up");
    send_ids(&brokers, 0, 5..7);
    read(&mut source, 2);
    assert!(!source.cut_off);
}

#[test]
fn a_topic_that_is_not_there_is_refused() {
    let brokers = Brokers::new(1);
    brokers
        .0
        .topic_error(
            "rows",
            rdkafka::types::RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,
        )
        .expect("an error");
    let error = brokers.open("", &fields(), None).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::External);
    assert!(error.to_string().contains("create the topic"), "{error}");
}

fn stored(next: &[(i32, i64)]) -> Stored {
    Stored { topic: TOPIC.to_owned(), next: next.iter().copied().collect(), ..Stored::default() }
}

/// What a position leads to in a topic with two partitions, of the offsets 10 to 20.
fn starts_of(stored: &Stored) -> Result<BTreeMap<i32, i64>> {
    let topic = TopicConfig {
        kafka: crate::config::KafkaConfig {
            brokers: Located { value: "localhost:1".into(), line: 1 },
            topic: Located { value: TOPIC.into(), line: 1 },
            properties: Vec::new(),
        },
        format: KafkaFormat::Json,
        start: KafkaStart::Earliest,
        bounded: false,
    };
    let range = Range { low: 10, high: 20 };
    check_stored(&topic, &[0, 1], Some(stored))?;
    starts(&topic, &[(0, range), (1, range)].into_iter().collect(), Some(stored))
}

#[test]
fn a_partition_that_was_added_is_read_from_its_beginning() {
    let starts = starts_of(&stored(&[(0, 15)])).expect("starts");
    assert_eq!(starts.into_iter().collect::<Vec<_>>(), [(0, 15), (1, 10)]);
}

#[test]
fn messages_that_were_deleted_unread_are_missed() {
    let error = starts_of(&stored(&[(0, 9), (1, 10)])).expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Incompatible);
    assert!(error.to_string().contains("partition 0 begins at offset 10"), "{error}");
}

#[test]
fn a_topic_that_was_made_anew_is_refused() {
    let error = starts_of(&stored(&[(0, 15), (1, 21)])).expect_err("refused");
    assert!(error.to_string().contains("is another one than at the checkpoint"), "{error}");
    let error = starts_of(&stored(&[(0, 15), (2, 0)])).expect_err("refused");
    assert!(error.to_string().contains("has no partition 2 any more"), "{error}");
}

#[test]
fn the_position_of_another_topic_is_refused() {
    let other = Stored { topic: "others".to_owned(), ..stored(&[(0, 15)]) };
    let error = starts_of(&other).expect_err("refused");
    assert!(error.to_string().contains("`others`"), "{error}");
}
