-- Shopify's order, as of its webhooks orders/create, orders/updated and orders/cancelled.
-- https://shopify.dev/docs/api/admin-rest/latest/resources/order

local function text(value)
    if value ~= null and value ~= nil and value ~= "" then return value end
end

-- Gift cards and downloads arrive when they are fulfilled.
local function has_arrived(fulfillment)
    if fulfillment.shipment_status == "delivered" then return true end
    local items = text(fulfillment.line_items) or {}
    for _, item in ipairs(items) do
        if item.requires_shipping ~= false then return false end
    end
    return #items > 0
end

local failed = {["cancelled"] = true, ["error"] = true, ["failure"] = true}

-- Fulfilled is handed to the carrier: the order is completed when every parcel arrived.
local function is_delivered(order)
    local parcels = 0
    for _, fulfillment in ipairs(text(order.fulfillments) or {}) do
        if not failed[fulfillment.status] then
            if not has_arrived(fulfillment) then return false end
            parcels = parcels + 1
        end
    end
    return order.fulfillment_status == "fulfilled" and parcels > 0
end

local function status(order)
    if text(order.cancelled_at) then return "cancelled" end
    if is_delivered(order) then return "completed" end
    -- Closed is archived, which Shopify does by itself to paid orders that are fulfilled, unless the shop forbids it.
    return text(order.closed_at) and constants.archived or "open"
end

local payments = {
    ["pending"] = "pending", ["authorized"] = "authorized", ["partially_paid"] = "pending", ["paid"] = "paid",
    ["partially_refunded"] = "paid", ["refunded"] = "refunded", ["voided"] = "voided",
}

local function line_items(order)
    local items = {}
    for _, item in ipairs(order.line_items) do
        items[#items + 1] = {
            title = item.title,
            subtitle = text(item.variant_title),
            sku = text(item.sku),
            quantity = item.quantity,
            price = waybill.money(item.price, order.currency, "major"),
        }
    end
    return items
end

-- Cents, for sums.
local function minor(value, currency)
    local amount = waybill.money(text(value) or 0, currency, "major").amount
    return waybill.integer(amount:replace(".", ""))
end

-- Discounts of shipping, duties and fees have no total of their own: what the others lack is one item.
local function payment(order)
    local currency = order.currency
    local items, rest = {}, minor(order.total_price, currency)
    local function add(label, amount)
        if amount ~= 0 then items[#items + 1] = {label = label, value = waybill.money(amount, currency, "minor")} end
        rest = rest - amount
    end
    local shipping = text(order.total_shipping_price_set)
    add("Subtotal", minor(order.subtotal_price, currency))
    if shipping then add("Shipping", minor(shipping.shop_money.amount, currency)) end
    add("Tip", minor(order.total_tip_received, currency))
    if not order.taxes_included then add("Tax", minor(order.total_tax, currency)) end
    add(rest < 0 and "Discount" or "Duties and fees", rest)
    return {
        total = waybill.money(order.total_price, currency, "major"),
        summaryItems = items,
        status = payments[order.financial_status],
    }
end

local function customer(order)
    local from = text(order.customer)
    if not from then return end
    return {givenName = text(from.first_name), familyName = text(from.last_name), emailAddress = text(from.email)}
end

function map(order)
    if order.test == true then return end
    return {{
        order = order.id,
        time = order.updated_at,
        data = {
            createdAt = waybill.time(order.created_at),
            orderNumber = order.name,
            status = status(order),
            statusDescription = text(order.cancelled_at) and constants.cancelled or nil,
            orderManagementURL = order.order_status_url,
            customer = customer(order),
            lineItems = line_items(order),
            payment = payment(order),
        },
    }}
end
