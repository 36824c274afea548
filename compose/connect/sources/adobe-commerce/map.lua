-- Adobe Commerce's events of orders, shipments and tracking numbers, as Adobe I/O Events delivers them.
-- https://developer.adobe.com/commerce/extensibility/events/events-reference
-- Subscribe with all fields. Shipments know the order by its entity_id alone, so that is the order's identifier.

local function text(value)
    if value ~= null and value ~= nil and value ~= "" then return value end
end

local function is_set(value) return value == true or value == 1 or value == "1" end

-- Times of the database, which are UTC.
local function moment(value)
    if text(value) then return waybill.time(value, "UTC") end
end

-- A decimal as an integer, rounded. PHP's sums may be 25.000000000000004, the database has four places.
local function units(value, places)
    local parts = waybill.split(tostring(waybill.number(text(value) or 0)), ".")
    local fraction = (parts[2] or "") .. "00000"
    local digits = waybill.integer(parts[1]:replace("-", "") .. fraction:sub(1, places))
    if fraction:sub(places + 1, places + 1) >= "5" then digits = digits + 1 end
    return parts[1]:sub(1, 1) == "-" and -digits or digits
end

local function decimal(ten_thousandths)
    local size = math.abs(ten_thousandths)
    return string.format("%s%d.%04d", ten_thousandths < 0 and "-" or "", size // 10000, size % 10000)
end

-- Cents.
local function minor(value, currency)
    return units(value, #(waybill.split(waybill.money(0, currency, "major").amount, ".")[2] or ""))
end

-- Amounts that were cancelled or refunded since are taken off, but not of an order that is over.
local function total(order, currency, is_over)
    local amount = units(order.grand_total, 4)
    if not is_over then amount = amount - units(order.total_refunded, 4) - units(order.total_canceled, 4) end
    return waybill.money(decimal(amount), currency, "major")
end

-- The items add up to the total: the rest is one item, such as wrapping and the columns of modules.
local function summary(order, sum, currency, is_over)
    local more = text(order.extension_attributes) or {}
    local items, rest = {}, minor(sum.amount, currency)
    local function cents(name) return minor(text(order[name]) or more[name], currency) end
    local function add(label, amount)
        if amount ~= 0 then items[#items + 1] = {label = label, value = waybill.money(amount, currency, "minor")} end
        rest = rest - amount
    end
    if constants.tax_included then
        add("Subtotal", cents("subtotal_incl_tax"))
        add("Discount", cents("discount_amount"))
        add("Shipping", cents("shipping_incl_tax"))
    else
        add("Subtotal", cents("subtotal"))
        add("Discount", cents("discount_amount") + cents("discount_tax_compensation_amount"))
        add("Shipping", cents("shipping_amount"))
        add("Tax", cents("tax_amount"))
    end
    add("Gift cards", -cents("gift_cards_amount"))
    add("Store credit", -cents("customer_balance_amount"))
    if not is_over then
        add("Cancelled", -cents("total_canceled"))
        add("Refunded", -cents("total_refunded"))
    end
    add("Other", rest)
    return items
end

-- Names are as a page of the shop has them.
local entities = {
    {"&reg;", "®"}, {"&trade;", "™"}, {"&copy;", "©"}, {"&quot;", '"'}, {"&#039;", "'"}, {"&nbsp;", " "},
    {"&lt;", "<"}, {"&gt;", ">"}, {"&amp;", "&"},
}

local function title(item)
    local name = text(item.name) or item.sku
    for _, entity in ipairs(entities) do name = name:replace(entity[1], entity[2]) end
    return name
end

-- A variant or a part of a bundle has a parent, which has the price. Of kilograms there are fractions.
local function line_items(items, quantity_of, currency)
    local list, is_less = {}, false
    for _, item in ipairs(items) do
        local quantity = not text(item.parent_item_id) and quantity_of(item)
        if quantity == 0 then
            is_less = true
        elseif quantity then
            local price = constants.tax_included and text(item.price_incl_tax) or text(item.price)
            list[#list + 1] = {
                title = title(item),
                sku = text(item.sku),
                quantity = waybill.number(decimal(quantity), "shortest"),
                price = currency and price and waybill.money(minor(price, currency), currency, "minor"),
            }
        end
    end
    return list, is_less
end

-- A shop may add statuses; each belongs to one of these states.
local states = {
    ["new"] = {"pending", "pending"}, ["pending_payment"] = {"pending_payment", "pending"},
    ["processing"] = {"processing"}, ["complete"] = {"complete", "paid"}, ["closed"] = {"closed", "refunded"},
    ["canceled"] = {"canceled", "voided"}, ["holded"] = {"holded"}, ["payment_review"] = {"payment_review", "pending"},
}

-- An event without these columns says nothing of the payment.
local function payment_status(order, state)
    local payment = text(order.payment)
    if state[2] == "refunded" or state[2] == "voided" or state[2] == "paid" then return state[2] end
    local due = units(order.grand_total, 4) - units(order.total_canceled, 4)
    if due <= 0 then return "paid" end
    if text(order.total_paid) and units(order.total_paid, 4) >= due then return "paid" end
    if payment and text(payment.amount_authorized) and units(payment.amount_authorized, 4) >= due then
        return state[2] or "authorized"
    end
    return state[2] or payment and "pending" or nil
end

local function ordered(item) return units(item.qty_ordered, 4) end

local function remaining(item)
    return math.max(ordered(item) - units(item.qty_canceled, 4) - units(item.qty_refunded, 4), 0)
end

-- An order without an amount stays complete when all of it is refunded.
local function is_empty(items)
    for _, item in ipairs(items) do
        if not text(item.parent_item_id) and remaining(item) ~= 0 then return false end
    end
    return true
end

-- Complete is handed to the carrier: that parcels arrived is told by a status of the shop's own in this state.
local function is_done(order)
    return order.state == "complete"
        and (is_set(order.is_virtual) or order.status == constants.delivered or is_empty(order.items))
end

local function order_saved(order)
    -- A save of single columns has nothing else.
    local items = waybill.list(order.items)
    if not text(order.grand_total) or #items == 0 then return end
    local identifier = text(order.entity_id) or text(order.id) or items[1].order_id
    local currency = order.order_currency_code
    local state = states[order.state] or {order.state}
    local is_over = order.state == "canceled" or order.state == "closed" or is_empty(items)
    local sum = total(order, currency, is_over)
    local list, is_less = line_items(items, is_over and ordered or remaining, currency)
    local page = is_set(order.customer_is_guest) and "sales/guest/form" or "sales/order/view/order_id/" .. identifier
    return identifier, {
        -- Items that an event lacks would stay.
        owns = is_less and {"lineItems"} or nil,
        createdAt = moment(order.created_at),
        orderNumber = order.increment_id,
        status = is_done(order) and "completed" or waybill.status.adobe(state[1]),
        orderManagementURL = constants.shop .. page,
        customer = {
            givenName = text(order.customer_firstname),
            familyName = text(order.customer_lastname),
            emailAddress = text(order.customer_email),
        },
        lineItems = list,
        payment = {
            total = sum,
            summaryItems = summary(order, sum, currency, is_over),
            status = payment_status(order, state),
        },
    }
end

-- The codes of Adobe Commerce's own carriers; those of modules and of what a person types have a title.
local codes = {["dhl"] = "dhl", ["fedex"] = "fedex", ["ups"] = "ups", ["usps"] = "usps"}

local function shipment(identifier, track)
    local name = codes[track.carrier_code] or text(track.title)
    local carrier = waybill.carrier(name, text(track.track_number) or text(track.number))
    return {
        fulfillmentIdentifier = tostring(identifier),
        fulfillmentType = "shipping",
        status = "shipped",
        carrier = carrier.carrier,
        trackingNumber = carrier.trackingNumber,
        trackingURL = carrier.trackingURL,
    }
end

-- Wallet follows one number in each fulfillment: of several parcels in one shipment the others are in a note, since an
-- event of a number alone does not tell which of them it is.
local function shipment_saved(saved)
    if not text(saved.entity_id) then return end
    local tracks = waybill.list(saved.tracks)
    local fulfillment, numbers = shipment(saved.entity_id, tracks[1] or {}), {}
    for _, track in ipairs(tracks) do numbers[#numbers + 1] = text(track.track_number) or text(track.number) end
    if #numbers > 1 then fulfillment.notes = constants.parcels .. table.concat(numbers, ", ") end
    fulfillment.shippedAt = moment(saved.created_at)
    local items = line_items(waybill.list(saved.items), function(item) return units(item.qty, 4) end)
    fulfillment.lineItems = #items > 0 and items or nil
    return saved.order_id, {fulfillments = {fulfillment}}
end

local function track_saved(track)
    if not text(track.parent_id) then return end
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
    -- An empty value says that something was saved, and not what.
    local saved = text(event.data) and text(event.data.value) or {}
    local order, data = kind(saved)
    if not text(order) then return end
    return {{order = order, id = event.id, time = moment(saved.updated_at) or event.time, data = data}}
end
