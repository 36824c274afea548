#!/usr/bin/env python3
"""Publishes a change of an order to Kafka, as a CloudEvent in structured mode.

  over_kafka.py merge ORDER ID <DATA     what this source knows of the order: a JSON object
  over_kafka.py remove ORDER ID          removes the order

ORDER   <order type>/<order>: the subject of the event, and the key of its record
ID      the change's name in your system, such as the key of its row: sent again under this name, it has one effect

SOURCE, in the environment, is the system that publishes; PUBLISHER_PROPERTIES a file with properties of librdkafka, one
name=value a line: bootstrap.servers, and what the brokers require. Needs cloudevents and confluent-kafka from PyPI.
"""
import json
import os
import sys

from cloudevents.core.bindings.kafka import to_structured_event
from cloudevents.core.v1.event import CloudEvent
from confluent_kafka import KafkaException, Producer

TOPIC = "waybill.order-changes"
TYPES = {"merge": "waybill.order.merged", "remove": "waybill.order.removed"}
# All in-sync replicas have a record before it counts as published, and retries neither repeat nor reorder records. The
# partitioner is that of Java's producers and of Waybill: all changes of an order are in one partition, so in sequence.
GUARANTEES = {
    "acks": "all", "enable.idempotence": "true", "partitioner": "murmur2_random",
    # The largest change has 1 MiB, which is more than the default.
    "message.max.bytes": "2097152",
}


def properties(path):
    """Returns the properties in a file, in which lines that begin with # are comments."""
    with open(path, encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def change(verb, order, identifier, source, data=None):
    """Returns the event. data: a dictionary; None for a removal."""
    attributes = {"type": TYPES[verb], "source": source, "id": identifier, "subject": order}
    if data is not None:
        attributes["datacontenttype"] = "application/json"
    return CloudEvent(attributes, data)


def publish(producer, event):
    """Returns once the event is published, or raises KafkaException.

    It is retried for delivery.timeout.ms, five minutes by default. For many events: produce them all, call
    `producer.poll(0)` after each, and flush once.
    """
    outcomes = []
    message = to_structured_event(event, key_mapper=CloudEvent.get_subject)
    producer.produce(
        TOPIC, key=message.key, value=message.value, headers=message.headers,
        on_delivery=lambda error, _: outcomes.append(error))
    producer.flush()
    # KafkaError cannot be compared with None by ==.
    if outcomes[0] is not None:
        raise KafkaException(outcomes[0])


def main(words):
    if len(words) != 3 or words[0] not in TYPES:
        sys.exit(__doc__)
    verb, order, identifier = words
    try:
        data = json.load(sys.stdin) if verb == "merge" else None
        settings = properties(os.environ["PUBLISHER_PROPERTIES"]) | GUARANTEES
        event = change(verb, order, identifier, os.environ["SOURCE"], data)
    except KeyError as missing:
        sys.exit(f"over_kafka: {missing} is not set")
    except (OSError, ValueError) as error:
        sys.exit(f"over_kafka: {error}")
    try:
        publish(Producer(settings), event)
    except KafkaException as error:
        sys.exit(f"over_kafka: not published, publish it again under the same ID: {error}")
    print(f"published: {identifier}")


if __name__ == "__main__":
    main(sys.argv[1:])
