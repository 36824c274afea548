-- Shopify's fulfillment, as of its webhooks fulfillments/create and fulfillments/update.
-- https://shopify.dev/docs/api/admin-rest/latest/resources/fulfillment

local function text(value)
    if value ~= null and value ~= nil and value ~= "" then return value end
end

function map(fulfillment)
    local items = {}
    for _, item in ipairs(fulfillment.line_items or {}) do
        items[#items + 1] = {title = item.title, sku = text(item.sku), quantity = item.quantity}
    end
    local carrier = waybill.carrier(text(fulfillment.tracking_company), text(fulfillment.tracking_number))
    -- A cancelled fulfillment keeps the last status of its shipment.
    local shipment = fulfillment.status ~= "cancelled" and text(fulfillment.shipment_status) or fulfillment.status
    local status = waybill.status.shopify(shipment)
    local is_shipped = fulfillment.status == "success" and status ~= "processing"
    return {{
        order = fulfillment.order_id,
        time = fulfillment.updated_at,
        data = {fulfillments = {{
            fulfillmentIdentifier = tostring(fulfillment.id),
            fulfillmentType = "shipping",
            status = status,
            shippedAt = is_shipped and waybill.time(fulfillment.created_at) or nil,
            carrier = carrier.carrier,
            trackingNumber = carrier.trackingNumber,
            trackingURL = text(fulfillment.tracking_url) or carrier.trackingURL,
            lineItems = items,
        }}},
    }}
end
