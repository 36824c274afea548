"""What the benchmarks publish: the example orders as documents with two assets, and orders smaller and larger."""

import copy
import glob
import json

from stack import Failure, picture

LOGO, IMAGE = "bench-a.png", "bench-b.png"
ASSET_BYTES = 8000
# What Waybill sets itself.
OWNED = (
    "schemaVersion", "orderType", "orderTypeIdentifier", "orderIdentifier", "webServiceURL", "updatedAt",
    "authenticationToken",
)


def add_assets(stack):
    """Before the packagers start, so that they load them with the brand."""
    for name in (LOGO, IMAGE):
        with open(f"{stack.env['BRANDS']}/{stack.type}/assets/{name}", "wb") as file:
            file.write(picture(ASSET_BYTES))


def examples(root):
    """The example orders, each with a logo and one more picture, in the order of their names."""

    def with_assets(value):
        if isinstance(value, list):
            return [with_assets(item) for item in value]
        if not isinstance(value, dict):
            return value
        named = {"logo": LOGO, "image": IMAGE}
        named |= {key: IMAGE for key in value if key.startswith("trackingLogoName")}
        return {
            key: named.get(key) or with_assets(item)
            for key, item in value.items() if key not in ("receipt", "returnLabel")
        }

    documents = []
    for path in sorted(glob.glob(f"{root}/Shared/Model/Schemas/examples/*.order.json")):
        with open(path) as file:
            document = with_assets(json.load(file))
        for name in OWNED:
            document.pop(name, None)
        document["merchant"]["logo"] = LOGO
        if IMAGE not in json.dumps(document):
            if not document.get("lineItems"):
                document["lineItems"] = [{"title": "Product", "quantity": 1}]
            document["lineItems"][0]["image"] = IMAGE
        documents.append(document)
    if len(documents) != 5:
        raise Failure(f"there are {len(documents)} example orders, five are meant")
    return documents


class Documents:
    """Distinct orders without end, made of the five examples in turn."""

    def __init__(self, root):
        self.examples, self.count = examples(root), 0

    def next(self):
        """An order identifier that was never given before, and its document."""
        self.count += 1
        order = f"bench-{self.count}"
        return order, self.examples[self.count % len(self.examples)] | {"orderNumber": order}

    def smallest(self):
        """As short as a document can be, without pictures."""
        self.count += 1
        document = copy.deepcopy(min(self.examples, key=lambda document: len(json.dumps(document))))
        document["merchant"].pop("logo")
        document.pop("lineItems", None)
        return f"bench-{self.count}", document

    def large(self, size):
        """At least so many bytes, by line items that differ."""
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
