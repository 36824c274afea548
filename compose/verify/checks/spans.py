"""Parses bodies that services send to a collector of traces with OTLP's own types, from the files that are named."""
import base64
import json
import sys

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

LINKS = 8


def with_base64(value):
    """Returns JSON of protobuf, whose bytes are base64; in OTLP identifiers are hexadecimal.

    >>> with_base64([{"traceId": "00" * 16, "name": "a"}])
    [{'traceId': 'AAAAAAAAAAAAAAAAAAAAAA==', 'name': 'a'}]
    """
    if isinstance(value, list):
        return [with_base64(element) for element in value]
    if not isinstance(value, dict):
        return value
    names = ("traceId", "spanId", "parentSpanId")
    return {
        name: base64.b64encode(bytes.fromhex(member)).decode() if name in names else with_base64(member)
        for name, member in value.items()
    }


def check(text):
    """Returns the number of spans, which must be complete."""
    request = json_format.Parse(json.dumps(with_base64(json.loads(text))), ExportTraceServiceRequest())
    spans = [span for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans]
    for span in spans:
        assert len(span.trace_id) == 16 and any(span.trace_id), span
        assert len(span.span_id) == 8 and any(span.span_id), span
        assert len(span.parent_span_id) == 8 and span.parent_span_id != span.span_id, span
        assert span.name.startswith("waybill.") and span.kind, span
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano, span
        assert all(span.start_time_unix_nano <= event.time_unix_nano for event in span.events), span
        assert len(span.links) <= LINKS and all(len(link.span_id) == 8 for link in span.links), span
    return len(spans)


def main():
    counts = [check(open(path, encoding="utf-8").read()) for path in sys.argv[1:]]
    assert counts and all(counts), "no span"
    print(sum(counts), "spans")


if __name__ == "__main__":
    main()
