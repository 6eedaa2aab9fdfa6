"""Topics of Kafka through a client that is not ours.

create BROKER TOPIC PARTITIONS    makes a topic
send BROKER TOPIC FILE KEY [ID]   sends the lines of an NDJSON file; the member KEY says the partition;
                                  with a transactional ID in one transaction
ends BROKER TOPIC                 prints where partitions end, as a JSON object
read BROKER TOPIC                 prints what is committed, one JSON object a line
"""

import json
import sys
import time
import zlib

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic


# A read that takes longer has failed.
READ_LIMIT_SECONDS = 120


def create(broker, topic, partitions):
    admin = KafkaAdminClient(bootstrap_servers=broker)
    admin.create_topics([NewTopic(topic, num_partitions=int(partitions), replication_factor=1)])
    admin.close()


def send(broker, topic, path, key, transactional_id=None):
    producer = KafkaProducer(
        bootstrap_servers=broker, acks="all", linger_ms=20, transactional_id=transactional_id
    )
    if transactional_id:
        producer.init_transactions()
        producer.begin_transaction()
    partitions = len(producer.partitions_for(topic))
    sent = 0
    with open(path, "rb") as lines:
        for line in lines:
            value = str(json.loads(line).get(key)).encode()
            partition = zlib.crc32(value) % partitions
            producer.send(topic, value=line.rstrip(b"\n"), key=value, partition=partition)
            sent += 1
    producer.flush()
    if transactional_id:
        producer.commit_transaction()
    producer.close()
    print(json.dumps({"sent": sent}))


def ends(broker, topic):
    consumer = KafkaConsumer(bootstrap_servers=broker)
    partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
    found = consumer.end_offsets(partitions)
    print(json.dumps({str(partition.partition): end for partition, end in sorted(found.items())}))
    consumer.close()


def read(broker, topic):
    consumer = KafkaConsumer(
        bootstrap_servers=broker,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        consumer_timeout_ms=60_000,
    )
    partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
    consumer.assign(partitions)
    consumer.seek_to_beginning()
    limits = consumer.end_offsets(partitions)
    # The end may be a mark of a transaction, which is no message: the position passes it.
    deadline = time.monotonic() + READ_LIMIT_SECONDS
    while any(consumer.position(partition) < limits[partition] for partition in partitions):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic} was not read to its ends {limits}")
        for messages in consumer.poll(timeout_ms=500).values():
            for message in messages:
                row = {
                    "partition": message.partition,
                    "offset": message.offset,
                    "key": None if message.key is None else message.key.decode(),
                    "value": json.loads(message.value),
                }
                print(json.dumps(row))
    consumer.close()


if __name__ == "__main__":
    {"create": create, "send": send, "ends": ends, "read": read}[sys.argv[1]](*sys.argv[2:])
