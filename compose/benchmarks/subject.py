"""The subjects of compose/bench."""

import contextlib
import os

from client import showing
from report import Report
from stack import ROOT

# Python with the packages that are measured beside Waybill.
PEER_PYTHON = f"{ROOT}/.build/bench-python/bin/python"
TOKEN = "waybill-bench-waybill-bench-0000"
AUTHORIZATION = showing(TOKEN)
HERE = os.path.dirname(os.path.abspath(__file__))


# librdkafka's own broker waits for nearly a session when a worker joins or leaves; below 4 s its first join breaks.
QUICK_SESSIONS = "session.timeout.ms=6000\nheartbeat.interval.ms=500\n"
# Producers know added partitions after seconds instead of five minutes.
QUICK_METADATA = "topic.metadata.refresh.interval.ms=1000\n"


class Bench:
    """A subject of compose/bench, with a stack of its own."""

    def __init__(self, arguments, stack):
        self.arguments, self.stack, self.report = arguments, stack, Report()
        # Everything that is started beside the stack ends with it, also after a failure.
        self.ending = contextlib.ExitStack()
        self.folder = f"{stack.folder}/bench"
        os.makedirs(self.folder, exist_ok=True)

    def set_up(self, *options, kafka_properties=""):
        """Brings the stack up. Without coalescing: the time that the pusher itself takes is measured."""
        os.environ |= {"WAYBILL_PUSH_WINDOW_MILLISECONDS": "0", "WAYBILL_PUSH_HOURLY_LIMIT": "0"}
        self.stack.up(*options, kafka_properties=kafka_properties)

    def measure(self):
        """Fills the report. Returns true if anything is wrong."""
        raise NotImplementedError
