//! Against brokers in this process, which librdkafka has for tests. They show messages of transactions
//! that were broken off, too.

use super::*;
use crate::ErrorKind;
use crate::config::PipelineConfig;
use crate::kafka::REQUEST_TIMEOUT;
use crate::sink::conformance::{Case, Keeps, check as check_contract, output_spec, rows};
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use std::cell::Cell;
use std::time::Duration;

const TOPIC: &str = "rows";

/// Brokers, and the topic in them.
struct Brokers(MockCluster<'static, DefaultProducerContext>);

/// A pipeline file, in a directory of its own.
struct Pipeline {
    config: PipelineConfig,
    _directory: tempfile::TempDir,
}

impl Brokers {
    fn new() -> Self {
        let cluster = MockCluster::new(1).expect("brokers");
        cluster.create_topic(TOPIC, 1, 1).expect("a topic");
        Self(cluster)
    }

    fn pipeline(&self, sink: &str) -> Pipeline {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("rows.csv"), "").expect("written");
        std::fs::write(directory.path().join("o.wasm"), "").expect("written");
        let text = format!(
            "name = \"q\"\n[source]\npath = \"rows.csv\"\n[operator]\nname = \"o\"\ncomponent = \
             \"o.wasm\"\n[sink]\ntype = \"kafka\"\nbrokers = \"{}\"\ntopic = \"{TOPIC}\"\n{sink}\n",
            self.0.bootstrap_servers()
        );
        let config = PipelineConfig::parse(&directory.path().join("q.toml"), &text);
        let config = config.expect("a configuration");
        std::fs::create_dir_all(&config.state_directory).expect("made");
        Pipeline { config, _directory: directory }
    }

    /// The ids of the messages from this one on, and the offset of the end.
    fn ids(&self, from: i64) -> (Vec<i64>, i64) {
        let mut client = ClientConfig::new();
        client.set("bootstrap.servers", self.0.bootstrap_servers()).set("group.id", "test");
        let consumer: BaseConsumer = client.create().expect("a consumer");
        let (_, end) = consumer.fetch_watermarks(TOPIC, 0, REQUEST_TIMEOUT).expect("an end");
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(TOPIC, 0, Offset::Offset(from)).expect("a partition");
        consumer.assign(&list).expect("assigned");
        let until = crate::clock::now() + REQUEST_TIMEOUT;
        let mut ids = Vec::new();
        for _ in from..end {
            let message = loop {
                assert!(crate::clock::now() < until, "messages are missing");
                if let Some(message) = consumer.poll(Duration::from_millis(100)) {
                    break message.expect("a message");
                }
            };
            let row: serde_json::Value =
                serde_json::from_slice(message.payload().expect("a value")).expect("JSON");
            ids.push(row["id"].as_i64().expect("an id"));
        }
        ids.sort_unstable();
        (ids, end)
    }
}

impl Pipeline {
    fn open_kafka(&self) -> Result<Kafka> {
        let config = &self.config;
        let output = output_spec(false);
        let opening = Opening {
            tenant: &config.tenant,
            pipeline: &config.name,
            state_directory: &config.state_directory,
            sync: true,
            directories: &config.directories,
            config: &config.sinks[0],
            output: Some(&output),
        };
        Kafka::open(&opening, config.sinks[0].topic.as_ref().expect("a topic"))
    }

    fn open(&self) -> Kafka {
        self.open_kafka().expect("opened")
    }

    /// Files that are staged.
    fn staged(&self) -> usize {
        let home =
            self.config.state_directory.join(format!("{HOME}-{}", self.config.sinks[0].name));
        std::fs::read_dir(home.join(STAGING)).expect("listed").count()
    }
}

/// Stages rows with these ids.
fn prepare(sink: &Kafka, base: u64, ids: &[i64]) -> Vec<SinkHandle> {
    let mut writer = sink.writer(0, base).expect("a writer");
    writer.write(&rows(ids, None)).expect("written");
    writer.prepare(base + 1).expect("prepared").into_iter().collect()
}

#[test]
fn a_topic_keeps_the_contract() {
    let brokers = Brokers::new();
    let pipeline = brokers.pipeline("");
    let begin = Cell::new(0);
    check_contract(&Case {
        keeps: Keeps::Printed,
        open: &|| Ok(Box::new(pipeline.open_kafka()?)),
        begin: &|| begin.set(brokers.ids(begin.get()).1),
        visible: &|| brokers.ids(begin.get()).0,
        hidden: &|| pipeline.staged(),
    });
}

#[test]
fn what_was_staged_is_sent_when_there_are_no_transactions_any_more() {
    let brokers = Brokers::new();
    let mut pipeline = brokers.pipeline("");
    let mut sink = pipeline.open();
    sink.recover(None).expect("recovered");
    let handles = prepare(&sink, 0, &[1, 2, 3]);
    drop(sink);
    let topic = pipeline.config.sinks[0].topic.as_mut().expect("a topic");
    topic.delivery = Delivery::AtLeastOnce;
    pipeline.open().recover(Some((1, &handles))).expect("recovered");
    assert_eq!((brokers.ids(0).0, pipeline.staged()), (vec![1, 2, 3], 0));
}

#[test]
fn a_transaction_that_the_brokers_break_off_is_begun_again() {
    let brokers = Brokers::new();
    let pipeline = brokers.pipeline("");
    let mut sink = pipeline.open();
    sink.recover(None).expect("recovered");
    let handles = prepare(&sink, 0, &[1, 2, 3]);
    let broken_off = RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_PRODUCER_ID_MAPPING;
    brokers.0.request_errors(RDKafkaApiKey::AddPartitionsToTxn, &[broken_off]);
    sink.commit(1, &handles).expect("committed");
    assert_eq!(brokers.ids(0).0, [1, 2, 3]);
}

#[test]
fn a_producer_that_was_fenced_says_so_and_is_not_started_again() {
    let brokers = Brokers::new();
    let pipeline = brokers.pipeline("");
    let mut sink = pipeline.open();
    sink.recover(None).expect("recovered");
    let handles = prepare(&sink, 0, &[1, 2, 3]);
    brokers.0.request_errors(
        RDKafkaApiKey::AddPartitionsToTxn,
        &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_PRODUCER_FENCED],
    );
    let error = sink.commit(1, &handles).expect_err("fenced");
    assert_eq!(error.kind(), ErrorKind::External);
    assert!(error.to_string().contains("another run of this pipeline"), "{error}");
}

#[test]
fn a_copy_with_another_state_directory_has_its_own_progress() {
    let brokers = Brokers::new();
    let (pipeline, copy) = (brokers.pipeline(""), brokers.pipeline(""));
    let mut sink = pipeline.open();
    sink.recover(None).expect("recovered");
    let handles = prepare(&sink, 0, &[1, 2, 3]);
    let mut other = copy.open();
    other.recover(None).expect("recovered");
    let others = prepare(&other, 8, &[4]);
    other.commit(9, &others).expect("committed");
    drop((sink, other));
    pipeline.open().recover(Some((1, &handles))).expect("recovered");
    assert_eq!(brokers.ids(0).0, [1, 2, 3, 4], "9 checkpoints are not this one's");
}

#[test]
fn progress_that_cannot_be_read_is_an_error() {
    let brokers = Brokers::new();
    let mut sink = brokers.pipeline("").open();
    brokers.0.request_errors(
        RDKafkaApiKey::OffsetFetch,
        &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED; 9],
    );
    let error = sink.recover(None).expect_err("refused");
    assert!(error.to_string().contains("let this user do so"), "{error}");
}

#[test]
fn a_row_that_no_message_can_have_is_refused_before_its_checkpoint() {
    let brokers = Brokers::new();
    let pipeline = brokers.pipeline("[sink.properties]\n\"message.max.bytes\" = 1500");
    let mut sink = pipeline.open();
    sink.recover(None).expect("recovered");
    let mut writer = sink.writer(0, 0).expect("a writer");
    let mut output = rows(&[1], None);
    let mut columns: Vec<ArrayRef> = output.batch.columns().to_vec();
    columns[1] = Arc::new(StringArray::from(vec!["x".repeat(1_000)]));
    output.batch = RecordBatch::try_new(output.batch.schema(), columns.clone()).expect("a batch");
    writer.write(&output).expect("it fits");
    columns[1] = Arc::new(StringArray::from(vec!["x".repeat(1_500)]));
    output.batch = RecordBatch::try_new(output.batch.schema(), columns).expect("a batch");
    let error = writer.write(&output).expect_err("refused").to_string();
    assert!(error.contains("\"message.max.bytes\" is 1500"), "{error}");
}

#[test]
fn a_topic_that_is_not_there_is_refused_when_it_is_opened() {
    let brokers = Brokers::new();
    let pipeline = brokers.pipeline("");
    let missing = RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    brokers.0.topic_error(TOPIC, missing).expect("an error");
    let topic = pipeline.config.sinks[0].topic.as_ref().expect("a topic");
    for error in [check(topic).err(), pipeline.open_kafka().err()] {
        let error = error.expect("refused").to_string();
        assert!(error.contains("create the topic"), "{error}");
    }
    assert_eq!(std::fs::read_dir(&pipeline.config.state_directory).expect("listed").count(), 0);
}

#[test]
fn a_key_of_one_column_is_its_text() {
    let key = |line: &str| message_key(line.as_bytes(), &["k".to_owned()]).expect("a key");
    assert_eq!(key(r#"{"k":7,"v":1}"#).as_deref(), Some(b"7".as_slice()));
    assert_eq!(key(r#"{"k":"a b"}"#).as_deref(), Some(b"a b".as_slice()));
    assert_eq!(key(r#"{"k":null}"#), None);
}

#[test]
fn a_key_of_several_columns_is_a_list() {
    let columns = ["b".to_owned(), "a".to_owned()];
    let key = message_key(br#"{"a":1,"b":"x"}"#, &columns).expect("a key");
    assert_eq!(key.as_deref(), Some(br#"["x",1]"#.as_slice()));
}

#[test]
fn without_key_columns_there_is_no_key() {
    assert_eq!(message_key(b"{}", &[]).expect("none"), None);
}
