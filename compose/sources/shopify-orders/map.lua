-- Shopify's order, as of its webhooks orders/create, orders/updated and orders/cancelled.
-- https://shopify.dev/docs/api/admin-rest/latest/resources/order

local function text(value)
    if value ~= null and value ~= nil and value ~= "" then return value end
end

local function status(order)
    if text(order.cancelled_at) then return "cancelled" end
    if order.fulfillment_status == "fulfilled" then return "completed" end
    return "open"
end

local payments = {
    pending = "pending", authorized = "authorized", partially_paid = "pending", paid = "paid",
    partially_refunded = "paid", refunded = "refunded", voided = "voided",
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

local function payment(order)
    local function amount(value) return waybill.money(value, order.currency, "major") end
    local items = {{label = "Subtotal", value = amount(order.subtotal_price)}}
    local shipping = order.total_shipping_price_set
    if shipping and shipping ~= null then
        items[#items + 1] = {label = "Shipping", value = amount(shipping.shop_money.amount)}
    end
    if order.total_tip_received and order.total_tip_received ~= "0.00" then
        items[#items + 1] = {label = "Tip", value = amount(order.total_tip_received)}
    end
    if not order.taxes_included then items[#items + 1] = {label = "Tax", value = amount(order.total_tax)} end
    return {total = amount(order.total_price), summaryItems = items, status = payments[order.financial_status]}
end

local function customer(order)
    local from = order.customer
    if not from or from == null then return nil end
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
