"""
Compares the decoder of Avro with PyPI's fastavro: random values of random schemas must be equal JSON.

avro.py [--cases N] [--seed S]    300 cases, from seed 1. `compose/verify/fuzz` builds the program that decodes.
"""
import argparse
import base64
import datetime
import decimal
import io
import json
import os
import random
import struct
import subprocess
import tempfile
import uuid

import fastavro

ROOT = os.path.abspath(f"{os.path.dirname(__file__)}/../../..")
UTC = datetime.timezone.utc
FIRST, LAST = datetime.datetime(1, 1, 1, tzinfo=UTC), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
# The meanings that become texts, those that do not, and some that are of another type, which a reader ignores.
LOGICAL = (
    ("int", "date"), ("long", "timestamp-millis"), ("long", "timestamp-micros"), ("long", "local-timestamp-millis"),
    ("long", "local-timestamp-micros"), ("int", "time-millis"), ("long", "time-micros"), ("string", "uuid"),
    ("long", "timestamp-nanos"), ("long", "local-timestamp-nanos"), ("bytes", "big-decimal"),
    ("int", "timestamp-millis"), ("long", "date"), ("string", "date"), ("bytes", "timestamp-micros"),
    ("int", "unheard-of"))
# Accents that combine, texts that look like others, and all lengths of UTF-8.
LETTERS = "aZ09_ \0\n\"\\/\x7fe\u0301\u00e9\u00df\u1e9e\u2028\ufb01\ufeff\uffff\U0001f600\U0010ffff"

# A time of day is a number in JSON, as it is in the encoding.
for name in ("int-time-millis", "long-time-micros"):
    del fastavro.read.LOGICAL_READERS[name], fastavro.write.LOGICAL_WRITERS[name]


def exact(read):
    """Wraps fastavro's reader of decimals, which rounds one with more digits than its schema allows, and reads no bytes."""
    def checked(content, writer, reader):
        if not content or len(str(abs(int.from_bytes(content, "big", signed=True)))) > writer["precision"]:
            raise ValueError("too many digits")
        return read(content, writer, reader)
    return checked


for name in ("bytes-decimal", "fixed-decimal"):
    fastavro.read.LOGICAL_READERS[name] = exact(fastavro.read.LOGICAL_READERS[name])


def nanoseconds(number):
    """
    >>> nanoseconds(-1), nanoseconds(1_767_628_931_120_000_000)
    ('1969-12-31T23:59:59.999999999', '2026-01-05T16:02:11.120')
    """
    seconds, rest = divmod(number, 10 ** 9)
    text = (datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)).isoformat()
    digits = f"{rest:09}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{text}.{digits}" if digits else text


def duration(content):
    """
    >>> duration(struct.pack("<III", 1, 2, 3004)), duration(bytes(12))
    ('P1M2DT3.004S', 'PT0S')
    """
    months, days, rest = struct.unpack("<III", content)
    date = (f"{months}M" if months else "") + (f"{days}D" if days else "")
    seconds = f"{rest // 1000}" + (f".{rest % 1000:03}" if rest % 1000 else "")
    return f"P{date}T{seconds}S" if rest or not date else f"P{date}"


def with_scale(content):
    """
    >>> with_scale(b"\\x02\\xff\\x03"), with_scale(b"\\x04#\\x14\\x04"), with_scale(b"\\x02\\0\\x03")
    ('-100', '89.80', '0')
    """
    reader = io.BytesIO(content)
    unscaled, scale = (fastavro.schemaless_reader(reader, form, None) for form in ("bytes", "int"))
    if reader.read() or not 1 <= len(unscaled) <= 64 or abs(scale) > 64:
        raise ValueError("these are other bytes")
    number = int.from_bytes(unscaled, "big", signed=True)
    digits = tuple(map(int, str(abs(number))))
    return f"{decimal.Decimal((int(number < 0), digits, -scale)):f}"


# Logical types that fastavro does not know, by the specification.
fastavro.read.LOGICAL_READERS |= {
    "long-timestamp-nanos": lambda number, writer, reader: nanoseconds(number) + "Z",
    "long-local-timestamp-nanos": lambda number, writer, reader: nanoseconds(number),
    "bytes-big-decimal": lambda content, writer, reader: with_scale(content),
    # Of another size they are ignored.
    "fixed-uuid": lambda content, writer, reader: str(uuid.UUID(bytes=content)) if len(content) == 16 else content,
    "fixed-duration": lambda content, writer, reader: duration(content) if len(content) == 12 else content}


class Maker:
    """
    Makes a schema, and values of it.

    named: of each type that was defined so far, its full name, its schema, and whether it has no bytes.
    """

    def __init__(self, lot):
        self.lot, self.named, self.open, self.count = lot, {}, [], 0

    def schema(self, depth, space="", is_branch=False):
        """Returns a type that may contain others to this depth. space: the namespace that encloses it."""
        kinds = ["primitive", "primitive", "logical", "decimal", "enum", "fixed", "reference"]
        kinds += ["record", "record", "array", "map"] * (depth > 0) + ["union"] * (depth > 0 and not is_branch)
        kind = self.lot.choice(kinds)
        if kind == "reference":
            return self.reference(space) if self.named else "string"
        return getattr(self, kind)(depth, space)

    def primitive(self, _depth, _space):
        kind = self.lot.choice(PRIMITIVES)
        return self.lot.choice((kind, {"type": kind}))

    def logical(self, _depth, _space):
        kind, meaning = self.lot.choice(LOGICAL)
        return {"type": kind, "logicalType": meaning}

    def decimal(self, _depth, space):
        precision = self.lot.randrange(1, 61)
        more = {"logicalType": "decimal", "precision": precision, "scale": self.lot.randrange(precision + 1)}
        if self.lot.random() < 0.1:
            del more["scale"]
        if self.lot.random() < 0.5:
            return {"type": "bytes"} | more
        return self.define({"type": "fixed", "size": 26} | more, space)[0]

    def enum(self, _depth, space):
        return self.define({"type": "enum", "symbols": [f"S{n}" for n in range(self.lot.randrange(1, 200))]}, space)[0]

    def fixed(self, _depth, space):
        size, meaning = self.lot.choice(
            ((0, None), (1, None), (2, "uuid"), (16, None), (300, "duration"), (16, "uuid"), (12, "duration")))
        return self.define({"type": "fixed", "size": size} | ({"logicalType": meaning} if meaning else {}), space)[0]

    def array(self, depth, space):
        items = self.schema(depth - 1, space)
        # The decoder refuses items without bytes; a union has one for its branch.
        return {"type": "array", "items": [items] if self.is_empty(items, space) else items}

    def map(self, depth, space):
        return {"type": "map", "values": self.schema(depth - 1, space)}

    def union(self, depth, space):
        branches, kinds = [], set()
        for _ in range(self.lot.randrange(1, 5)):
            branch = self.schema(depth - 1, space, is_branch=True)
            kind = branch if isinstance(branch, str) else branch.get("full", branch["type"])
            # Each unnamed type once.
            if self.full(kind, space) not in kinds:
                kinds.add(self.full(kind, space))
                branches.append(branch)
        return branches

    def record(self, depth, space):
        made, inner = self.define({"type": "record", "fields": []}, space)
        self.open.append(made)
        for number in range(self.lot.randrange(0, 7)):
            if self.lot.random() < 0.8:
                kind = self.schema(depth - 1, inner)
            else:
                name = self.reference_of(self.lot.choice(self.open)["full"], inner)
                kind = self.lot.choice((
                    ["null", name], [name, "null"], {"type": "map", "values": name},
                    {"type": "array", "items": ["null", name]}))
            made["fields"].append({"name": f"f{number}", "type": kind})
        self.open.pop()
        return made

    def define(self, made, space):
        """Gives a type a name, in a way that its place allows. Returns it, and the namespace inside it."""
        self.count += 1
        short, inner = f"N{self.count}", self.lot.choice((space, space, "", "a", "a.b", f"n{self.count}"))
        if inner == space:
            made["name"] = short
        elif inner and self.lot.random() < 0.5:
            made["name"] = f"{inner}.{short}"
        else:
            made |= {"name": short, "namespace": inner}
        made["full"] = f"{inner}.{short}" if inner else short
        self.named[made["full"]] = made
        return made, inner

    def reference(self, space):
        """Returns the name of a complete type, for one that is open would be endless."""
        names = [name for name, made in self.named.items() if made not in self.open and self.can_name(name, space)]
        return self.reference_of(self.lot.choice(names), space) if names else "long"

    def can_name(self, full, space):
        return "." in full or not space

    def reference_of(self, full, space):
        """
        >>> Maker(random.Random(1)).reference_of("a.N1", "b")
        'a.N1'
        """
        if not self.can_name(full, space):
            return "string"
        short = full.rpartition(".")[2]
        return short if f"{space}.{short}" == full and self.lot.random() < 0.5 else full

    @staticmethod
    def full(name, space):
        """
        >>> Maker.full("int", "a"), Maker.full("N1", "a"), Maker.full("b.N1", "a"), Maker.full("N1", "")
        ('int', 'a.N1', 'b.N1', 'N1')
        """
        return name if "." in name or not space or not name.startswith("N") else f"{space}.{name}"

    def is_empty(self, kind, space):
        """Returns true if a value may have no bytes; what is not known counts as empty."""
        if isinstance(kind, list):
            return False
        if isinstance(kind, str):
            kind = self.named.get(self.full(kind, space), kind)
        form = kind if isinstance(kind, str) else kind["type"]
        if form == "record":
            inside = kind["full"].rpartition(".")[0]
            return kind in self.open or all(self.is_empty(field["type"], inside) for field in kind["fields"])
        return form == "null" or form == "fixed" and kind["size"] == 0

    # --- values ------------------------------------------------------------------------------------------------------

    def value(self, kind, space, depth):
        """Returns a value; at depth 0 one that ends as soon as it can."""
        if isinstance(kind, list):
            ends = [branch for branch in kind if branch == "null"] if depth <= 0 else []
            return self.value(self.lot.choice(ends or kind), space, depth - 1)
        if isinstance(kind, str):
            kind = self.named.get(self.full(kind, space), {"type": kind})
        form, meaning = kind["type"], kind.get("logicalType")
        if form == "record":
            inner = kind["full"].rpartition(".")[0]
            return {field["name"]: self.value(field["type"], inner, depth - 1) for field in kind["fields"]}
        if form in ("array", "map"):
            count = self.lot.choice((0, 1, 2, 5)) if depth > 0 else 0
            if form == "array":
                return [self.value(kind["items"], space, depth - 1) for _ in range(count)]
            return {self.text(): self.value(kind["values"], space, depth - 1) for _ in range(count)}
        if form == "enum":
            return self.lot.choice(kind["symbols"])
        if meaning == "decimal":
            digits = self.lot.randrange(kind["precision"] + 1)
            number = self.lot.choice((-1, 1)) * self.lot.randrange(10 ** digits)
            return decimal.Decimal(f"{number}e-{kind.get('scale', 0)}")
        if form == "fixed":
            return self.lot.randbytes(kind["size"])
        return self.simple(form, meaning)

    def simple(self, form, meaning):
        moment = FIRST + (LAST - FIRST) * self.lot.random() if self.lot.random() < 0.5 else \
            datetime.datetime.fromtimestamp(0, UTC) + datetime.timedelta(microseconds=self.lot.randint(-1 << 50, 1 << 50))
        if (form, meaning) == ("int", "date"):
            return moment.date()
        if meaning == "big-decimal":
            coded = io.BytesIO()
            fastavro.schemaless_writer(coded, "bytes", self.lot.randbytes(self.lot.randrange(1, 65)))
            fastavro.schemaless_writer(coded, "int", self.lot.randrange(-64, 65))
            return coded.getvalue()
        if form == "long" and meaning and "timestamp" in meaning and "nanos" not in meaning:
            moment = moment.replace(microsecond=self.lot.choice((0, 1000, moment.microsecond // 1000 * 1000))) \
                if "millis" in meaning or self.lot.random() < 0.5 else moment
            return moment.replace(tzinfo=None) if "local" in meaning else moment
        if meaning == "uuid":
            text = self.lot.randbytes(16).hex()
            return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
        if form in ("int", "long"):
            # The least and the greatest moment stand for infinity.
            bits = self.lot.randrange(32 if form == "int" else 63 if meaning and "nanos" in meaning else 64)
            return self.lot.choice((-(1 << bits), (1 << bits) - 1, self.lot.randrange(-(1 << bits), 1 << bits)))
        if form in ("float", "double"):
            return self.number(form)
        return {
            "null": lambda: None, "boolean": lambda: self.lot.random() < 0.5,
            "bytes": lambda: self.lot.randbytes(self.lot.choice((0, 1, 2, 3, 70, 200))), "string": self.text}[form]()

    def number(self, form):
        while True:
            size = 4 if form == "float" else 8
            number, = struct.unpack("<f" if size == 4 else "<d", self.lot.randbytes(size))
            number = self.lot.choice((number, 0.0, -0.0, 0.1, 1e6, float(self.lot.randint(-1 << 60, 1 << 60))))
            # Those that are not finite have no JSON.
            if abs(number) < float("inf"):
                return number

    def text(self):
        return "".join(self.lot.choice(LETTERS) for _ in range(self.lot.choice((0, 1, 2, 4, 80))))


def as_json(value):
    """
    Returns a value as fastavro reads it, as the decoder's JSON has it.

    >>> as_json([decimal.Decimal("-0.50"), datetime.date(2026, 1, 2), b"\\xff", {"a": None}])
    ['-0.50', '2026-01-02', '/w==', {'a': None}]
    >>> as_json(datetime.datetime(2026, 1, 2, 3, 4, 5, 120_000, UTC)), as_json(datetime.datetime(1, 1, 2, 3, 4, 5, 1))
    ('2026-01-02T03:04:05.120Z', '0001-01-02T03:04:05.000001')
    """
    if isinstance(value, dict):
        return {name: as_json(member) for name, member in value.items()}
    if isinstance(value, list):
        return [as_json(element) for element in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if isinstance(value, datetime.datetime):
        digits = 0 if not value.microsecond else 3 if value.microsecond % 1000 == 0 else 6
        text = value.replace(tzinfo=None, microsecond=0).isoformat()
        return text + (f".{value.microsecond:06}"[:digits + 1] if digits else "") + ("Z" if value.tzinfo else "")
    if isinstance(value, datetime.date):
        return value.isoformat()
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def difference(found, expected, path="$"):
    """
    Returns the first difference of two values; empty if there is none. A float has no more digits than it needs.

    >>> difference({"a": [1, 0.1]}, {"a": [1, 0.10000000149011612]})
    ''
    >>> difference({"a": [1]}, {"a": [1.0]}), difference({}, {"b": None}), difference(True, 1)
    ('$["a"][0]: 1 instead of 1.0', '$: {} instead of {"b": null}', '$: true instead of 1')
    """
    if type(found) is type(expected):
        if isinstance(found, dict) and found.keys() == expected.keys():
            pairs = ((found[name], expected[name], f"{path}[{json.dumps(name)}]") for name in found)
            return next(filter(None, (difference(*pair) for pair in pairs)), "")
        if isinstance(found, list) and len(found) == len(expected):
            pairs = ((*pair, f"{path}[{number}]") for number, pair in enumerate(zip(found, expected)))
            return next(filter(None, (difference(*pair) for pair in pairs)), "")
        if isinstance(found, float) and expected in (found, single(found)):
            return ""
        if not isinstance(found, float) and found == expected:
            return ""
    return f"{path}: {json.dumps(found)} instead of {json.dumps(expected)}"


def single(number):
    try:
        return struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return number


def case(number, seed):
    """Returns the bytes of a case, a schema in the first line and a value, and the value's JSON."""
    lot = random.Random(f"{seed}/{number}")
    while True:
        maker, coded = Maker(lot), io.BytesIO()
        # Without our own member of named types.
        schema = json.loads(
            json.dumps(made := maker.schema(4)), object_hook=lambda found: {k: found[k] for k in found if k != "full"})
        try:
            parsed = fastavro.parse_schema(schema)
            fastavro.schemaless_writer(coded, parsed, maker.value(made, "", 8))
            value = fastavro.schemaless_reader(io.BytesIO(coded.getvalue()), parsed, None)
        except (ValueError, EOFError, fastavro.schema.UnknownType):
            # Once in 600: fastavro writes another branch of a union, which cannot hold the value, or a union had a list
            # twice, and types inside the second one are not defined.
            continue
        return json.dumps(schema).encode() + b"\n" + coded.getvalue(), as_json(value)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    program = subprocess.run([f"{ROOT}/compose/verify/fuzz", "--program"], check=True, stdout=subprocess.PIPE, text=True)
    failures = 0
    with tempfile.TemporaryDirectory(prefix="waybill-avro.") as folder:
        expected = []
        for number in range(arguments.cases):
            content, value = case(number, arguments.seed)
            expected.append(value)
            with open(f"{folder}/{number}", "wb") as file:
                file.write(content)
        lines = []
        # As many names as a command line takes.
        for first in range(0, arguments.cases, 10_000):
            names = map(str, range(first, min(first + 10_000, arguments.cases)))
            lines += subprocess.run(
                [program.stdout.strip(), *names], cwd=folder, check=True, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True,
                env=os.environ | {"WAYBILL_FUZZ_DECODER": "avro", "WAYBILL_FUZZ_PRINT": "1"}).stdout.split("\n")[:-1]
    assert len(lines) == len(expected), f"{len(lines)} answers to {len(expected)} cases"
    for number, (line, value) in enumerate(zip(lines, expected)):
        text = line if line.startswith("refused: ") else difference(json.loads(line), value)
        if text:
            failures += 1
            schema = case(number, arguments.seed)[0].partition(b"\n")[0].decode()
            print(f"case {number} of seed {arguments.seed}: {text[:500]}\n  {schema[:1500]}")
    print(f"avro: {len(expected) - failures} of {len(expected)} random values are as fastavro reads them")
    return failures > 0


if __name__ == "__main__":
    raise SystemExit(main())
