"""Packagers that a benchmark starts itself, in any number, on cores and with settings of its choice."""

import contextlib
import itertools
import shlex
import signal

from client import ask
from metrics import Metrics
from orders import Documents, add_pictures
from processes import Program, free_ports, memory_mb
from stack import SERVICES, Failure, eventually
from subject import Bench
from topics import CHANGES, Publisher, Reader

GROUP = "waybill-packager"


class Worker(Program):
    """
    A packager with the settings of the stack's own packager, which must not be running.

    core: the only processor that it may use. command: the program and its arguments, if it is not the stack's.
    """

    def __init__(self, stack, settings=None, core=None, command=()):
        self.url = f"http://127.0.0.1:{free_ports(1)[0]}"
        words = shlex.split(stack.command("packager").split("exec env", 1)[1])
        environment = dict(word.split("=", 1) for word in words[:-1])
        # Each change costs what an order costs that a device follows.
        environment |= {"WAYBILL_OPERATIONS_LISTEN": self.url.removeprefix("http://"), "WAYBILL_PACKAGE": "always"}
        environment |= settings or {}
        # taskset becomes the program: all its threads are bound, and it counts its cores as in a container.
        bound = [] if core is None else ["taskset", "-c", str(core)]
        super().__init__([*bound, *(command or words[-1:])], f"{stack.folder}/log/bench-packager.log", environment)

    def is_ready(self):
        try:
            return ask(self.url, "/readyz")
        except (OSError, Failure):
            return False

    def metrics(self):
        return Metrics.of(self.url)

    def memory_mb(self, field="VmHWM"):
        """Returns MiB. VmHWM: the highest resident memory so far. VmRSS: the resident memory."""
        return memory_mb(self.pid, field)

    def stop(self, within=30):
        self.process.send_signal(signal.SIGCONT)
        super().stop(within)


class Crew:
    """The workers of a benchmark, and the changes that are published for them."""

    def __init__(self, stack):
        # No other service uses the processors or takes changes.
        stack.stop(*SERVICES)
        # published: the number of changes that the broker has accepted.
        self.stack, self.workers, self.published = stack, [], 0
        self.reader = Reader(stack.env["KAFKA_BOOTSTRAP"], GROUP)

    def start(self, count=1, **options):
        """Starts workers, and returns when each has its partitions."""
        for _ in range(count):
            self.start_at_once(**options)
        return self.await_ready()

    def start_at_once(self, **options):
        """Starts another worker without waiting for it."""
        self.workers.append(Worker(self.stack, **options))
        return self.workers[-1]

    def await_ready(self):
        for worker in self.workers:
            worker.await_ready(worker.is_ready, 60)
        return self.workers[0]

    def stop(self, within=30):
        for worker in self.workers:
            worker.stop(within)
        self.workers = []

    def close(self):
        self.stop()
        self.reader.close()

    def pids(self):
        return [worker.pid for worker in self.workers]

    def publish(self, changes, settings=None, stack=None):
        """
        Publishes changes (order, kind, data), and returns their number when the broker has them all.

        stack: one with the brand's order type, if that is not the stack's own.
        """
        publisher = Publisher(stack or self.stack, settings)
        publisher.connect()
        for change in changes:
            publisher.send(*change)
        publisher.flush()
        self.published += publisher.count
        return publisher.count

    @contextlib.contextmanager
    def frozen(self):
        """Suspends the workers while a backlog grows. Must be shorter than the session timeout of Kafka's group."""
        for worker in self.workers:
            worker.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for worker in self.workers:
                worker.process.send_signal(signal.SIGCONT)

    def committed(self):
        """Returns the number of changes that are done: the committed offsets, since all partitions begin at 0."""
        return sum(max(0, place.offset) for place in self.reader.committed(CHANGES))

    def lag(self):
        return self.published - self.committed()

    def await_done(self, seconds=180):
        """Waits until everything that was published is committed."""
        self.await_all(lambda: self.lag() <= 0, lambda: f"working off the last {self.lag()} changes", seconds, 0.02)

    def await_orders(self, count, seconds=180):
        """Waits until Redis has this many keys, or until all is committed, in case another key has disappeared."""
        tries = itertools.count(1)
        self.await_all(
            lambda: self.stack.redis.ask("DBSIZE") >= count or (next(tries) % 200 == 0 and self.lag() <= 0),
            f"{count} keys in Redis", seconds, 0.005)

    def await_view(self, seconds):
        """Waits until Redis has everything again, after it was emptied."""
        self.await_all(lambda: self.stack.redis.ask("EXISTS", "waybill:1:view:epoch"), "restoring", seconds, 0.02)

    def await_all(self, condition, what, seconds, pause):
        def holds():
            self.require_running()
            return condition()

        eventually(what, holds, seconds, pause)

    def require_running(self):
        for worker in self.workers:
            worker.require_running()

    def require_complete(self, topic):
        """Fails if the embedded broker dropped records, as it does with the oldest of a partition above 5 MiB."""
        if any(self.reader.bounds(place)[0] > 0 for place in self.reader.places(topic)):
            raise Failure(f"the broker dropped records of {topic}: publish fewer")

    def counter(self, name):
        return sum(worker.metrics().total(name) for worker in self.workers)


class CrewBench(Bench):
    """A subject that starts its own packagers."""

    def set_up(self, *options, **others):
        super().set_up(*options, **others)
        self.documents = Documents()
        add_pictures(self.stack.brand)
        self.crew = Crew(self.stack)
        self.ending.callback(self.crew.close)
