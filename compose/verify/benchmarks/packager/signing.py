"""Signing alone: libcrypto's own benchmark, and the openssl program once per package."""

import concurrent.futures
import os
import re

from processes import ENDED, cpu_seconds, output_of
from stack import Failure

SECONDS = 1


def signs_per_cpu_second():
    """Returns the RSA-2048 signatures that libcrypto makes per second of CPU, with all processors at work."""
    # Not `-multi`, which divides by elapsed time instead of CPU time.
    command = ["openssl", "speed", "-seconds", str(SECONDS), "rsa2048"]
    cores, rates = os.cpu_count() or 1, []
    with concurrent.futures.ThreadPoolExecutor(cores) as pool:
        for output in pool.map(output_of, [command] * cores):
            found = re.search(r"^rsa 2048 bits\s+\S+s\s+\S+s\s+([\d.]+)", output, re.MULTILINE)
            if not found:
                raise Failure(f"openssl speed says: {output.strip()[-300:]}")
            rates.append(float(found.group(1)))
    return sum(rates) / len(rates)


class Tool:
    """`openssl cms -sign`, started once per package."""

    def __init__(self, brand, folder):
        self.manifest, self.signature = f"{folder}/manifest.json", f"{folder}/signature"
        with open(self.manifest, "w") as file:
            file.write("{" + ",".join(f'"{name}":"{"0" * 64}"' for name in ("order.json", "a.png", "b.png")) + "}")
        self.command = [
            "openssl", "cms", "-sign", "-binary", "-md", "sha256", "-nosmimecap", "-in", self.manifest,
            "-signer", f"{brand}/certificate.pem", "-inkey", f"{brand}/key.pem",
            "-certfile", f"{brand}/intermediate.pem", "-outform", "DER", "-out", self.signature,
        ]

    def per_cpu_second(self, count):
        before = cpu_seconds(ENDED)
        for _ in range(count):
            output_of(self.command)
        return count / (cpu_seconds(ENDED) - before)
