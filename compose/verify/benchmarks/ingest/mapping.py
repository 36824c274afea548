"""
The mapping of compose/connect/sources/shopify-orders in Python: for the peer, and to check what ingest publishes. Of
orders in the shop's currency that were not edited, which records.py makes.
"""

from datetime import datetime, timezone

ORDER_TYPE = "order.com.example.waybill"
OWNS = "status,payment,lineItems,customer,createdAt,orderNumber,orderManagementURL"
PAYMENTS = {
    "pending": "pending", "authorized": "authorized", "partially_paid": "pending", "paid": "paid",
    "partially_refunded": "paid", "refunded": "refunded", "voided": "voided",
}


def minor(text):
    """
    Returns the cents of an amount with two decimals.

    >>> minor("199.00"), minor("9.95"), minor("7"), minor("")
    (19900, 995, 700, 0)
    """
    whole, _, part = text.partition(".")
    return int(whole or 0) * 100 + int((part + "00")[:2])


def money(cents, currency):
    """
    >>> money(-1005, "USD")
    {'amount': '-10.05', 'currency': 'USD'}
    """
    sign = "-" if cents < 0 else ""
    return {"amount": f"{sign}{abs(cents) // 100}.{abs(cents) % 100:02}", "currency": currency}


def utc(text):
    """
    >>> utc("2026-01-05T11:02:11-05:00")
    '2026-01-05T16:02:11Z'
    """
    return datetime.fromisoformat(text).astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def present(members):
    """Returns the members that are neither missing nor empty."""
    return {name: value for name, value in members.items() if value not in (None, "")}


def payment(order):
    currency, total = order["currency"], minor(order["total_price"])
    parts = [("Subtotal", minor(order["subtotal_price"]))]
    if order["total_shipping_price_set"]:
        parts.append(("Shipping", minor(order["total_shipping_price_set"]["shop_money"]["amount"])))
    parts.append(("Tip", minor(order["total_tip_received"])))
    if not order["taxes_included"]:
        parts.append(("Tax", minor(order["total_tax"])))
    rest = total - sum(cents for _, cents in parts)
    parts.append(("Discount" if rest < 0 else "Duties and fees", rest))
    items = [{"label": label, "value": money(cents, currency)} for label, cents in parts if cents]
    return present({
        "total": money(total, currency), "summaryItems": items, "status": PAYMENTS.get(order["financial_status"])})


def has_arrived(fulfillment):
    """
    >>> has_arrived({"shipment_status": None, "line_items": [{"requires_shipping": False}]})
    True
    >>> has_arrived({"shipment_status": "in_transit", "line_items": []})
    False
    """
    items = fulfillment.get("line_items") or []
    is_virtual = items and all(item.get("requires_shipping") is False for item in items)
    return bool(is_virtual or fulfillment["shipment_status"] == "delivered")


def status(order):
    """
    >>> status({"cancelled_at": None, "fulfillment_status": "fulfilled", "fulfillments": [
    ...     {"status": "success", "shipment_status": "delivered"}, {"status": "failure", "shipment_status": None}]})
    'completed'
    >>> status({"cancelled_at": None, "fulfillment_status": "fulfilled"})
    'open'
    """
    if order["cancelled_at"]:
        return "cancelled"
    failed = ("cancelled", "error", "failure")
    parcels = [has_arrived(one) for one in order.get("fulfillments") or [] if one["status"] not in failed]
    is_delivered = order["fulfillment_status"] == "fulfilled" and parcels and all(parcels)
    return "completed" if is_delivered else "open"


def data(order):
    """Returns the data of an order's change."""
    customer = order.get("customer") or {}
    return present({
        "createdAt": utc(order["created_at"]), "orderNumber": order["name"], "status": status(order),
        "statusDescription": "Your order was cancelled." if order["cancelled_at"] else None,
        "orderManagementURL": order["order_status_url"],
        "customer": present({
            "givenName": customer.get("first_name"), "familyName": customer.get("last_name"),
            "emailAddress": customer.get("email")}) or None,
        "lineItems": [
            present({
                "title": item["title"], "subtitle": item["variant_title"], "sku": item["sku"],
                "quantity": item["quantity"], "price": money(minor(item["price"]), order["currency"])})
            for item in order["line_items"]],
        "payment": payment(order),
    })


def change(order, place):
    """
    Returns the change of an order as a CloudEvent; None for a test order. place: its identifier.

    >>> change({"test": True}, "orders/0/7/1")
    """
    if order["test"]:
        return None
    return {
        "specversion": "1.0", "type": "waybill.order.merged", "subject": f"{ORDER_TYPE}/{order['id']}",
        "source": "/shopify", "id": place, "time": order["updated_at"], "owns": OWNS, "data": data(order),
    }
