"""
Sends notifications while APNs fails in every way that it can, then checks the results.

The services, broker and Redis are the stack's; devices register through the gateway, and changes are written to
`waybill.orders` in place of the packager. The APNs simulator injects the faults of faults_plan.py.
"""

from faults_once_run import OnceFaultsBench
from faults_run import FaultsBench
from stack import Failure

# The sizes without and with --small.
SIZES = {
    "notifications": (200_000, 4000), "devices": (20_000, 400), "faults": (200, 20), "rate": (800, 400),
    # Of a device that can never be notified: the pauses before the last three take about two minutes.
    "attempts": (8, 5),
}


def bench(arguments, stack):
    arguments.once = arguments.once or arguments.brown_out is not None
    if not arguments.once and (arguments.pushers > 1 or arguments.kill_seconds):
        raise Failure("--pushers and --kill-seconds go with --once")
    if arguments.once:
        set_once_sizes(arguments)
    for name, sizes in SIZES.items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, sizes[arguments.small])
    return (OnceFaultsBench if arguments.once else FaultsBench)(arguments, stack)


def set_once_sizes(arguments):
    """Sets the sizes for --once: as many devices as changes; in a brown-out, changes for its seconds and a few."""
    rate, calm, count = (40, 10, 800) if arguments.small else (100, 20, 20_000)
    if arguments.brown_out:
        rate = rate if arguments.small else 200
        count = rate * (arguments.brown_out + calm)
    arguments.rate = arguments.rate or rate
    arguments.notifications = arguments.devices = arguments.notifications or arguments.devices or count
