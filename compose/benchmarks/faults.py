"""
Sends notifications while APNs fails in every way that it can, then counts; started by compose/bench faults.

The services, broker and Redis are the stack's; devices register over the gateway, changes are put on `waybill.orders`
where the packager puts them. The faults are those of faults_plan.py, done by the simulator of APNs.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile

import confluent_kafka

from faults_once_run import OnceFaults
from faults_run import Faults, say
from faults_stage import Stage
from stack import Failure

# What there is of everything, and what there is with --small.
SIZES = (("notifications", 200_000, 4000), ("devices", 20_000, 400), ("faults", 200, 20), ("rate", 800, 400),
         # Of a device that can never be told: the pauses of the last three take a minute and a half.
         ("attempts", 8, 5))


def read_arguments(words=None):
    parser = argparse.ArgumentParser(prog="compose/bench faults", description="Sends while APNs fails, then counts.")
    parser.add_argument("--notifications", type=int, help="that APNs takes (200000, small 4000)")
    parser.add_argument("--devices", type=int, help="each with two orders (20000, small 400)")
    parser.add_argument("--faults", type=int, help="drawn by lot (200, small 20)")
    parser.add_argument("--rate", type=int, help="notifications a second (800, small 400)")
    parser.add_argument("--attempts", type=int, help="of a device that cannot be told (8, small 5)")
    parser.add_argument("--seed", type=int, help="of all that is drawn by lot")
    parser.add_argument("--patience", type=int, default=300, help="seconds until all must be at rest (300)")
    parser.add_argument("--small", action="store_true", help="a fiftieth of all, to see that it works")
    parser.add_argument("--once", action="store_true", help="each device has exactly one change, so each loss shows")
    parser.add_argument("--brown-out", type=int, metavar="SECONDS", help=(
        "once, and instead of the faults APNs answers 80 %% with 503 for so long, at 200 changes a second"))
    parser.add_argument("--pushers", type=int, default=1, help="once: workers (1)")
    parser.add_argument("--kill-seconds", type=int, help="once: how often one of them is killed")
    parser.add_argument("--keep", action="store_true", help="leaves logs and data in place also after success")
    arguments = parser.parse_args(words)
    arguments.once = arguments.once or arguments.brown_out is not None
    if not arguments.once and (arguments.pushers > 1 or arguments.kill_seconds):
        parser.error("--pushers and --kill-seconds go with --once")
    if arguments.once:
        once_sizes(arguments)
    for name, usual, small in SIZES:
        if getattr(arguments, name) is None:
            setattr(arguments, name, small if arguments.small else usual)
    if arguments.seed is None:
        arguments.seed = int.from_bytes(os.urandom(3), "big")
    if not (1 <= arguments.devices <= 100_000 and 1 <= arguments.notifications <= 2_000_000
            and 0 <= arguments.faults <= 10_000 and 1 <= arguments.rate <= 20_000 and 1 <= arguments.attempts <= 100):
        parser.error("1 to 100000 devices, 2000000 notifications, 10000 faults, 20000 a second, 100 attempts")
    return arguments


def once_sizes(arguments):
    """As many devices as changes, and as many seconds as the faults need."""
    rate, count = (200, 200 * (arguments.brown_out + 20)) if arguments.brown_out else (100, 20_000)
    small_rate, small = (40, 40 * ((arguments.brown_out or 0) + 10)) if arguments.brown_out else (40, 800)
    if arguments.rate is None:
        arguments.rate = small_rate if arguments.small else rate
    if arguments.notifications is None:
        arguments.notifications = arguments.devices or (small if arguments.small else count)
    arguments.devices = arguments.notifications


def main():
    arguments = read_arguments()
    folder = tempfile.mkdtemp(prefix="waybill-faults.")
    stage, faults, interrupted = Stage(folder, arguments.attempts, arguments.pushers), None, False

    def interrupt(*_):
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    try:
        stage.up()
        say(f"seed {arguments.seed}, in {folder}")
        faults = (OnceFaults if arguments.once else Faults)(arguments, stage)
        faults.run()
        return 1 if faults.findings.count else 0
    except KeyboardInterrupt:
        interrupted = True
        return 130
    finally:
        failed = sys.exc_info()[0] is not None or (faults and faults.findings.count)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        if faults:
            faults.close()
        stage.down()
        if arguments.keep or (failed and not interrupted):
            say(f"logs and data are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Failure, OSError, confluent_kafka.KafkaException, subprocess.CalledProcessError) as failure:
        say(str(failure))
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
