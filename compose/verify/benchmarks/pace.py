"""Work at a rate: items in turn, or steps in the background."""

import threading
import time

from stack import Failure


def paced(items, rate, step=1):
    """Yields items at a rate per second; waits only for the first of each `step` items."""
    began = time.monotonic()
    for index, item in enumerate(items):
        if index % step == 0:
            time.sleep(max(0, began + index / rate - time.monotonic()))
        yield item


class Repeater:
    """
    Threads that call a function at a rate until they are stopped.

    step: called with the number of the thread; an exception ends all threads, and is raised where they are stopped,
    which is at the end of a `with`. rate: calls per second of all threads together.
    """

    def __init__(self, step, rate, threads=1):
        self.step, self.pause, self.error = step, threads / rate, None
        self.is_over = threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(threads)]
        for thread in self.threads:
            thread.start()

    def _run(self, number):
        due = time.monotonic()
        while not self.is_over.is_set():
            try:
                self.step(number)
            except Exception as error:
                self.error = error
                self.is_over.set()
                # A bug in the step shows its traceback; a server may be gone when a stack ends.
                if not isinstance(error, (Failure, OSError)):
                    raise
                return
            # After a slow step, at most one second of lost time is made up for.
            due = max(due + self.pause, time.monotonic() - 1)
            self.is_over.wait(max(0.0, due - time.monotonic()))

    def require_running(self):
        if self.error:
            raise Failure(f"{self.step.__qualname__} ended: {self.error!r}") from self.error

    def wait(self, seconds):
        if self.is_over.wait(seconds):
            self.stop()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.is_over.set()
        if kind is None:
            self.stop()

    def stop(self):
        self.is_over.set()
        for thread in self.threads:
            thread.join(60)
        self.require_running()
