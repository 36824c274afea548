"""Makes the orders' topic anew with lower offsets, as an operator may who lost it and has a copy."""

import confluent_kafka
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from chaos import region
from operations import restore
from stack import SERVICES, Failure, eventually
from topics import ORDERS, Reader

GROUP = "waybill-pusher"


def make(bench):
    """
    Deletes the topic, makes it with the same partitions and settings, and writes the last record of each key into it.

    The packagers' places of cold orders are wrong until `restore` mends them; the pushers' offsets are translated.
    """
    bench.bring_back(float("inf"))
    stack, bootstrap = bench.stack, bench.stack.env["KAFKA_BOOTSTRAP"]
    region.tell(bench.tool, "pause", "paused")
    services = [name for name in stack.services() if name.partition("-")[0] in SERVICES]
    region.at_once(bench.stop, services)
    # The tool reads the topic once more before it goes on; nothing writes to it meanwhile.
    region.tell(bench.tool, f"move {bootstrap}", "moved")
    reader = Reader(bootstrap, GROUP)
    kept = last_of_each_key(reader.messages(ORDERS))
    offsets = translated(reader.committed(ORDERS), kept)
    replace(AdminClient({"bootstrap.servers": bootstrap}))
    write(bootstrap, kept)
    reader.consumer.commit(offsets=offsets, asynchronous=False)
    reader.close()
    bench.undo()
    region.at_once(bench.start, services)
    bench.operate(lambda: restore(stack))


def last_of_each_key(messages):
    """Returns what compaction leaves, in the order of the offsets of each partition."""
    last = {(message.partition(), message.key()): message for message in messages}
    return sorted(last.values(), key=lambda message: (message.partition(), message.offset()))


def translated(places, kept):
    """Returns the places with the offsets that they have among the kept records."""
    return [
        confluent_kafka.TopicPartition(place.topic, place.partition, sum(
            message.partition() == place.partition and message.offset() < place.offset for message in kept))
        for place in places]


def replace(admin):
    old = admin.list_topics(ORDERS, timeout=10).topics[ORDERS]
    resource = ConfigResource(ConfigResource.Type.TOPIC, ORDERS)
    settings = admin.describe_configs([resource])[resource].result()
    own = {name: entry.value for name, entry in settings.items() if not entry.is_default}
    for future in admin.delete_topics([ORDERS], operation_timeout=30).values():
        future.result()
    topic = NewTopic(
        ORDERS, num_partitions=len(old.partitions),
        replication_factor=min(len(partition.replicas) for partition in old.partitions.values()), config=own)
    # Brokers may still be deleting it.
    eventually(
        f"{ORDERS} made anew", lambda: admin.create_topics([topic])[ORDERS].result() is None, 60, 0.5,
        confluent_kafka.KafkaException)


def write(bootstrap, kept):
    producer, failed = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 2}), []
    for message in kept:
        producer.produce(
            ORDERS, partition=message.partition(), key=message.key(), value=message.value(),
            headers=message.headers(), timestamp=message.timestamp()[1],
            on_delivery=lambda error, _: failed.append(str(error)) if error else None)
        producer.poll(0)
    if producer.flush(60) or failed:
        raise Failure(f"writing {ORDERS} anew: {failed[:1] or 'no answer in 60 s'}")
