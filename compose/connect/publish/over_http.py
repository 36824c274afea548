#!/usr/bin/env python3
"""Publishes a change of an order over HTTP, with nothing but Python 3.9.

  over_http.py merge ORDER ID <DATA     what this source knows of the order: a JSON object
  over_http.py remove ORDER ID          removes the order

ORDER   <order type>/<order>
ID      the change's name in your system, such as the key of its row: sent again under this name, it has one effect

CHECKOUT_URL, in the environment, is the address of `waybill-gateway checkout`; CHECKOUT_KEY_FILE a file with a key of
the scope `orders`, which also names the source. Prints the answer.
"""
import http.client
import json
import os
import sys
import time
import urllib.parse

# By verb: method, and the end of the path.
ROUTES = {"merge": ("POST", "/merge"), "remove": ("DELETE", "")}
# Seconds until the first try is repeated, the second, and so on, unless the answer asks for more.
PAUSES = (1, 2, 4, 8, 16)
LONGEST_PAUSE = 60
TRANSIENT = (429, 500, 502, 503, 504)


class Refused(Exception):
    """An answer that stays the same until the request or the configuration changes."""


class NotPublished(Exception):
    """The service could not be reached, or failed, several times. The change may have been published."""


def send(service, key, verb, order, identifier, data):
    """Sends a request once. Returns the status, the seconds to wait before the next try, and the body."""
    place = urllib.parse.urlsplit(service)
    connect = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
    connection = connect(place.netloc, timeout=30)
    try:
        method, end = ROUTES[verb]
        headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": identifier}
        if data is not None:
            headers["Content-Type"] = "application/json"
        connection.request(method, f"{place.path.rstrip('/')}/v1/checkout/orders/{order}{end}", data, headers)
        answer = connection.getresponse()
        wait = answer.headers.get("Retry-After", "")
        return answer.status, int(wait) if wait.isdecimal() else 0, answer.read().decode()
    finally:
        connection.close()


def publish(service, key, verb, order, identifier, data=None):
    """Returns the answer once all in-sync replicas of Kafka have the change.

    A request without an answer, or with one that may pass, is sent again with the same Idempotency-Key, so it has one
    effect. data: bytes of JSON; None for a removal.
    """
    said = ""
    for pause in (*PAUSES, None):
        try:
            status, wait, body = send(service, key, verb, order, identifier, data)
            if status == 202:
                return json.loads(body)
            said = f"{status} {body}"
            if status not in TRANSIENT and not (status == 409 and '"in_progress"' in body):
                raise Refused(said)
        except (OSError, http.client.HTTPException) as error:
            wait, said = 0, str(error)
        if pause is not None:
            time.sleep(min(max(pause, wait), LONGEST_PAUSE))
    raise NotPublished(said)


def main(words):
    if len(words) != 3 or words[0] not in ROUTES:
        sys.exit(__doc__)
    try:
        with open(os.environ["CHECKOUT_KEY_FILE"], encoding="ascii") as file:
            key = file.read().strip()
        data = sys.stdin.buffer.read() if words[0] == "merge" else None
        print(json.dumps(publish(os.environ["CHECKOUT_URL"], key, *words, data)))
    except KeyError as missing:
        sys.exit(f"over_http: {missing} is not set")
    except (OSError, Refused) as error:
        sys.exit(f"over_http: refused: {error}")
    except NotPublished as error:
        sys.exit(f"over_http: not published, publish it again under the same ID: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
