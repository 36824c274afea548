# The mapping of compose/connect/sources/shopify-orders in jq, which reads records and writes changes, without Kafka. Of
# orders in the shop's currency that were not edited.
def text: if . == "" then null else . end;
def minor: (text // "0") | tonumber * 100 | round;
def decimal: (if . < 0 then "-" else "" end) as $sign | fabs
    | "\($sign)\(. / 100 | floor).\(. % 100 | if . < 10 then "0\(.)" else "\(.)" end)";
def money($currency): {amount: decimal, currency: $currency};
def present: with_entries(select(.value != null));
def utc: (.[0:19] + "Z" | fromdateiso8601) as $local
    | (if .[19:] == "Z" then 0 else ((.[20:22] | tonumber) * 3600 + (.[23:25] | tonumber) * 60)
        * (if .[19:20] == "-" then -1 else 1 end) end) as $offset
    | $local - $offset | todateiso8601;
def has_arrived: .shipment_status == "delivered"
    or (.line_items // [] | length > 0 and all(.requires_shipping == false));
def is_delivered: [.fulfillments[]? | select(.status | IN("cancelled", "error", "failure") | not)]
    | length > 0 and all(has_arrived);
def payments: {pending: "pending", authorized: "authorized", partially_paid: "pending", paid: "paid",
    partially_refunded: "paid", refunded: "refunded", voided: "voided"};
def payment: .currency as $currency | (.total_price | minor) as $total
    | ([["Subtotal", (.subtotal_price | minor)]]
        + (if .total_shipping_price_set then [["Shipping", (.total_shipping_price_set.shop_money.amount | minor)]]
            else [] end)
        + [["Tip", (.total_tip_received | minor)]]
        + (if .taxes_included then [] else [["Tax", (.total_tax | minor)]] end)) as $parts
    | ($total - ($parts | map(.[1]) | add)) as $rest
    | {
        total: ($total | money($currency)),
        summaryItems: ($parts + [[(if $rest < 0 then "Discount" else "Duties and fees" end), $rest]]
            | map(select(.[1] != 0) | {label: .[0], value: (.[1] | money($currency))})),
        status: payments[.financial_status],
    } | present;
select(.test | not) | .currency as $currency | {
    specversion: "1.0", type: "waybill.order.merged", subject: "order.com.example.waybill/\(.id)", source: "/shopify",
    id: "\(.id)", time: .updated_at,
    owns: "status,payment,lineItems,customer,createdAt,orderNumber,orderManagementURL",
    data: ({
        createdAt: (.created_at | utc), orderNumber: .name,
        status: (if (.cancelled_at | text) then "cancelled"
            elif .fulfillment_status == "fulfilled" and is_delivered then "completed" else "open" end),
        statusDescription: (if (.cancelled_at | text) then "Your order was cancelled." else null end),
        orderManagementURL: .order_status_url,
        customer: (if .customer then (.customer
            | {givenName: (.first_name | text), familyName: (.last_name | text), emailAddress: (.email | text)}
            | present) else null end),
        lineItems: [.line_items[] | {
            title: .title, subtitle: (.variant_title | text), sku: (.sku | text), quantity: .quantity,
            price: (.price | minor | money($currency)),
        } | present],
        payment: payment,
    } | present),
}
