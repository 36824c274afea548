"""The checkout role under load."""

import json
import subprocess

from stack import Failure, program
from subject import Bench

# Merchant sessions a second, payments a second, and the seconds that the slow shop takes.
SESSION_RATE, PAYMENT_RATE, SLOW_SECONDS = 200, 100, 24
# Payments that wait concurrently, each with its own connection to the shop.
SLOW = PAYMENT_RATE * SLOW_SECONDS


class CheckoutBench(Bench):
    def measure(self):
        arguments = self.arguments
        others = ["--neighbour-url", arguments.neighbour_url] if arguments.neighbour_url else []
        others += ["--system-roots"] if arguments.system_roots else []
        # In this session, so that ^C reaches it and it ends the role that it started.
        ended = subprocess.run(
            [program("waybill-dev"), "checkout-load", "--stack", f"{self.stack.folder}/stack.env",
             "--session-rate", str(SESSION_RATE), "--sessions", str(SESSION_RATE * arguments.seconds),
             "--rate", str(PAYMENT_RATE), "--payments", str(arguments.orders),
             "--slow-payments", str(SLOW + PAYMENT_RATE * arguments.seconds), "--upstream-seconds", str(SLOW_SECONDS), *others],
            stdout=subprocess.PIPE, text=True)
        if ended.returncode:
            raise Failure("waybill-dev checkout-load failed")
        return self.tell(json.loads(ended.stdout.splitlines()[-1]))

    def tell(self, loads):
        sessions, payments, slow = loads["sessions"], loads["payments"], loads["slowPayments"]
        report, failed = self.report, 0
        report.figure("checkout.session_p99_ms", sessions["p99"] / 1000)
        report.figure("checkout.first_fetch_p99_ms", payments["p99"] / 1000, most=150)
        report.figure("checkout.slow_payment_added_p99_ms", slow["p99"] / 1000 - SLOW_SECONDS * 1000)
        report.figure("checkout.idle_mb", loads["idleMegabytes"])
        report.figure("checkout.slow_payments_mb", slow["megabytes"])
        names = {
            "sessions": f"merchant sessions, {SESSION_RATE} a second",
            "payments": f"payments, {PAYMENT_RATE} a second, to the package in the device",
            "slowPayments": f"payments, {PAYMENT_RATE} a second, {SLOW_SECONDS} s at the shop",
        }
        for name, text in names.items():
            load = loads[name]
            ends = ", ".join(f"{end}: {count:,}" for end, count in load["ends"].items())
            report.note(
                f"{text}: {ends}; p50 {load['p50'] / 1000:.1f} ms, most {load['most'] / 1000:.1f} ms, "
                f"{load['megabytes']} MB at most")
            failed += sum(count for end, count in load["ends"].items() if end != "200")
        failed += self.tell_neighbour(loads["neighbour"])
        report.figure("checkout.failed", failed, most=0)
        return failed > 0

    def tell_neighbour(self, loads):
        """Says what another merchant, whose service hangs, costs the others; returns their failed requests."""
        report, failed = self.report, 0
        for name in "sessions", "baskets", "payments":
            alone, beside = loads[name]["alone"], loads[name]["beside"]
            ratio = beside["p99"] / max(1, alone["p99"])
            report.figure(f"checkout.neighbour_{name}_p99_ratio", ratio, most=1.5)
            for place, load in ("alone", alone), ("beside a shop that hangs", beside):
                ends = ", ".join(f"{end}: {count:,}" for end, count in load["ends"].items())
                report.note(f"{name} {place}: {ends}; p50 {load['p50'] / 1000:.1f} ms, p99 {load['p99'] / 1000:.1f} ms")
                failed += sum(count for end, count in load["ends"].items() if end != "200")
        other = loads["neighbour"]
        ends = ", ".join(f"{end}: {count:,}" for end, count in other["ends"].items())
        report.note(f"baskets of the shop that hangs: {ends}; p99 {other['p99'] / 1000:.1f} ms")
        report.figure("checkout.neighbour_mb", other["megabytes"])
        return failed
