-- A shop's own events from its outbox, by Debezium's event router: the value is the column payload, the header id the
-- row's, and the header eventType the column type (table.fields.additional.placement = type:header:eventType).
-- https://debezium.io/documentation/reference/stable/transformations/outbox-event-router.html
-- Rows of one aggregate arrive in sequence. A row that Debezium publishes twice has the same id, and is applied once.

local function text(value)
    if value ~= null and value ~= nil and value ~= "" then return value end
end

-- Java's Instant is written as text, as milliseconds, or as seconds with a fraction; LocalDateTime has no zone.
local function moment(value)
    if not text(value) then return end
    if type(value) == "number" then return waybill.time(value, "ms") end
    if string.match(value, "^%d+%.%d+$") then return waybill.time(value, "s") end
    return waybill.time(value, constants.zone)
end

local function line_items(lines, currency)
    local items = {}
    for _, line in ipairs(lines) do
        items[#items + 1] = {
            title = line.title,
            subtitle = text(line.variant),
            sku = text(line.sku),
            image = waybill.url(line.picture),
            -- Half a kilogram too.
            quantity = waybill.number(line.qty, "shortest"),
            price = currency and waybill.money(line.unitPrice, currency, "minor") or nil,
        }
    end
    return items
end

-- What the lines, the shipping and the discount come to, as the shop counts it.
local function payment(event, status)
    local function amount(value) return waybill.money(value, event.currency, "minor") end
    local items = {{label = constants.labels.items, value = amount(event.itemsTotal)}}
    items[2] = {label = constants.labels.shipping, value = amount(event.shippingFee)}
    if text(event.discount) then items[3] = {label = constants.labels.discount, value = amount(-event.discount)} end
    return {total = amount(event.total), summaryItems = items, status = status}
end

local kinds = {}

-- The event that has all members of the order claims them; those that follow send what has changed.
function kinds.OrderPlaced(event)
    local customer = text(event.customer) or {}
    return {
        owns = {"status", "statusDescription", "payment", "lineItems"},
        createdAt = moment(event.placedAt),
        orderNumber = event.orderNo,
        status = "open",
        orderManagementURL = constants.account[event.brand] .. event.orderNo,
        customer = {
            givenName = text(customer.firstName),
            familyName = text(customer.lastName),
            emailAddress = text(customer.email),
        },
        lineItems = line_items(event.lines, event.currency),
        payment = payment(event, "pending"),
    }
end

-- Lines that the order no longer has are gone, since the event claims all of them.
function kinds.OrderChanged(event)
    return {
        owns = {"status", "statusDescription", "payment", "lineItems"},
        status = "open",
        lineItems = line_items(event.lines, event.currency),
        payment = payment(event, event.isPaid and "paid" or "pending"),
    }
end

function kinds.OrderPaid()
    return {payment = {status = "paid"}}
end

-- A part that was given back leaves the payment as it is.
function kinds.OrderRefunded(event)
    if event.isWhole then return {payment = {status = "refunded"}} end
end

function kinds.OrderCancelled(event)
    local refunded = event.isPaid and "refunded" or "voided"
    return {
        status = "cancelled",
        statusDescription = constants.reasons[event.reason],
        payment = {status = refunded},
    }
end

function kinds.OrderCompleted()
    return {status = "completed"}
end

local function shipment(event, members)
    members.fulfillmentIdentifier = event.shipmentId
    return {fulfillments = {members}}
end

function kinds.ShipmentDispatched(event)
    local carrier = waybill.carrier(text(event.carrier), text(event.trackingNo))
    return shipment(event, {
        fulfillmentType = "shipping",
        status = "shipped",
        carrier = carrier.carrier,
        trackingNumber = carrier.trackingNumber,
        trackingURL = carrier.trackingURL,
        shippedAt = moment(event.dispatchedAt),
        estimatedDeliveryAt = moment(event.eta),
        lineItems = line_items(event.lines),
    })
end

function kinds.ShipmentDelayed(event)
    return shipment(event, {estimatedDeliveryAt = moment(event.eta)})
end

function kinds.ShipmentDelivered(event)
    return shipment(event, {status = "delivered", deliveredAt = moment(event.deliveredAt)})
end

function kinds.PickupReady(event)
    return shipment(event, {
        fulfillmentType = "pickup",
        displayName = event.store,
        status = "readyForPickup",
        notes = text(event.hint),
        lineItems = line_items(event.lines),
    })
end

function kinds.PickupCollected(event)
    return shipment(event, {status = "pickedUp", pickedUpAt = moment(event.collectedAt)})
end

function kinds.ReturnOpened(event)
    return {returns = {{
        returnIdentifier = event.returnId,
        returnNumber = event.returnId,
        status = "open",
        initiatedAt = moment(event.openedAt),
        dropOffBy = moment(event.dropOffBy),
        -- Of a host that documents.hosts in brand.json lists.
        returnLabel = waybill.url(event.label),
        lineItems = line_items(event.lines),
    }}}
end

function kinds.ReturnReceived(event)
    return {returns = {{
        returnIdentifier = event.returnId,
        status = "completed",
        returnedAt = moment(event.receivedAt),
    }}}
end

-- The converter of headers may write them as JSON, in quotes.
local function header(record, name)
    local value = text(record.headers[name])
    if value and value:sub(1, 1) == '"' then value = value:sub(2, -2) end
    return value
end

function map(event, record)
    local name = header(record, "eventType")
    if type(event) == "table" then
        if text(event.op) then error("the rows of the outbox itself: add Debezium's event router to the connector") end
        -- With other columns in the envelope, or with a schema, the payload is a member.
        if event.payload ~= nil and event.orderNo == nil then
            name, event = name or text(event.eventType), event.payload
        end
    end
    if type(event) == "string" then
        error("the payload is a text: value.converter must be StringConverter, or expand.json.payload true")
    end
    local change = {order = event.orderNo, brand = event.brand, id = header(record, "id")}
    if name == "OrderErased" then
        change.type = "removed"
    elseif kinds[name] then
        change.data = kinds[name](event)
        if not change.data then return end
    else
        return
    end
    return {change}
end
