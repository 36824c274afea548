"""The processor time of a process by the purpose of the code."""

import re
import shutil
from collections import Counter

from processes import output_of
from stack import Failure

SECONDS, HERTZ = 2, 999
# The first pattern that matches library and symbol of the innermost function. Swift symbols start with the module.
ALLOCATOR = (
    r"_?(malloc|calloc|realloc|free|cfree|int_malloc|int_free|posix_memalign)|unlink_chunk|sysmalloc|tcache"
    r"|swift_(retain|release|alloc|dealloc|slow|bridge|isUnique|setDealloc|unowned|weak|arc)"
    r"|swift.*(RefCount|[aA]lloc|[rR]etain|[rR]elease|[dD]estroy|isUniquely)"
    # Outlined copies and value witnesses.
    r"|\$s\S+(W[OIV][a-z]|w(xx|cp|ca|et|st))$"
)
GROUPS = (
    ("kernel", r"^\[(kernel|guest|vdso)"),
    # The assembly of big numbers and of SHA has no symbols in Debian's library; nothing else there takes much time.
    ("RSA", r"^libcrypto\S* (\[unknown\]|.*(bn_|BN_|rsa|RSA|mont))"),
    ("SHA", r"^libcrypto\S* .*(sha|SHA)"),
    ("other libcrypto", r"^libcrypto"),
    ("deflate, CRC", r"^lib(z|deflate)\."),
    ("Kafka", r"^(librdkafka|libsasl|liblz4|libzstd)| .*(5Kafka|KafkaRecord|KafkaMessage)"),
    ("allocator, ARC", f" .*({ALLOCATOR})"),
    ("copying", r" _*mem(cpy|move|set|cmp|chr)"),
    ("Redis, NIO", r"^libhiredis| .*(5Redis|5Store|3NIO|7NIOCore|8NIOPosix|ByteBuffer)"),
    ("JSON, model", r" .*(5Model|JSON)"),
    ("packaging", r" .*(9Packaging|6Brands|6Tokens|12Cryptography)"),
    ("Swift's runtime", r"^libswift| (swift_|\$s[Ss])"),
    ("C library", r"^(libc|ld-)"),
)


def profile(pid, file):
    """Returns group, share of all time, and the three largest functions of each group, in descending order."""
    if not shutil.which("perf"):
        raise Failure("--profile needs the program perf")
    output_of(["perf", "record", "-q", "-e", "cpu-clock", "-F", str(HERTZ), "-p", str(pid), "-o", file, "--",
               "sleep", str(SECONDS)])
    report = output_of(["perf", "script", "-i", file, "-F", "ip,sym,dso", "--no-demangle"])
    samples = Counter(named(line) for line in report.splitlines() if line.strip())
    total = sum(samples.values())
    if not total:
        raise Failure("perf took no samples: the packager did no work")
    groups = {}
    for name, count in samples.items():
        groups.setdefault(group(name), Counter())[name.split(" ", 1)[1][:60]] += count
    ordered = sorted(groups.items(), key=lambda item: -sum(item[1].values()))
    return [(name, sum(counts.values()) / total, most(counts, total)) for name, counts in ordered]


def most(counts, total):
    return ", ".join(f"{symbol} {count / total:.1%}" for symbol, count in counts.most_common(3))


def named(line):
    """Returns the library and the symbol of a line."""
    found = re.match(r"\s*[0-9a-f]+ (.*) \(([^()]*(?:\([^()]*\))?[^()]*)\)\s*$", line)
    if not found:
        return "[unknown] [unknown]"
    symbol, library = found.groups()
    return f"{library.rsplit('/', 1)[-1]} {symbol}"


def group(name):
    return next((title for title, pattern in GROUPS if re.search(pattern, name)), "the rest")
