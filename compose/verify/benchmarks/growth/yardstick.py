"""The speed of the processors: on shared ones the same work takes up to half as long again a minute later."""

import multiprocessing
import random
import signal
import time

from processes import Usage

PAUSE = 0.01


class Yardstick:
    """A process that does the same work again and again, in a tenth of a processor's time."""

    def __init__(self):
        # Seconds of processor time, and how often the work was done.
        self.state, self.normal = multiprocessing.Array("d", 2, lock=False), None
        self.process = multiprocessing.Process(target=self.run, daemon=True)
        self.process.start()

    def run(self):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        lot = random.Random(1)
        numbers = [lot.random() for _ in range(3000)]
        while True:
            began = time.thread_time()
            {str(number): number for number in sorted(numbers)[:500]}
            self.state[0] += time.thread_time() - began
            self.state[1] += 1
            time.sleep(PAUSE)

    def slowness_since(self, before):
        """Returns how many times as long the work takes, since an earlier `state`, as when this was first called."""
        seconds, times = (now - then for now, then in zip(self.state, before))
        self.normal = self.normal or seconds / times
        return seconds / times / self.normal

    def stop(self):
        self.process.terminate()
        self.process.join()


class SteadyUsage(Usage):
    """Processor time by name, as it would be if the processors had always been as fast as at first."""

    def __init__(self, yardstick, who):
        self.yardstick, self.state = yardstick, list(yardstick.state)
        super().__init__(who)

    def end(self):
        super().end()
        slowness = self.yardstick.slowness_since(self.state)
        self.used = {name: seconds / slowness for name, seconds in self.used.items()}
        return self
