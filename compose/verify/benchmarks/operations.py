"""Changes that operators make while the services run: secrets, tokens, partitions."""

import os
import re

from confluent_kafka.admin import AdminClient, NewPartitions

from metrics import Metrics
from stack import Failure, eventually

GROWING = ("waybill.orders", "waybill.registrations")
REKEYED = re.compile(r"(waybill\.\S+): [^\r\n]*?(\d+) keys moved, (\d+) ended, (\d+) left")


def write_secrets(path, lines):
    """Replaces a file of secrets atomically; only its owner may read it."""
    draft = f"{path}.new"
    with open(os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
        file.write("".join(f"{line}\n" for line in lines))
    os.rename(draft, path)


def swap_secrets(stack):
    """Makes the stack's last secret the one that mints; the others stay valid."""
    path = stack.env["TOKEN_SECRETS"]
    with open(path) as file:
        lines = file.read().split()
    write_secrets(path, lines[-1:] + lines[:-1])


def retoken(stack):
    """Gives all orders tokens of the first secret. Returns the output."""
    return stack.run_program("packager", f"retoken --brand {stack.type} --rate 2000")


def restore(stack):
    """Stores orders of the stack's brand whose records Redis has no place of. Returns the output."""
    return stack.run_program("packager", f"restore --brand {stack.type}")


def partitions_added(stack):
    """Returns the partitions added since all keys were in the right ones, as the first packager reports them."""
    return Metrics.of(stack.env["OPERATIONS_PACKAGER"]).total("waybill_topic_partitions_added")


def grow_partitions(stack, topics, more):
    """Adds partitions to each topic, and returns when the packager has noticed them."""
    admin = AdminClient({"bootstrap.servers": stack.env["KAFKA_BOOTSTRAP"]})
    counts = {topic: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) for topic in topics}
    growth = [NewPartitions(topic, count + more) for topic, count in counts.items()]
    for future in admin.create_partitions(growth).values():
        future.result()
    eventually("the packager notices more partitions", lambda: partitions_added(stack) == len(topics) * more, 90)


def rekey(stack, option=""):
    """Runs `waybill-packager rekey`. Returns the numbers of keys that were moved, and of those still to be moved."""
    # Progress is printed repeatedly: the last counts of a topic are final.
    lines = REKEYED.findall(stack.run_program("packager", f"rekey {option}"))
    last = {topic: (int(moved) + int(ended), int(left)) for topic, moved, ended, left in lines}
    if not set(GROWING) <= set(last):
        raise Failure(f"rekey reports {sorted(last)} only")
    return sum(moved for moved, _ in last.values()), sum(left for _, left in last.values())
