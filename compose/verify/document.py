"""Runs the commands of a document as a reader would: the fenced blocks that follow `run` comments.

    <!-- run -->                                to its end
    <!-- run: background, until "text" -->      until its output contains the text; it keeps running
"""
import os
import re
import signal
import subprocess
import threading
import time

BLOCK = re.compile(r"<!-- run(?P<how>[^>]*?) -->\n```bash\n(?P<text>.*?)```", re.S)


def blocks(path):
    """Returns `[(how, commands)]` in their order."""
    with open(path, encoding="utf-8") as file:
        return [(match["how"].removeprefix(": "), match["text"]) for match in BLOCK.finditer(file.read())]


class Reader:
    """Runs blocks in a folder; `close` ends everything that it started."""

    def __init__(self, folder, environment=None):
        self.folder = folder
        self.environment = dict(os.environ, **(environment or {}))
        self.running = []

    def run(self, commands, seconds=600, check=True):
        """Runs a block. Returns its exit code, which is 0 unless `check` is false."""
        return subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=self.folder, env=self.environment,
                              check=check, timeout=seconds).returncode

    def start(self, commands, until, seconds=1800):
        """Starts a block, waits for a text in its output, and returns that output, which keeps growing."""
        process = subprocess.Popen(["bash", "-euo", "pipefail", "-c", commands], cwd=self.folder, env=self.environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self.running.append(process)
        lines, changed = [], threading.Condition()

        def read():
            for line in process.stdout:
                with changed:
                    lines.append(line.rstrip("\n"))
                    changed.notify_all()
            with changed:
                lines.append(None)
                changed.notify_all()

        threading.Thread(target=read, daemon=True).start()
        output = Output(lines, changed)
        output.wait(until, seconds)
        return output

    def close(self):
        for process in reversed(self.running):
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(90)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            process.stdout.close()


class Output:
    def __init__(self, lines, changed):
        self.lines, self.changed = lines, changed

    def wait(self, text, seconds=60):
        """Waits for the first line that contains a text, and returns it."""
        end = time.monotonic() + seconds
        with self.changed:
            while True:
                found = next((line for line in self.lines if line and text in line), None)
                if found:
                    return found
                if None in self.lines or time.monotonic() > end:
                    raise AssertionError(f"no {text!r} in: {[line for line in self.lines if line][-20:]}")
                self.changed.wait(1)
