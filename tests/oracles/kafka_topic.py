"""Topics of Kafka through a client that is not ours.

create BROKER TOPIC PARTITIONS    makes a topic
send BROKER TOPIC FILE KEY        sends the lines of an NDJSON file; the member KEY says the partition
read BROKER TOPIC                 prints what is committed, one JSON object a line
"""

import json
import sys
import zlib

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic


def create(broker, topic, partitions):
    admin = KafkaAdminClient(bootstrap_servers=broker)
    admin.create_topics([NewTopic(topic, num_partitions=int(partitions), replication_factor=1)])
    admin.close()


def send(broker, topic, path, key):
    producer = KafkaProducer(bootstrap_servers=broker, acks="all", linger_ms=20)
    partitions = len(producer.partitions_for(topic))
    sent = 0
    with open(path, "rb") as lines:
        for line in lines:
            value = str(json.loads(line).get(key)).encode()
            partition = zlib.crc32(value) % partitions
            producer.send(topic, value=line.rstrip(b"\n"), key=value, partition=partition)
            sent += 1
    producer.flush()
    producer.close()
    print(json.dumps({"sent": sent}))


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
    ends = consumer.end_offsets(partitions)
    # The end may be a mark of a transaction, which is no message: the position passes it.
    while any(consumer.position(partition) < ends[partition] for partition in partitions):
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
    {"create": create, "send": send, "read": read}[sys.argv[1]](*sys.argv[2:])
