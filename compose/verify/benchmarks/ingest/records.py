"""Orders as Shopify's webhooks have them, grown by line items to a size, in JSON and in Avro."""

import json
import struct

FIRST = 5_100_000_000_000
TIME = "2026-01-05T11:05:00-05:00"


def line_item(number):
    return {
        "id": 13_000_000_000_000 + number, "product_id": 8_000_000_000_000 + number, "variant_id": 44_000_000_000_000,
        "title": f"Merino sweater no. {number}", "name": f"Merino sweater no. {number} - Navy / M",
        "variant_title": "Navy / M", "sku": f"SWEATER-{number:04}", "vendor": "Example Wool", "quantity": 1,
        "price": "49.90", "total_discount": "0.00", "grams": 420, "fulfillable_quantity": 1, "gift_card": False,
        "requires_shipping": True, "taxable": True, "fulfillment_service": "manual", "tax_title": "VAT",
        "tax_price": "7.97", "image": f"https://cdn.example.com/s/files/1/0001/0001/products/sweater-{number:04}.jpg",
    }


def address():
    return {
        "first_name": "Ana", "last_name": "Muster", "address1": "Example Street 1", "city": "Springfield",
        "zip": "12345", "province": "Illinois", "country": "United States", "phone": "+1 555 0100",
    }


def order(number, size=0):
    """
    Returns an order whose JSON has as many bytes as `size`, if that has space for one item; a note fills the rest.

    >>> [len(text(order(number, size))) for number, size in ((0, 2000), (7, 7000), (12345, 19000))]
    [2000, 7000, 19000]
    >>> len(order(1, 19000)["line_items"])
    35
    >>> order(1) == order(1, 10), order(1)["id"] == order(2)["id"]
    (True, False)
    """
    identifier = FIRST + number
    made = {
        "id": identifier, "name": f"#{number:07}", "test": False, "created_at": "2026-01-05T11:02:11-05:00",
        "updated_at": TIME, "cancelled_at": None, "currency": "USD", "financial_status": "paid",
        "fulfillment_status": None,
        "order_status_url": f"https://shop.example.com/1/orders/{identifier}/authenticate?key=0123456789abcdef",
        "taxes_included": False, "total_tip_received": "0.00", "total_tax": "0.00",
        "total_shipping_price_set": {"shop_money": {"amount": "9.95", "currency_code": "USD"}},
        "customer": {"first_name": "Ana", "last_name": "Muster", "email": "ana@example.com"},
        "shipping_address": address(), "source_name": "web", "note": "", "line_items": [],
    }
    while True:
        items = made["line_items"] + [line_item(len(made["line_items"]) + 1)]
        cents = 4990 * len(items)
        longer = made | {
            "line_items": items, "subtotal_price": decimal(cents), "total_price": decimal(cents + 995)}
        if len(made["line_items"]) > 0 and len(text(longer)) > size:
            return made | {"note": "x" * max(0, size - len(text(made)))}
        made = longer


def decimal(cents):
    """
    >>> decimal(995), decimal(10), decimal(123456)
    ('9.95', '0.10', '1234.56')
    """
    return f"{cents // 100}.{cents % 100:02}"


def text(value):
    return json.dumps(value, separators=(",", ":")).encode()


# --- Avro ------------------------------------------------------------------------------------------------------------


def schema(value, name="Order", optional=("cancelled_at", "fulfillment_status")):
    """
    Returns an Avro schema for an object like this one; the members named `optional` are text or null.

    >>> schema({"a": 1, "b": ["x"], "c": None}, optional=("c",))["fields"][2]
    {'name': 'c', 'type': ['null', 'string']}
    """
    if isinstance(value, dict):
        return {"type": "record", "name": name, "fields": [
            {"name": member, "type": ["null", "string"] if member in optional else schema(item, f"{name}_{member}")}
            for member, item in value.items()]}
    if isinstance(value, list):
        return {"type": "array", "items": schema(value[0], f"{name}_item")}
    return {bool: "boolean", int: "long", str: "string"}[type(value)]


def long(number):
    """
    Returns a number as Avro's zigzag varint.

    >>> [long(number).hex() for number in (0, -1, 1, 64, 1 << 40)]
    ['00', '01', '02', '8001', '808080808040']
    """
    rest, coded = number << 1 ^ number >> 63, bytearray()
    while rest > 127:
        coded.append(rest & 127 | 128)
        rest >>= 7
    return bytes(coded + bytes([rest]))


def encode(value, form):
    """
    Returns a value in Avro's binary encoding.

    >>> encode({"a": [1], "b": "x", "c": None, "d": True}, schema({"a": [1], "b": "x", "c": None, "d": True}, "R", "c"))
    b'\\x02\\x02\\x00\\x02x\\x00\\x01'
    """
    kind = form["type"] if isinstance(form, dict) else form
    if kind == "record":
        return b"".join(encode(value[field["name"]], field["type"]) for field in form["fields"])
    if kind == "array":
        return long(len(value)) + b"".join(encode(item, form["items"]) for item in value) + long(0)
    if isinstance(kind, list):
        return long(0) if value is None else long(1) + encode(value, "string")
    if kind == "string":
        return long(len(value.encode())) + value.encode()
    return bytes([value]) if kind == "boolean" else long(value)


def framed(value, form, identifier):
    """
    Returns a value as Confluent's wire format has it.

    >>> framed("x", "string", 7).hex()
    '00000000070278'
    """
    return struct.pack(">bI", 0, identifier) + encode(value, form)
