"""Compares the README of compose/connect/publish with the codes in the programs, and the outbox with Debezium's router."""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
STATUSES = {
    "badRequest": 400, "unauthorized": 401, "forbidden": 403, "notFound": 404, "methodNotAllowed": 405,
    "requestTimeout": 408, "conflict": 409, "payloadTooLarge": 413, "uriTooLong": 414, "unsupportedMediaType": 415,
    "expectationFailed": 417, "unprocessableEntity": 422, "tooManyRequests": 429, "requestHeaderFieldsTooLarge": 431,
    "internalServerError": 500, "notImplemented": 501, "badGateway": 502, "serviceUnavailable": 503,
    "gatewayTimeout": 504, "httpVersionNotSupported": 505,
}
# Source: io.debezium.transforms.outbox.EventRouterConfigDefinition, Debezium 2 and 3
ROUTER_OPTIONS = {
    "type", "table.op.invalid.behavior", "table.field.event.id", "table.field.event.key", "table.field.event.type",
    "table.field.event.timestamp", "table.field.event.payload", "table.field.event.schema.version",
    "table.fields.additional.placement", "table.fields.additional.error.on.missing", "table.expand.json.payload",
    "table.json.payload.null.behavior", "route.by.field", "route.topic.regex", "route.topic.replacement",
    "route.tombstone.on.empty.payload",
}


def cases(swift):
    """Returns the raw values of an enumeration's cases, by name.

    >>> cases('case a = "one-two"\\n    case `internal`\\n case unavailable\\n case .a, .unavailable: 1')
    {'a': 'one-two', 'internal': 'internal', 'unavailable': 'unavailable'}
    """
    found = re.findall(r'^ *case `?(\w+)`?(?: = "([a-z_-]+)")?$', swift, re.MULTILINE)
    return {name: value or name for name, value in found}


def statuses(swift):
    """Returns the status of each case, from the switch of `status`.

    >>> statuses("switch self {\\ncase .a, .b:\\n    .badRequest\\ncase .internal: .internalServerError\\n}")
    {'a': 400, 'b': 400, 'internal': 500}
    """
    found = re.findall(r"case ((?:\.\w+,? *)+):\s+\.(\w+)", swift)
    return {name: STATUSES[status] for names, status in found for name in re.findall(r"\.(\w+)", names)}


def rows(document, columns):
    """Yields the first cells of the rows with a code, from the tables with this many columns.

    >>> list(rows("| status | `code` | c | f |\\n|---|---|---|---|\\n| 400 | `a_b` | x | y |\\n| `c` | x | y |", 4))
    [('400', 'a_b')]
    >>> list(rows("| `c-d` | x | y |", 3))
    [('c-d',)]
    """
    for line in document.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        first = cells[:columns - 2]
        if line.startswith("| ") and len(cells) == columns and re.fullmatch(r"`[a-z_-]+`", first[-1]):
            if first[-1] not in ("`code`", "`waybill-error`"):
                yield tuple(cell.strip("`") for cell in first)


def differences(what, documented, programmed):
    """Returns a sentence for each row that is in one of the two only, or twice in the document.

    >>> differences("code", [("a",), ("a",), ("b",)], [("a",), ("c",)])
    ['code a: twice in the table', 'code b: not in the programs', 'code c: not in the table']
    """
    documented, programmed = list(documented), set(programmed)
    found = [(row, "twice in the table") for row in sorted(set(documented)) if documented.count(row) > 1]
    found += [(row, "not in the programs") for row in sorted(set(documented) - programmed)]
    found += [(row, "not in the table") for row in sorted(programmed - set(documented))]
    return [f"{what} {' '.join(row)}: {sentence}" for row, sentence in found]


def codes(document):
    letters = [value for file in ("ChangeFault", "PushDeadLetterCode")
               for value in cases((ROOT / f"Shared/Model/Changes/{file}.swift").read_text()).values()]
    failure = (ROOT / "Services/Checkout/Surface/CheckoutFailure.swift").read_text()
    by_case, answers = statuses(failure.split("var status")[1].split("var type")[0]), cases(failure)
    if len(letters) < 15 or len(answers) < 25:
        return [f"codes were not found: {letters} {answers}"]
    return [
        *differences("dead letter", rows(document, 3), [(code,) for code in letters]),
        *differences("answer", rows(document, 4), [(str(by_case[name]), code) for name, code in answers.items()])]


def outbox(connector, table):
    """Returns the faults of a connector's configuration, beside the table that it reads.

    >>> good = {"transforms": "outbox", "table.include.list": "public.t", "transforms.outbox.route.by.field": "k"}
    >>> good |= {f"{part}.converter": "a.StringConverter" for part in ("key", "value", "header")}
    >>> good |= {"transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
    ...          "transforms.outbox.route.topic.replacement": "waybill.order-changes"}
    >>> good |= {f"transforms.outbox.table.field.event.{part}": "k" for part in ("id", "key", "payload")}
    >>> outbox({"config": good}, "CREATE TABLE t (\\n    k text\\n);")
    []
    >>> outbox({"config": good | {"transforms.outbox.table.field.payload": "k", "value.converter": "JsonConverter"}},
    ...        "CREATE TABLE t (\\n    l text\\n);")[:3]
    ['table.field.payload: no option of the router', 'value.converter: not the StringConverter', 'k: no column of t']
    """
    config = connector["config"]
    prefix = f"transforms.{config['transforms']}."
    router = {name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)}
    name, body = re.search(r"CREATE TABLE (\w+) \((.*?)^\);", table, re.MULTILINE | re.DOTALL).groups()
    columns = re.findall(r"^ +(\w+) ", body, re.MULTILINE)
    faults = [f"{option}: no option of the router" for option in router if option not in ROUTER_OPTIONS]
    faults += [f"{part}.converter: not the StringConverter" for part in ("key", "value", "header")
               if not config.get(f"{part}.converter", "").endswith(".StringConverter")]
    used = [router.get(f"table.field.event.{part}", part) for part in ("id", "key", "payload")]
    used.append(router.get("route.by.field", "aggregatetype"))
    used += [part.split(":")[0] for part in router.get("table.fields.additional.placement", "").split(",") if part]
    faults += [f"{column}: no column of {name}" for column in used if column not in columns]
    expected = {
        "type": "io.debezium.transforms.outbox.EventRouter", "route.topic.replacement": "waybill.order-changes"}
    faults += [f"{option}: must be {value}" for option, value in expected.items() if router.get(option) != value]
    if config.get("table.include.list") != f"public.{name}":
        faults.append(f"table.include.list: must be public.{name}")
    return faults


def main():
    folder = ROOT / "compose/connect/publish"
    problems = codes((folder / "README.md").read_text())
    problems += outbox(json.loads((folder / "outbox.json").read_text()), (folder / "outbox.sql").read_text())
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
