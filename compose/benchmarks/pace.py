"""Work at a rate: one item after the other, or steps beside everything else."""

import threading
import time

from stack import Failure


def paced(items, rate, step=1):
    """Gives one item after the other, so many a second; step: of so many it waits for the moment of the first."""
    began = time.monotonic()
    for index, item in enumerate(items):
        if index % step == 0:
            time.sleep(max(0, began + index / rate - time.monotonic()))
        yield item


class Repeater:
    """
    Threads that each take a step of a function as often as the rate says, until they are stopped.

    step: called with the number of the thread; an exception ends all threads, and is raised where they are stopped,
    which is at the end of a `with`. rate: a second, of all threads together.
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
                # A mistake in the step shows its place; that a server is gone may be usual at the end of a stack.
                if not isinstance(error, (Failure, OSError)):
                    raise
                return
            # After a slow step the time that is lost is not made up for.
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
