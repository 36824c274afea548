"""How independent brands are: the latency of one beside another one in trouble, in the packager or in the pusher."""

from isolation.packager import PackagerIsolation
from isolation.pusher import PusherIsolation

# For each service the bench, and what waits of the other brand.
SERVICES = {"packager": (PackagerIsolation, 1_000_000), "pusher": (PusherIsolation, 200_000)}


def bench(arguments, stack):
    make, waiting = SERVICES[arguments.service]
    arguments.waiting = arguments.waiting or waiting
    return make(arguments, stack)
