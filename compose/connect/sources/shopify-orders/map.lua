-- Shopify's order, as of its webhooks orders/create, orders/updated and orders/cancelled.
-- https://shopify.dev/docs/api/admin-rest/latest/resources/order

local function text(value)
    if value ~= null and value ~= nil and value ~= "" then return value end
end

-- Gift cards and downloads arrive when they are fulfilled.
local function has_arrived(fulfillment)
    if fulfillment.shipment_status == "delivered" or fulfillment.shipment_status == "picked_up" then return true end
    local items = waybill.list(fulfillment.line_items)
    for _, item in ipairs(items) do
        if item.requires_shipping ~= false then return false end
    end
    return #items > 0
end

local failed = {["cancelled"] = true, ["error"] = true, ["failure"] = true}

local function has_parcels(order)
    for _, fulfillment in ipairs(waybill.list(order.fulfillments)) do
        if not failed[fulfillment.status] then return true end
    end
    return false
end

-- Fulfilled is handed to the carrier: the order is completed when every parcel arrived. At a counter, without shipping,
-- it is handed to the customer.
local function is_delivered(order)
    if order.fulfillment_status ~= "fulfilled" then return false end
    if order.source_name == "pos" and #waybill.list(order.shipping_lines) == 0 then return true end
    for _, fulfillment in ipairs(waybill.list(order.fulfillments)) do
        if not failed[fulfillment.status] and not has_arrived(fulfillment) then return false end
    end
    return has_parcels(order)
end

-- Without its last item an order is over, though nobody cancelled it.
local function is_empty(order)
    for _, item in ipairs(order.line_items) do
        if item.current_quantity ~= 0 and not text(item.tip) then return false end
    end
    return #order.line_items > 0
end

local function status(order)
    if text(order.cancelled_at) then return "cancelled" end
    if is_empty(order) then return has_parcels(order) and "completed" or "cancelled" end
    if is_delivered(order) then return "completed" end
    -- Closed is archived, which Shopify does by itself to paid orders that are fulfilled, unless the shop forbids it.
    return text(order.closed_at) and constants.archived or "open"
end

local payments = waybill.words("shopify.financial_status", {
    ["pending"] = "pending", ["authorized"] = "authorized", ["partially_paid"] = "pending", ["paid"] = "paid",
    ["partially_refunded"] = "paid", ["refunded"] = "refunded", ["voided"] = "voided", ["expired"] = "voided",
})

-- The currency of the checkout, and whether it is that of the shop's books.
local currency, is_shops

-- Amounts without a set are in the currency of the shop.
local function paid(set, amount)
    set = text(set)
    local money = set and text(set.presentment_money)
    if money then return money.amount end
    if is_shops then return set and set.shop_money.amount or amount end
end

local function amount(owner, name) return paid(owner[name .. "_set"], owner[name]) end

-- Cents, for sums.
local function minor(value)
    local digits = waybill.money(text(value) or 0, currency, "major").amount
    return waybill.integer(digits:replace(".", ""))
end

-- The items that remain after edits and returns; of an order that is over, those that were ordered. A tip is a line,
-- and no item.
local function line_items(order, is_over)
    local items, tip = {}, 0
    for _, item in ipairs(order.line_items) do
        local quantity = not is_over and text(item.current_quantity) or item.quantity
        local price = text(paid(item.price_set, item.price))
        if text(item.tip) then
            tip = tip + minor(price) * quantity
        elseif quantity ~= 0 then
            items[#items + 1] = {
                title = item.title,
                subtitle = text(item.variant_title),
                sku = text(item.sku),
                quantity = quantity,
                price = price and waybill.money(price, currency, "major"),
            }
        end
    end
    return items, tip
end

-- After discounts, without lines that were removed.
local function shipping(order, is_over)
    local current = not is_over and amount(order, "current_shipping_price")
    if current then return minor(current) end
    if not text(order.shipping_lines) then return minor(amount(order, "total_shipping_price")) end
    local sum = 0
    for _, line in ipairs(order.shipping_lines) do
        if line.is_removed ~= true then sum = sum + minor(amount(line, "discounted_price") or amount(line, "price")) end
    end
    return sum
end

-- Duties, fees and refunds that are of no item have no total of their own: the rest is one item.
local function payment(order, is_over, tip)
    local prefix = not is_over and text(amount(order, "current_total_price")) and "current_" or ""
    local total = waybill.money(amount(order, prefix .. "total_price"), currency, "major")
    local items, rest = {}, minor(total.amount)
    local function add(label, value)
        if value ~= 0 then items[#items + 1] = {label = label, value = waybill.money(value, currency, "minor")} end
        rest = rest - value
    end
    add("Subtotal", minor(amount(order, prefix .. "subtotal_price")))
    add("Shipping", shipping(order, is_over))
    local tax = order.taxes_included == true and 0 or minor(amount(order, prefix .. "total_tax"))
    if tip == 0 then tip = minor(amount(order, "total_tip_received")) end
    if rest >= tax + tip then add("Tip", tip) end
    add("Tax", tax)
    local is_refund = prefix ~= "" and #waybill.list(order.refunds) > 0
    add(rest > 0 and "Duties and fees" or is_refund and "Refund" or "Discount", rest)
    return {total = total, summaryItems = items, status = payments[order.financial_status]}
end

-- A sale at a counter has no customer, or one without a name.
local function customer(order)
    local from = text(order.customer) or {}
    local person = {
        givenName = text(from.first_name),
        familyName = text(from.last_name),
        emailAddress = text(from.email) or text(order.email),
    }
    for _ in pairs(person) do return person end
end

-- An older event that a failed delivery brings late changes nothing.
local function sequence(time)
    if not text(time) then return end
    local digits = waybill.time(time)
    for _, mark in ipairs({"-", ":", "T", "Z"}) do digits = digits:replace(mark, "") end
    return waybill.integer(digits)
end

function map(order)
    if order.test == true then return end
    if not text(order.line_items) then error("no line_items: orders/edited and orders/delete do not have the order") end
    local set = text(order.total_price_set)
    local money = set and text(set.presentment_money)
    currency = money and money.currency_code or order.currency
    is_shops = currency == order.currency
    local is_over = text(order.cancelled_at) or order.financial_status == "refunded" or is_empty(order)
    local items, tip = line_items(order, is_over)
    return {{
        order = order.id,
        time = order.updated_at,
        sequence = sequence(order.updated_at),
        data = {
            createdAt = waybill.time(order.created_at),
            orderNumber = order.name,
            status = status(order),
            statusDescription = text(order.cancelled_at) and constants.cancelled or nil,
            orderManagementURL = text(order.order_status_url) or constants.account,
            customer = customer(order),
            lineItems = items,
            payment = payment(order, is_over, tip),
        },
    }}
end
