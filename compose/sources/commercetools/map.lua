-- Messages of commercetools about orders, from a subscription in the format CloudEvents.
-- https://docs.commercetools.com/api/projects/subscriptions, https://docs.commercetools.com/api/message-types
-- They may arrive in another sequence than they were written. Each state of an order is a source of its own, numbered
-- by the messages: an older state that arrives late is skipped, and nothing else is.

local function text(value)
    if value ~= null and value ~= nil and value ~= "" then return value end
end

local function money(value)
    return waybill.money(value.centAmount, value.currencyCode, "minor")
end

-- The text in the shop's language, else in any.
local function localized(texts)
    for _, locale in ipairs(constants.locales) do
        if text(texts[locale]) then return texts[locale] end
    end
    for _, value in pairs(texts) do return value end
end

local function line_items(order)
    local items = {}
    for _, item in ipairs(order.lineItems) do
        local discounted = text(item.price.discounted)
        items[#items + 1] = {
            title = localized(item.name),
            sku = text(item.variant.sku),
            quantity = item.quantity,
            price = money(discounted and discounted.value or item.price.value),
        }
    end
    for _, item in ipairs(text(order.customLineItems) or {}) do
        items[#items + 1] = {title = localized(item.name), quantity = item.quantity, price = money(item.money)}
    end
    return items
end

-- CreditOwed says nothing of what was paid.
local payment_states = {
    ["BalanceDue"] = "pending", ["Pending"] = "pending", ["Paid"] = "paid", ["Failed"] = "declined",
}

local function payment(order)
    local taxed = text(order.taxedPrice)
    local items
    if taxed and text(taxed.totalTax) then
        items = {{label = "Net", value = money(taxed.totalNet)}, {label = "Tax", value = money(taxed.totalTax)}}
    end
    return {
        total = money(taxed and taxed.totalGross or order.totalPrice),
        summaryItems = items,
        status = payment_states[order.paymentState],
    }
end

local function customer(order)
    local address = text(order.billingAddress) or text(order.shippingAddress) or {}
    return {
        givenName = text(address.firstName),
        familyName = text(address.lastName),
        emailAddress = text(order.customerEmail) or text(address.email),
    }
end

local function snapshot(message)
    local order = message.order
    return {data = {
        createdAt = waybill.time(order.createdAt),
        orderNumber = text(order.orderNumber),
        status = waybill.status.commercetools(order.orderState),
        orderManagementURL = constants.account .. order.id,
        customer = customer(order),
        lineItems = line_items(order),
        payment = payment(order),
    }}
end

-- A parcel is a fulfillment: it has the tracking number. One with a number was handed over.
local function shipment(identifier, tracking)
    tracking = text(tracking) or {}
    if tracking.isReturn == true then return end
    local carrier = waybill.carrier(text(tracking.carrier), text(tracking.trackingId))
    return {
        fulfillmentIdentifier = identifier,
        fulfillmentType = "shipping",
        status = carrier.trackingNumber and "shipped" or "processing",
        carrier = carrier.carrier,
        trackingNumber = carrier.trackingNumber,
        trackingURL = carrier.trackingURL,
    }
end

local function fulfillments(parcels)
    local list = {}
    for _, parcel in ipairs(parcels) do list[#list + 1] = shipment(parcel.id, parcel.trackingData) end
    if #list > 0 then return {data = {fulfillments = list}} end
end

local function numbered(message, aspect, data)
    return {data = data, source = "/commercetools/" .. aspect, sequence = message.sequenceNumber}
end

local kinds = {
    ["OrderCreated"] = snapshot,
    ["OrderImported"] = snapshot,
    ["OrderStateChanged"] = function(message)
        local status = waybill.status.commercetools(message.orderState)
        if status then return numbered(message, "state", {status = status}) end
    end,
    ["OrderPaymentStateChanged"] = function(message)
        local status = payment_states[message.paymentState]
        if status then return numbered(message, "payment", {payment = {status = status}}) end
    end,
    ["DeliveryAdded"] = function(message) return fulfillments(text(message.delivery.parcels) or {}) end,
    ["ParcelAddedToDelivery"] = function(message) return fulfillments({message.parcel}) end,
    ["ParcelTrackingDataUpdated"] = function(message)
        return fulfillments({{id = message.parcelId, ["trackingData"] = message.trackingData}})
    end,
    ["ParcelRemovedFromDelivery"] = function(message)
        return {data = {fulfillments = {{fulfillmentIdentifier = message.parcel.id, status = "cancelled"}}}}
    end,
    ["OrderDeleted"] = function() return {type = "removed"} end,
}

function map(event)
    local message = event.data
    local kind = message.notificationType == "Message" and kinds[message.type]
    if not kind or message.resource.typeId ~= "order" then return end
    if text(message.payloadNotIncluded) then
        error("message " .. message.id .. " came without its payload: " .. message.payloadNotIncluded.reason)
    end
    local change = kind(message)
    if not change then return end
    change.order, change.id, change.time = message.resource.id, message.id, message.createdAt
    return {change}
end
