-- Adobe Commerce's events of orders, shipments and tracking numbers, as Adobe I/O Events delivers them.
-- https://developer.adobe.com/commerce/extensibility/events/events-reference
-- Subscribe with all fields. Shipments know the order by its entity_id alone, so that is the order's identifier.

local function text(value)
    if value ~= null and value ~= nil and value ~= "" then return value end
end

-- Times of the database, which are UTC.
local function moment(value)
    if text(value) then return waybill.time(value, "UTC") end
end

-- Cents, for sums.
local function minor(value, currency)
    local amount = waybill.money(text(value) or 0, currency, "major").amount
    return waybill.integer(amount:replace(".", ""))
end

-- What is neither of these, such as gift cards and store credit, is one item: the items add up to the total.
local function summary(order, currency)
    local items, rest = {}, minor(order.grand_total, currency)
    local function add(label, amount)
        if amount ~= 0 then items[#items + 1] = {label = label, value = waybill.money(amount, currency, "minor")} end
        rest = rest - amount
    end
    add("Subtotal", minor(order.subtotal, currency))
    add("Discount", minor(order.discount_amount, currency))
    add("Shipping", minor(order.shipping_amount, currency))
    add("Tax", minor(order.tax_amount, currency))
    add("Gift cards and other", rest)
    return items
end

-- A variant or a part of a bundle has a parent, which has the price.
local function line_items(items, quantity, currency)
    local list = {}
    for _, item in ipairs(items) do
        if not text(item.parent_item_id) then
            list[#list + 1] = {
                title = item.name,
                sku = text(item.sku),
                quantity = waybill.integer(item[quantity]),
                price = currency and waybill.money(item.price, currency, "major") or nil,
            }
        end
    end
    return list
end

-- A shop may add statuses; each belongs to one of these states.
local states = {
    ["new"] = {"pending"}, ["pending_payment"] = {"pending_payment", "pending"}, ["processing"] = {"processing"},
    ["complete"] = {"complete", "paid"}, ["closed"] = {"closed", "refunded"}, ["canceled"] = {"canceled", "voided"},
    ["holded"] = {"holded"}, ["payment_review"] = {"payment_review", "pending"},
}

-- Complete is handed to the carrier: that parcels arrived is told by a status of the shop's own in this state.
local function is_done(order)
    local is_virtual = waybill.integer(text(order.is_virtual) or 0) == 1
    return order.state == "complete" and (is_virtual or order.status == constants.delivered)
end

local function order_saved(order)
    -- A save of single columns has nothing else.
    if not text(order.grand_total) or not text(order.items) then return end
    local identifier = text(order.entity_id) or text(order.id) or order.items[1].order_id
    local currency = order.order_currency_code
    local state = states[order.state] or {order.state}
    local is_guest = text(order.customer_is_guest) and waybill.integer(order.customer_is_guest) == 1
    return identifier, {
        createdAt = moment(order.created_at),
        orderNumber = order.increment_id,
        status = is_done(order) and "completed" or waybill.status.adobe(state[1]),
        orderManagementURL = constants.shop
            .. (is_guest and "sales/guest/form" or "sales/order/view/order_id/" .. tostring(identifier)),
        customer = {
            givenName = text(order.customer_firstname),
            familyName = text(order.customer_lastname),
            emailAddress = text(order.customer_email),
        },
        lineItems = line_items(order.items, "qty_ordered", currency),
        payment = {
            total = waybill.money(order.grand_total, currency, "major"),
            summaryItems = summary(order, currency),
            status = state[2],
        },
    }
end

-- A carrier that the shop typed in has the code custom.
local function shipment(identifier, track)
    local name = track.carrier_code
    if name == "custom" then name = track.title end
    local carrier = waybill.carrier(text(name), text(track.track_number))
    return {
        fulfillmentIdentifier = tostring(identifier),
        fulfillmentType = "shipping",
        status = "shipped",
        carrier = carrier.carrier,
        trackingNumber = carrier.trackingNumber,
        trackingURL = carrier.trackingURL,
    }
end

local function shipment_saved(saved)
    local tracks = text(saved.tracks) or {}
    local fulfillment = shipment(saved.entity_id, tracks[1] or {})
    fulfillment.shippedAt = moment(saved.created_at)
    fulfillment.lineItems = line_items(text(saved.items) or {}, "qty")
    return saved.order_id, {fulfillments = {fulfillment}}
end

local function track_saved(track)
    return track.order_id, {fulfillments = {shipment(track.parent_id, track)}}
end

local kinds = {
    ["sales_order_save_commit_after"] = order_saved,
    ["sales_order_shipment_save_after"] = shipment_saved,
    ["sales_order_shipment_track_save_after"] = track_saved,
}

function map(event)
    local kind = kinds[waybill.split(event.type, "observer.")[2]]
    if not kind then return end
    local saved = event.data.value
    local order, data = kind(saved)
    if not data then return end
    return {{order = order, id = event.id, time = moment(saved.updated_at) or event.time, data = data}}
end
