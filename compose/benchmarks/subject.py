"""One subject of compose/bench: its options, and how it ends."""

import argparse
import signal
import subprocess
import sys

import confluent_kafka

from stack import Failure


def run(bench, **options):
    """Runs a benchmark of the stack in --dir.

    Options by name, with their defaults; a type stands for an option that must be given.
    """
    parser = argparse.ArgumentParser()
    for name, default in {"dir": str, "root": str, **options}.items():
        if default is False:
            parser.add_argument(f"--{name}", action="store_true")
        elif isinstance(default, type):
            parser.add_argument(f"--{name}", type=default, required=True)
        else:
            parser.add_argument(f"--{name}", type=type(default), default=default)
    # As an error, so that what was started is stopped on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(bench(parser.parse_args()).run())
    except (Failure, OSError, subprocess.SubprocessError, confluent_kafka.KafkaException) as failure:
        sys.exit(f"bench: {failure}")
