"""nghttp2's own server, which accepts every notification, and nghttp2's own load generator, which sets the limit."""

import json
import time
from pathlib import Path

from load import rate_in, words_of
from processes import ENDED, Program, Usage, free_ports, listens, output_of, server
from report import Round
from stack import Failure

# The streams that nghttpd allows per connection.
LIMIT = 1000
TOPIC = "order.com.example.load-test"
# As long as a provider token, which is ES256 with the header and claims that APNs requires.
BEARER = "bearer " + "aB3" * 63


class Nghttpd:
    def __init__(self, folder, certificates, devices):
        self.folder, self.roots = folder, f"{certificates}/root.pem"
        self.port = free_ports(1)[0]
        # A POST to a file's path is answered with 200 and the file.
        for path in devices:
            file = Path(f"{folder}/htdocs{path}")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        Path(f"{folder}/uris").write_text("".join(f"https://127.0.0.1:{self.port}{path}\n" for path in devices))
        Path(f"{folder}/body").write_text("{}")
        self.process = Program(
            [server("nghttpd"), "-a", "127.0.0.1", "-m", str(LIMIT), "-d", f"{folder}/htdocs", str(self.port),
             f"{certificates}/server-key.pem", f"{certificates}/server-certificate.pem"], f"{folder}/nghttpd.log")
        self.process.await_ready(lambda: listens(self.port))

    def h2load(self, notifications, streams):
        """Sends the same requests, with headers of the same size, and does nothing with the answers."""
        command = ["h2load", "-t1", "-c1", f"-m{streams}", f"-n{notifications}", "-i", f"{self.folder}/uris",
                   "-d", f"{self.folder}/body"]
        command += words_of((
            ("authorization", BEARER), ("apns-topic", TOPIC), ("apns-push-type", "background"),
            ("apns-priority", "5"), ("apns-expiration", str(int(time.time()) + 604800)),
            ("apns-id", "00000000-0000-4000-8000-000000000000"),
        ))
        return self.measure("h2load", command, None, notifications, lambda output: rate_in(output, 200))

    def sender(self, name, command, job, notifications):
        """Runs a sender that reports its result as JSON."""
        def rate(output):
            told = json.loads(output)
            delivered = told["verdicts"] if "verdicts" in told else {"delivered": told["delivered"]}
            if delivered != {"delivered": notifications}:
                raise Failure(f"{name}: not every notification was delivered: {delivered}")
            return notifications / told["seconds"]

        return self.measure(name, command, job, notifications, rate)

    def measure(self, name, command, job, notifications, rate):
        usage = Usage({name: ENDED, "nghttpd": [self.process.pid]})
        output = output_of(command, json.dumps(job) if job else None, 120)
        shares = usage.end().shares()
        return Round(rate(output), shares, usage.used[name] / notifications)
