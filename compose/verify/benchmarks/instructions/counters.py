"""Counts the instructions that a running process executes in its own code, without the kernel's."""

import os
import platform
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

from processes import output_of
from stack import Failure
from subject import HERE

PERF = ["perf", "stat", "-x,", "-e", "instructions:u"]
# Seconds that perf gets for attaching.
ATTACHING = 0.5


def chosen(folder):
    """Returns the processor's own counter, or valgrind where there is none, as on most virtual machines."""
    return Processor() if Processor.counts() else Valgrind(folder)


class Processor:
    name = f"perf {platform.machine()}"

    @staticmethod
    def command(path):
        """Returns the program and the arguments that start a program so that it can be counted."""
        return [path]

    @staticmethod
    def counts():
        if not shutil.which("perf"):
            return False
        ran = subprocess.run([*PERF, "true"], stderr=subprocess.PIPE, text=True)
        return ran.returncode == 0 and ran.stderr[:1].isdigit()

    def count(self, pid, work):
        """Returns the instructions of a process and all its threads while `work` runs."""
        counting = subprocess.Popen([*PERF, "-p", str(pid)], stderr=subprocess.PIPE, text=True)
        try:
            time.sleep(ATTACHING)
            work()
            counting.send_signal(signal.SIGINT)
            told = counting.communicate(timeout=10)[1]
        finally:
            counting.kill()
            counting.wait()
        if not told[:1].isdigit():
            raise Failure(f"perf says: {told.strip()[-300:]}")
        return int(told.split(",")[0])


class Valgrind:
    """Runs the program about fifty times slower, on one processor, as one that has no later extension than AVX2."""

    name = f"valgrind {platform.machine()}"

    def __init__(self, folder):
        self.folder, self.library = folder, f"{folder}/sigsuspend.so"
        output_of(["clang", "-shared", "-fPIC", "-o", self.library, f"{HERE}/instructions/sigsuspend.c"])

    def command(self, path):
        # Debian's valgrind ends when it reads Swift's debug information.
        stripped = f"{self.folder}/{os.path.basename(path)}"
        output_of(["strip", "--strip-debug", "-o", stripped, path])
        # Without fairness a busy thread keeps the others from running for seconds.
        return ["env", f"LD_PRELOAD={self.library}", "valgrind", "--tool=callgrind", "--instr-atstart=no",
                "--fair-sched=yes", f"--callgrind-out-file={self.folder}/callgrind.%p", stripped]

    def count(self, pid, work):
        """Returns the instructions of a process and all its threads while `work` runs."""
        self.tell(pid, "--instr=on")
        self.tell(pid, "--zero")
        work()
        # What threads have counted that ended meanwhile is only in a dump, which also stops the count.
        self.tell(pid, "--dump")
        self.tell(pid, "--instr=off")
        dump = max(Path(self.folder).glob(f"callgrind.{pid}.*"), key=lambda path: int(path.suffix[1:]))
        found = re.search(r"^totals: (\d+)$", dump.read_text(), re.MULTILINE)
        if not found:
            raise Failure(f"{dump} has no totals")
        return int(found[1])

    @staticmethod
    def tell(pid, option):
        return output_of(["callgrind_control", option, str(pid)])
