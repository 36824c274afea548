"""nghttp2's own server, which takes every notification, and nghttp2's own load generator, which is the limit."""

import json
import os
import re
import resource
import shutil
import subprocess
import time

from client import Connection
from peers import free_ports
from stack import Failure, cpu_seconds, machine_seconds

# nghttpd is where Debian keeps servers.
NGHTTPD = shutil.which("nghttpd", path=os.environ.get("PATH", "") + ":/usr/sbin")
# Streams that nghttpd allows a connection.
LIMIT = 1000
TOPIC = "order.com.example.load-test"
# As long as a provider token is: ES256 with the claims and header that APNs asks for.
AUTHORIZATION = "bearer " + "aB3" * 63


class Result:
    """What one sender did: notifications a second, microseconds of its CPU for each, and who used the processors."""

    def __init__(self, rate, microseconds, shares):
        self.rate, self.microseconds, self.shares = rate, microseconds, shares


class Nghttpd:
    def __init__(self, folder, certificates, devices):
        self.folder, self.roots = folder, f"{certificates}/root.pem"
        self.port = free_ports(1)[0]
        # What is POSTed to a file's path is answered with 200 and the file.
        for path in devices:
            os.makedirs(os.path.dirname(f"{folder}/htdocs{path}"), exist_ok=True)
            open(f"{folder}/htdocs{path}", "w").close()
        with open(f"{folder}/uris", "w") as file:
            file.writelines(f"{self.url}{path}\n" for path in devices)
        with open(f"{folder}/body", "w") as file:
            file.write("{}")
        with open(f"{folder}/nghttpd.log", "wb") as log:
            self.process = subprocess.Popen(
                [NGHTTPD, "-a", "127.0.0.1", "-m", str(LIMIT), "-d", f"{folder}/htdocs", str(self.port),
                 f"{certificates}/server-key.pem", f"{certificates}/server-certificate.pem"],
                stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + 10
        while not self.listens():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Failure(f"nghttpd does not start, see {folder}/nghttpd.log")
            time.sleep(0.05)

    @property
    def url(self):
        return f"https://127.0.0.1:{self.port}"

    def listens(self):
        try:
            Connection(self.port).close()
            return True
        except OSError:
            return False

    def stop(self):
        self.process.terminate()
        self.process.wait(10)

    def h2load(self, notifications, streams):
        """The same requests with headers of the same size, by a generator that does nothing with the answers."""
        command = ["h2load", "-t1", "-c1", f"-m{streams}", f"-n{notifications}", "-i", f"{self.folder}/uris",
                   "-d", f"{self.folder}/body"]
        for name, value in (
            ("authorization", AUTHORIZATION), ("apns-topic", TOPIC), ("apns-push-type", "background"),
            ("apns-priority", "5"), ("apns-expiration", str(int(time.time()) + 604800)),
            ("apns-id", "00000000-0000-4000-8000-000000000000"),
        ):
            command += ["-H", f"{name}: {value}"]

        def rate(output):
            found = re.search(r"finished in .*?, ([\d.]+) req/s", output)
            if not found or f" {notifications} 2xx," not in output:
                raise Failure(f"h2load says: {output.strip()[-500:]}")
            return float(found.group(1))

        return self.measure("h2load", command, None, notifications, rate)

    def sender(self, name, command, job, notifications):
        """A sender that tells about itself as JSON."""
        def rate(output):
            told = json.loads(output)
            delivered = told["verdicts"] if "verdicts" in told else {"delivered": told["delivered"]}
            if delivered != {"delivered": notifications}:
                raise Failure(f"{name}: not every notification was delivered: {delivered}")
            return notifications / told["seconds"]

        return self.measure(name, command, job, notifications, rate)

    def measure(self, name, command, job, notifications, rate):
        machine, began = machine_seconds(), time.monotonic()
        server, sender = cpu_seconds(self.process.pid), children_seconds()
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        try:
            output, errors = process.communicate(json.dumps(job).encode() if job else None, timeout=120)
        finally:
            process.kill()
            process.wait()
        wall, worked = time.monotonic() - began, machine_seconds() - machine
        if process.returncode:
            raise Failure(f"{name} says: {(errors or output).decode(errors='replace').strip()[-500:]}")
        used = {name: children_seconds() - sender, "nghttpd": cpu_seconds(self.process.pid) - server}
        shares = {who: seconds / wall for who, seconds in used.items()}
        shares["others"] = max(0, worked / wall - sum(shares.values()))
        return Result(rate(output.decode()), used[name] / notifications * 1e6, shares)


def children_seconds():
    """What all children that have ended used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
