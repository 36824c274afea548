"""What signing costs where nothing else is done: libcrypto's own measurement, and the openssl program per package."""

import os
import re
import resource
import subprocess

from stack import Failure

SECONDS = 1


def signs_per_cpu_second():
    """RSA-2048 signatures that libcrypto makes per second of CPU, on all processors at once."""
    cores = os.cpu_count() or 1
    ran = subprocess.run(
        ["openssl", "speed", "-seconds", str(SECONDS), "-multi", str(cores), "rsa2048"], capture_output=True, text=True)
    found = re.search(r"^rsa 2048 bits\s+\S+s\s+\S+s\s+([\d.]+)", ran.stdout, re.MULTILINE)
    if not found:
        raise Failure(f"openssl speed says: {(ran.stdout + ran.stderr).strip()[-300:]}")
    # Each process tells signs per second of its own CPU; what is printed is their sum.
    return float(found.group(1)) / cores


class Program:
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
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        for _ in range(count):
            ran = subprocess.run(self.command, capture_output=True, text=True)
            if ran.returncode:
                raise Failure(f"openssl cms says: {ran.stderr.strip()[-300:]}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return count / (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
