"""Packagers that a benchmark starts itself: as many as it likes, on the cores and with the settings that it likes."""

import os
import shlex
import signal
import subprocess
import time
import urllib.error
import urllib.request

import confluent_kafka

from peers import free_ports
from stack import Failure, Publisher

TOPIC = "waybill.order-changes"
GROUP = "waybill-packager"


class Worker:
    """One packager with the settings of the stack's own, which must be stopped."""

    def __init__(self, stack, settings=None, core=None):
        self.log = f"{stack.folder}/log/bench-packager.log"
        self.port = free_ports(1)[0]
        with open(f"{stack.folder}/run/packager.command") as file:
            words = shlex.split(file.read().split("exec env", 1)[1])
        self.environment = dict(word.split("=", 1) for word in words[:-1])
        self.environment |= {"WAYBILL_OPERATIONS_LISTEN": f"127.0.0.1:{self.port}"} | (settings or {})
        # taskset becomes the program, so that all its threads are bound, and it counts its cores as in a container.
        self.command = ([] if core is None else ["taskset", "-c", str(core)]) + words[-1:]
        self.process = None

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command, env=os.environ | self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True)
        return self

    @property
    def pid(self):
        return self.process.pid

    def await_ready(self, seconds=60):
        deadline = time.monotonic() + seconds
        while not self.is_ready():
            if self.process.poll() is not None:
                raise Failure(f"the packager ended while starting: {self.last_words()}")
            if time.monotonic() > deadline:
                raise Failure(f"the packager is not ready after {seconds} s: {self.last_words()}")
            time.sleep(0.05)
        return self

    def is_ready(self):
        try:
            return self.get("/readyz").status == 200
        except (OSError, urllib.error.URLError):
            return False

    def last_words(self):
        with open(self.log, "rb") as file:
            return file.read()[-600:].decode(errors="replace").strip()

    def get(self, path):
        return urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10)

    def metrics(self):
        """Values by name with labels, as they are written."""
        lines = self.get("/metrics").read().decode().splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def memory_mb(self, field="VmHWM"):
        """VmHWM: the most that was ever resident. VmRSS: what is now."""
        with open(f"/proc/{self.pid}/status") as file:
            return int(next(line for line in file if line.startswith(f"{field}:")).split()[1]) / 1024

    def stop(self, within=30):
        """Ends it; one that does not go by itself within the time is killed."""
        if self.process is None or self.process.poll() is not None:
            return
        self.thaw()
        self.process.terminate()
        try:
            self.process.wait(within)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Crew:
    """The workers of a benchmark, and the changes that are put before them."""

    def __init__(self, stack):
        # Nobody else takes part of the processors, or of the changes.
        for service in ("packager", "pusher", "gateway"):
            stack.stop(service)
        self.stack, self.workers = stack, []
        # How many changes the broker has taken.
        self.published = 0
        self.consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": stack.env["KAFKA_BOOTSTRAP"], "group.id": GROUP, "enable.auto.commit": False})
        partitions = self.consumer.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions
        self.places = [confluent_kafka.TopicPartition(TOPIC, partition) for partition in partitions]

    def start(self, count=1, **options):
        """Starts workers, and returns when each has its part of the topic."""
        for _ in range(count):
            self.start_at_once(**options)
        return self.await_ready()

    def start_at_once(self, **options):
        """Starts one more, and does not wait for it."""
        self.workers.append(Worker(self.stack, **options).start())
        return self.workers[-1]

    def await_ready(self):
        for worker in self.workers:
            worker.await_ready()
        return self.workers[0]

    def stop(self, within=30):
        for worker in self.workers:
            worker.stop(within)
        self.workers = []

    def close(self):
        self.stop()
        self.consumer.close()

    def pids(self):
        return [worker.pid for worker in self.workers]

    def publish(self, changes, settings=None):
        """Puts changes (order, kind, data) on the topic, and returns when the broker has them all."""
        publisher = Publisher(self.stack, settings)
        for change in changes:
            publisher.send(*change)
        publisher.flush()
        self.published += publisher.count

    def frozen(self):
        """While it lasts a backlog can grow; shorter than the session that Kafka grants a silent worker."""
        return Frozen(self)

    def ends(self):
        """Behind the last record of each partition."""
        return {place.partition: self.consumer.get_watermark_offsets(place, timeout=10)[1] for place in self.places}

    def committed(self):
        """How many records are done for good, since all partitions begin at offset 0."""
        return sum(max(0, place.offset) for place in self.consumer.committed(self.places, timeout=10))

    def lag(self):
        return self.published - self.committed()

    def await_done(self, seconds=180):
        """Until everything that was published is committed."""
        deadline = time.monotonic() + seconds
        while (lag := self.lag()) > 0:
            self.require_running()
            if time.monotonic() > deadline:
                raise Failure(f"{lag} changes wait after {seconds} s: {self.workers[0].last_words()}")
            time.sleep(0.02)

    def await_orders(self, count, seconds=180):
        """Until so many keys stand in Redis."""
        deadline = time.monotonic() + seconds
        while self.stack.redis.ask("DBSIZE") < count:
            self.require_running()
            if time.monotonic() > deadline:
                raise Failure(f"after {seconds} s Redis has {self.stack.redis.ask('DBSIZE')} of {count} keys")
            time.sleep(0.005)

    def require_running(self):
        for worker in self.workers:
            if worker.process.poll() is not None:
                raise Failure(f"a packager ended: {worker.last_words()}")

    def counter(self, name):
        return sum(worker.metrics().get(name, 0) for worker in self.workers)


class Frozen:
    def __init__(self, crew):
        self.crew = crew

    def __enter__(self):
        for worker in self.crew.workers:
            worker.freeze()

    def __exit__(self, *_):
        for worker in self.crew.workers:
            worker.thaw()
