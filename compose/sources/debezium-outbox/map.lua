-- A shop's own events from its outbox, by Debezium's event router: the value is the column payload, the header id the
-- row's, and the header eventType the column type (table.fields.additional.placement = type:header:eventType).
-- https://debezium.io/documentation/reference/stable/transformations/outbox-event-router.html
-- Rows of one aggregate arrive in sequence. A row that Debezium publishes twice has the same id, and is applied once.

local function text(value)
    if value ~= null and value ~= nil and value ~= "" then return value end
end

local function line_items(lines, currency)
    local items = {}
    for _, line in ipairs(lines) do
        items[#items + 1] = {
            title = line.title,
            sku = line.sku,
            quantity = line.qty,
            price = currency and waybill.money(line.unitPrice, currency, "minor") or nil,
        }
    end
    return items
end

local kinds = {}

-- The event that has all members of the order claims them; those that follow send what has changed.
function kinds.OrderPlaced(event)
    local function amount(value) return waybill.money(value, event.currency, "minor") end
    return {
        owns = {"status", "statusDescription", "payment", "lineItems"},
        createdAt = waybill.time(event.placedAt),
        orderNumber = event.orderNo,
        status = "open",
        orderManagementURL = constants.account[event.brand] .. event.orderNo,
        customer = {
            givenName = event.customer.firstName,
            familyName = event.customer.lastName,
            emailAddress = text(event.customer.email),
        },
        lineItems = line_items(event.lines, event.currency),
        payment = {
            total = amount(event.total),
            summaryItems = {
                {label = "Items", value = amount(event.itemsTotal)},
                {label = "Shipping", value = amount(event.shippingFee)},
            },
            status = "pending",
        },
    }
end

function kinds.OrderPaid()
    return {payment = {status = "paid"}}
end

function kinds.OrderCancelled(event)
    return {status = "cancelled", statusDescription = constants.reasons[event.reason], payment = {status = "voided"}}
end

function kinds.OrderCompleted()
    return {status = "completed"}
end

function kinds.ShipmentDispatched(event)
    local carrier = waybill.carrier(text(event.carrier), text(event.trackingNo))
    return {fulfillments = {{
        fulfillmentIdentifier = event.shipmentId,
        fulfillmentType = "shipping",
        status = "shipped",
        carrier = carrier.carrier,
        trackingNumber = carrier.trackingNumber,
        trackingURL = carrier.trackingURL,
        shippedAt = waybill.time(event.dispatchedAt),
        estimatedDeliveryAt = text(event.eta) and waybill.time(event.eta, "Europe/Berlin") or nil,
        lineItems = line_items(event.lines),
    }}}
end

function kinds.ShipmentDelivered(event)
    return {fulfillments = {{
        fulfillmentIdentifier = event.shipmentId,
        status = "delivered",
        deliveredAt = waybill.time(event.deliveredAt),
    }}}
end

function map(event, record)
    if type(event) == "string" then
        error("the payload is a text: value.converter must be StringConverter, or expand.json.payload true")
    end
    local name = record.headers.eventType
    local change = {order = event.orderNo, brand = event.brand, id = record.headers.id}
    if name == "OrderErased" then
        change.type = "removed"
    elseif kinds[name] then
        change.data = kinds[name](event)
    else
        return
    end
    return {change}
end
