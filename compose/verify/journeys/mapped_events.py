"""
Events of a shop, of its depot and of carriers, what becomes of their orders, and how ingest workers are disturbed.
"""

import json
import typing
from datetime import datetime, timedelta, timezone

from ingest import records

SHOP, DEPOT, TRACKERS, NOISE = "shop.orders", "depot.shipments", "carrier.trackers", "noise.events"
# An embedded broker gives each topic four partitions of 5 MiB.
SCANS = [f"carrier.scans-{number}" for number in range(1, 17)]
CARRIER = "Express"
MERCHANT = {"merchantIdentifier": "merchant.com.example", "displayName": "Shop", "url": "https://shop.example"}
URL = "https://shop.example/orders/"
BEGAN = datetime(2026, 1, 5, 10, tzinfo=timezone.utc)
# Few, so that sources often repeat a value, and often contradict each other.
STATUSES = ("processing", "onTheWay", "issue", "delivered")
DEPOT_MEMBERS = {"link": "trackingURL", "shipped": "shippedAt", "status": "status"}
# What depots send in the place of members that an order can do without.
BROKEN = {"link": "see the mail", "shipped": "yesterday", "status": "TELEPORTED"}
SCHEMA = {"type": "record", "name": "Scan", "fields": [
    {"name": name, "type": "long" if name == "at" else "string"}
    for name in ("carrier", "parcel", "status", "place", "at", "id")]}


class Event(typing.NamedTuple):
    """What happened to an order. topic: SHOP, DEPOT or TRACKERS. number: in the order's own sequence, from 0."""

    topic: str
    order: str
    number: int
    body: dict
    # The member of its body that its record has in a form that is not valid.
    broken: str = ""

    @property
    def moment(self):
        return BEGAN + timedelta(minutes=self.number)


def text_of(moment):
    """
    >>> text_of(BEGAN)
    '2026-01-05T10:00:00Z'
    """
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def story(order, count, lot):
    """
    Returns the events of an order: the first is the shop's, and a carrier has only parcels that the depot has named.

    >>> import random
    >>> events = story("a", 9, random.Random(3))
    >>> [event.topic.split(".")[0] for event in events[:4]], len(events), events[0].number, events[8].number
    (['shop', 'depot', 'carrier', 'carrier'], 9, 0, 8)
    >>> events == story("a", 9, random.Random(3))
    True
    """
    events, parcels = [], []
    for number in range(count):
        topic = lot.choice((SHOP, DEPOT, TRACKERS)) if number else SHOP
        if topic == TRACKERS and not parcels:
            topic = DEPOT
        if topic == SHOP:
            body = {"state": lot.choice(("open", "completed")), "cents": lot.randrange(1, 99_999), "items": [
                {"sku": f"S{sku}", "title": f"Product {sku}", "quantity": lot.randrange(1, 9), "cents": 1990 + sku}
                for sku in lot.sample(range(5), lot.randrange(1, 4))]}
            if lot.random() < 0.5:
                body["remark"] = f"revision {number}"
        else:
            shipment = f"f{lot.randrange(2)}" if topic == DEPOT else lot.choice(parcels)
            body = {"shipment": shipment, "parcel": f"{order}-{shipment}", "status": lot.choice(STATUSES)}
            if topic == DEPOT:
                body["note"] = lot.choice((None, f"note {number}"))
                if shipment not in parcels:
                    parcels.append(shipment)
            else:
                body |= {"place": f"place {lot.randrange(3)}", "id": f"{order}/{number}" if has_id(order) else ""}
        events.append(Event(topic, order, number, body))
    return events


def adorned(order, count, every, lot):
    """
    Returns an order of the shop and reports of its depot; of `every` reports one has a member that is not valid.

    >>> import random
    >>> events = adorned("a", 9, 4, random.Random(1))
    >>> [event.topic.split(".")[0] for event in events[:3]], [bool(event.broken) for event in events].count(True)
    (['shop', 'depot', 'depot'], 2)
    >>> events[0].broken + events[1].broken
    ''
    """
    events = [Event(SHOP, order, 0, {"state": "open", "cents": 1, "items": []})]
    for number in range(1, count):
        moment = BEGAN + timedelta(minutes=number)
        body = {
            "shipment": "f0", "parcel": f"{order}-f0", "status": lot.choice(STATUSES), "note": None,
            "link": f"https://carrier.example/{order}/{number}", "shipped": text_of(moment)}
        broken = lot.choice(sorted(BROKEN)) if every and (number + 1) % every == 0 else ""
        events.append(Event(DEPOT, order, number, body, broken))
    return events


def has_id(order):
    """
    Returns true if the carrier's events of an order have identifiers of their own.

    >>> has_id("a-7"), has_id("a-8")
    (False, True)
    """
    return order[-1] in "02468"


def repeatable(event):
    """Returns true if an event that is published once more must change nothing."""
    return event.topic != TRACKERS or event.body["id"] != ""


def interleaved(stories, active, lot):
    """
    Yields the events of all stories, each story in its order, with this many stories at a time.

    >>> import random
    >>> list(interleaved(iter([[1, 2], [3, 4], [5]]), 2, random.Random(1)))
    [1, 2, 3, 5, 4]
    """
    stories, running = iter(stories), []
    while True:
        while len(running) < active and (events := next(stories, None)):
            running.append(iter(events))
        if not running:
            return
        place = lot.randrange(len(running))
        if (event := next(running[place], None)) is not None:
            yield event
        else:
            running[place] = running[-1]
            running.pop()


# --- records ---------------------------------------------------------------------------------------------------------


def record(event, schema):
    """
    Returns topic, key, value and headers of an event's record. schema: the identifier of that of carriers.

    >>> record(Event(DEPOT, "a", 1, {"shipment": "f0", "parcel": "p", "status": "issue", "note": None}), 7)[3]["ce_id"]
    'a/1'
    >>> topic, key, value, _ = record(Event(TRACKERS, "a", 2, {
    ...     "shipment": "f0", "parcel": "p", "status": "issue", "place": "", "id": "a/2"}), 7)
    >>> topic, key, value[:20]
    ('carrier.trackers', 'p', b'\\x00\\x00\\x00\\x00\\x07\\x0eExpress\\x02p\\nissu')
    """
    moment, body = text_of(event.moment), event.body
    if event.broken:
        body = body | {event.broken: BROKEN[event.broken]}
    if event.topic == SHOP:
        whole = body | {
            "number": event.order, "revision": event.number, "placed": text_of(BEGAN), "changed": moment}
        return SHOP, event.order, records.text(whole), {}
    if event.topic == TRACKERS:
        return TRACKERS, body["parcel"], scan(body, int(event.moment.timestamp() * 1000), schema), {}
    attributes = {
        "specversion": "1.0", "type": "shipment", "source": "/depot", "id": f"{event.order}/{event.number}",
        "subject": event.order, "time": moment}
    data = body | {"carrier": CARRIER}
    # In both modes of CloudEvents in turn.
    if event.number % 2:
        headers = {f"ce_{name}": text for name, text in attributes.items()}
        return DEPOT, event.order, records.text(data), headers | {"content-type": "application/json"}
    return DEPOT, event.order, records.text(attributes | {"data": data}), {
        "content-type": "application/cloudevents+json"}


def scan(body, milliseconds, schema):
    """Returns the value of a carrier's record, in Avro with the framing of a registry."""
    return records.framed(body | {"carrier": CARRIER, "at": milliseconds}, SCHEMA, schema)


# --- the oracle ------------------------------------------------------------------------------------------------------


def document(events):
    """
    Returns the document that events of one order make; None without the shop's.

    The shop owns all that it sends. Of a shipment each member has the value that was written last, by the time of the
    event with which its source began to say so; a repetition does not renew it.

    >>> shop = Event(SHOP, "a", 0, {"state": "open", "cents": 100, "items": []})
    >>> def depot(number, status):
    ...     return Event(DEPOT, "a", number, {"shipment": "f0", "parcel": "p", "status": status, "note": None})
    >>> def carrier(number, status):
    ...     return Event(TRACKERS, "a", number, {"shipment": "f0", "status": status, "place": "x", "id": ""})
    >>> def status(*events):
    ...     return document(events)["fulfillments"][0]["status"]
    >>> status(shop, depot(1, "issue"), carrier(2, "delivered"))
    'delivered'
    >>> status(shop, carrier(2, "delivered"), depot(3, "issue"))
    'issue'
    >>> status(shop, depot(1, "issue"), carrier(2, "delivered"), depot(3, "issue"))
    'delivered'
    >>> status(shop, depot(1, "issue"), depot(2, "delivered")._replace(broken="status"))
    'issue'
    >>> document([shop])["payment"]["total"], document([depot(1, "issue")])
    ({'amount': '1.00', 'currency': 'EUR'}, None)
    """
    last, voices = None, {}
    for event in sorted(events, key=lambda event: event.number):
        if event.topic == SHOP:
            last = event
            continue
        body = event.body
        if event.topic == DEPOT:
            said = {
                "fulfillmentType": "shipping", "status": body["status"], "carrier": CARRIER,
                "trackingNumber": body["parcel"], "notes": body["note"]}
            said |= {DEPOT_MEMBERS[name]: body[name] for name in ("link", "shipped") if name in body}
            # As if it had not been sent: what was valid before stays.
            said.pop(DEPOT_MEMBERS.get(event.broken), None)
        else:
            said = {"status": body["status"], "statusDescription": body["place"]}
        voice = voices.setdefault(body["shipment"], {}).setdefault(event.topic, {})
        for member, value in said.items():
            if value is None:
                voice.pop(member, None)
            elif voice.get(member, (None,))[0] != value:
                voice[member] = (value, event.number)
    if last is None:
        return None
    body = last.body
    whole = {
        "createdAt": text_of(BEGAN), "orderNumber": last.order, "status": body["state"],
        "orderManagementURL": URL + last.order, "merchant": MERCHANT,
        "payment": {"total": money(body["cents"]), "status": "paid"},
        "lineItems": [
            {"sku": item["sku"], "title": item["title"], "quantity": item["quantity"], "price": money(item["cents"])}
            for item in body["items"]]}
    if "remark" in body:
        whole["statusDescription"] = body["remark"]
    shipments = []
    for shipment, said in voices.items():
        members = {"fulfillmentIdentifier": shipment}
        for member in {member for voice in said.values() for member in voice}:
            values = [voice[member] for voice in said.values() if member in voice]
            members[member] = max(values, key=lambda value: value[1])[0]
        shipments.append(members)
    return whole | ({"fulfillments": shipments} if shipments else {})


def money(cents):
    """
    >>> money(7)
    {'amount': '0.07', 'currency': 'EUR'}
    """
    return {"amount": f"{cents // 100}.{cents % 100:02}", "currency": "EUR"}


def difference(found, expected):
    """
    Returns the members of two documents that differ, as text; empty if there are none.

    >>> difference({"a": 1}, {"a": 1}), difference({"a": 1}, {"b": 2}), difference(None, {})
    ('', 'a is 1 instead of None, b is None instead of 2', 'there is no document')
    """
    if found is None:
        return "there is no document"
    return ", ".join(
        f"{name} is {json.dumps(found.get(name)) if name in found else None} instead of "
        f"{json.dumps(expected.get(name)) if name in expected else None}"
        for name in sorted({*found, *expected}) if found.get(name) != expected.get(name))


# --- disturbances ----------------------------------------------------------------------------------------------------


def disturbances(kills, workers, lot):
    """
    Returns what happens to ingest workers, one after the other: (what, worker).

    One is killed this many times; another one joins after the first kill, and leaves in the middle of the rest; after
    each third kill a worker stands still until its partitions have moved, and goes on.

    >>> import random
    >>> disturbances(1, ["a", "b"], random.Random(1))
    [('kill', 'a'), ('join', ''), ('leave', '')]
    >>> [what for what, _ in disturbances(6, ["a", "b"], random.Random(1))]
    ['kill', 'join', 'kill', 'kill', 'freeze', 'leave', 'kill', 'kill', 'kill', 'freeze']
    """
    plan = []
    for number in range(1, kills + 1):
        plan.append(("kill", lot.choice(workers)))
        if number % 3 == 0:
            plan.append(("freeze", lot.choice(workers)))
    middle = (len(plan) + 1) // 2
    return plan[:1] + [("join", "")] + plan[1:middle] + [("leave", "")] + plan[middle:]
