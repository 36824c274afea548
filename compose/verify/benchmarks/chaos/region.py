"""Moves a chaos run to another Kafka: mirrored topics, offsets of groups, services and the producer."""

import concurrent.futures
import os
import time

from mirror import PUSHERS, Mirror, clusters
from operations import restore
from processes import free_ports
from stack import SERVICES, Failure
from topics import CHANGES, COMPACTED

PLAIN = (CHANGES, "waybill.dead-letters")
# The name under which the old broker runs until the move is complete.
LEFT = "kafka-left"


def move(bench, fault):
    """
    Replaces the stack's broker with another one.

    With an even `fault.worker` the packagers' offsets are not carried over: they read all changes again.
    """
    stack, old = bench.stack, bench.stack.env["KAFKA_BOOTSTRAP"]
    os.rename(f"{stack.folder}/run/kafka.pid", f"{stack.folder}/run/{LEFT}.pid")
    try:
        new = replace_broker(stack, old)
        mirror = Mirror(old, new, *({topic: topic for topic in topics} for topics in (PLAIN, COMPACTED)))
        try:
            tell(bench.tool, "pause", "paused")
            services = [name for name in stack.services() if name.partition("-")[0] in SERVICES]
            there = [name for name in services if name not in bench.away]
            at_once(bench.stop, there)
            mirror.drain(PLAIN + COMPACTED)
            groups = PUSHERS | ({"waybill-packager": (CHANGES,)} if fault.worker % 2 else {})
            for group, topics in groups.items():
                mirror.carry(group, topics)
        finally:
            mirror.close()
        for service in services:
            stack.edit_command(service, f"KAFKA_BOOTSTRAP={old}", f"KAFKA_BOOTSTRAP={new}")
        tell(bench.tool, f"move {new}", "moved")
    finally:
        stack.run("kill", LEFT)
    stack.set_address("KAFKA_BOOTSTRAP", new)
    time.sleep(fault.hold)
    bench.undo()
    at_once(bench.start, there)
    # Cold orders get their places in the new cluster.
    bench.operate(lambda: restore(stack))


def replace_broker(stack, old):
    """Starts another broker as the stack's `kafka` and returns its address."""
    stack.edit_command("kafka", f"--port {old.rpartition(':')[2]}", f"--port {free_ports(1)[0]}")
    stack.start("kafka")
    with open(f"{stack.folder}/run/kafka.address") as file:
        new = file.read().strip()
    clusters(old, new)
    return new


def tell(tool, command, answer):
    tool.tell(command)
    if not tool.listen(60, answer):
        raise Failure(f"waybill-dev chaos does not report that it is {answer}")


def at_once(action, services):
    with concurrent.futures.ThreadPoolExecutor(max(1, len(services))) as threads:
        list(threads.map(action, services))
