"""Documents of orders, derived from the examples, and the pictures that they name."""

import copy
import glob
import json
import os
import struct
import zlib

from stack import ROOT, Failure

LOGO, IMAGE = "bench-a.png", "bench-b.png"
ASSET_BYTES = 8000
# Members that Waybill sets.
OWNED = (
    "schemaVersion", "orderType", "orderTypeIdentifier", "orderIdentifier", "webServiceURL", "updatedAt",
    "authenticationToken",
)


def add_picture(brand, name, size=ASSET_BYTES):
    """Adds a PNG of about this many bytes to a brand's folder: noise, so that it cannot be compressed."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    width = max(1, int((size / 3) ** 0.5))
    rows = b"".join(b"\0" + os.urandom(3 * width) for _ in range(width))
    header = struct.pack(">IIBBBBB", width, width, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    with open(f"{brand}/assets/{name}", "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + parts)


def add_pictures(brand):
    """Adds the documents' pictures. Call it before the packagers start: they load them with the brand."""
    for name in (LOGO, IMAGE):
        add_picture(brand, name)


def examples(logo=LOGO, image=IMAGE):
    """Returns the example orders by file name, with these pictures in place of theirs, or without any (None)."""
    pictures = {"logo": logo, "image": image}

    def dressed(value):
        if isinstance(value, list):
            return [dressed(item) for item in value]
        if not isinstance(value, dict):
            return value
        members = {}
        for key, item in value.items():
            if key in pictures or key.startswith("trackingLogoName"):
                members[key] = pictures.get(key, image)
            elif key not in ("receipt", "returnLabel"):
                members[key] = dressed(item)
        return {key: item for key, item in members.items() if item is not None}

    documents = []
    for path in sorted(glob.glob(f"{ROOT}/Shared/Model/Schemas/examples/*.order.json")):
        with open(path) as file:
            document = dressed(json.load(file))
        documents.append({name: item for name, item in document.items() if name not in OWNED})
    if len(documents) != 5:
        raise Failure(f"there are {len(documents)} example orders instead of five")
    return documents


def example():
    """Returns an example order with the development brand's logo, and without any other picture or document."""
    return examples("logo.png", None)[0]


class Documents:
    """An endless supply of distinct orders, from the five examples in turn, each with a logo and one more picture."""

    def __init__(self):
        self.examples, self.count = examples(), 0
        for document in self.examples:
            document["merchant"]["logo"] = LOGO
            if IMAGE not in json.dumps(document):
                items = document.get("lineItems") or [{"title": "Product", "quantity": 1}]
                items[0]["image"] = IMAGE
                document["lineItems"] = items

    def next(self):
        """Returns a new order identifier and its document."""
        self.count += 1
        order = f"bench-{self.count}"
        return order, self.examples[self.count % len(self.examples)] | {"orderNumber": order}

    def next_changes(self, count):
        """Yields this many changes, each of which creates an order."""
        for _ in range(count):
            order, document = self.next()
            yield order, "replaced", document

    def smallest(self):
        """Returns a new order with the shortest document, without pictures."""
        self.count += 1
        document = copy.deepcopy(min(self.examples, key=lambda document: len(json.dumps(document))))
        document["merchant"].pop("logo")
        document.pop("lineItems", None)
        return f"bench-{self.count}", document

    def large(self, size):
        """Returns a new order of at least this many bytes, filled with distinct line items."""
        order, document = self.next()
        items = []
        filled = len(json.dumps(document))
        while filled < size:
            number = len(items)
            items.append({
                "title": f"Product {number} of {order}, in a colour that has a long name", "quantity": number % 9 + 1,
                "subtitle": f"Batch {number * 7919 % 100003}", "sku": f"SKU-{number}-{order}", "image": IMAGE,
                "price": {"amount": f"{number % 500}.{number % 100:02}", "currency": "EUR"},
            })
            filled += len(json.dumps(items[-1])) + 2
        return order, document | {"lineItems": items}
