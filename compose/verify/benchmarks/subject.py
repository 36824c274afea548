"""The subjects of compose/bench."""

import contextlib
import os

from client import showing
from report import Report
from stack import ROOT

# Python with the packages that are compared with Waybill.
PEER_PYTHON = f"{ROOT}/.build/bench-python/bin/python"
TOKEN = "waybill-bench-waybill-bench-0000"
AUTHORIZATION = showing(TOKEN)
HERE = os.path.dirname(os.path.abspath(__file__))


# librdkafka's mock broker waits for nearly a session when a worker joins or leaves; below 4 s its first join fails.
QUICK_SESSIONS = "session.timeout.ms=6000\nheartbeat.interval.ms=500\n"
# Brokers answer a fetch when a record arrives, the embedded one when the fetch's time is over: that wait is not ours.
PROMPT_FETCHES = "fetch.wait.max.ms=1\n"
# Producers learn of added partitions within seconds instead of five minutes.
QUICK_METADATA = "topic.metadata.refresh.interval.ms=1000\n"


class Bench:
    """A subject of compose/bench, with its own stack."""

    def __init__(self, arguments, stack):
        self.arguments, self.stack, self.report = arguments, stack, Report()
        # Ends everything that is started besides the stack, even after a failure.
        self.ending = contextlib.ExitStack()
        self.folder = f"{stack.folder}/bench"
        os.makedirs(self.folder, exist_ok=True)

    def set_up(self, *options, kafka_properties=""):
        """Brings the stack up, without coalescing, so that only the pusher's own time is measured."""
        os.environ |= {"WAYBILL_PUSH_WINDOW_MILLISECONDS": "0", "WAYBILL_PUSH_HOURLY_LIMIT": "0"}
        self.stack.up(*options, kafka_properties=kafka_properties)

    def measure(self):
        """Fills the report. Returns a true value if anything is wrong."""
        raise NotImplementedError
