"""nginx with a configuration of a benchmark's own."""

import os
import pwd
from pathlib import Path

from processes import Program, listens, server


def start_nginx(folder, text, words, ports):
    """
    Starts nginx, and returns it when it listens on all ports.

    text: its configuration. words: what takes the place of the words between @, beside USER and DIR, the folder.
    """
    for word, value in (words | {"USER": pwd.getpwuid(os.getuid()).pw_name, "DIR": folder}).items():
        text = text.replace(f"@{word}@", str(value))
    if os.getuid() != 0:
        text = "".join(line for line in text.splitlines(True) if not line.startswith("user "))
    Path(f"{folder}/nginx.conf").write_text(text)
    nginx = Program(
        [server("nginx"), "-e", f"{folder}/nginx.log", "-p", folder, "-c", f"{folder}/nginx.conf"],
        f"{folder}/nginx.log")
    return nginx.await_ready(lambda: all(map(listens, ports)))
