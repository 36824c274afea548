-- Messages of commercetools about orders, from a subscription in the format CloudEvents.
-- https://docs.commercetools.com/api/projects/subscriptions, https://docs.commercetools.com/api/message-types
-- They may arrive in another sequence than they were written. Each state of an order is a source of its own, numbered
-- by the messages: an older state that arrives late is skipped, and nothing else is.

local function text(value)
    if value ~= null and value ~= nil and value ~= "" then return value end
end

local function money(amount, currency)
    return waybill.money(amount, currency, "minor")
end

-- The text in the order's language, else in the shop's, else in any.
local function localized(texts, locale)
    if text(locale) and text(texts[locale]) then return texts[locale] end
    for _, name in ipairs(constants.locales) do
        if text(texts[name]) then return texts[name] end
    end
    for _, value in pairs(texts) do
        if text(value) then return value end
    end
end

-- What the customer pays for one. Of a high precision amount, centAmount is the rounded one.
local function price(item)
    return text(item.price) and (text(item.price.discounted) or item.price).value or item.money
end

local function line_total(item)
    return text(item.totalPrice) and item.totalPrice.centAmount or price(item).centAmount * item.quantity
end

-- A discount of the cart can give some pieces of an item another price.
local function line_items(order)
    local items = {}
    local function add(item, sku)
        local title = localized(item.name, order.locale)
        local image = text(item.variant) and waybill.list(item.variant.images)[1]
        local portions = waybill.list(item.discountedPricePerQuantity)
        for _, portion in ipairs(portions) do
            local value = portion.discountedPrice.value
            items[#items + 1] = {
                title = title,
                sku = sku,
                image = image and waybill.url(image.url),
                quantity = portion.quantity,
                price = money(value.centAmount, value.currencyCode),
            }
        end
        if #portions == 0 then
            local value = price(item)
            items[#items + 1] = {
                title = title,
                sku = sku,
                image = image and waybill.url(image.url),
                quantity = item.quantity,
                price = money(value.centAmount, value.currencyCode),
            }
        end
    end
    for _, item in ipairs(waybill.list(order.lineItems)) do add(item, text(item.variant.sku)) end
    for _, item in ipairs(waybill.list(order.customLineItems)) do
        -- A coupon is an item with a negative price: a discount of the summary.
        if line_total(item) >= 0 then add(item) end
    end
    return items
end

-- CreditOwed says nothing of what was paid.
local payment_states = {
    ["BalanceDue"] = "pending", ["Pending"] = "pending", ["Paid"] = "paid", ["Failed"] = "declined",
}

local function shippings(order)
    local list = {}
    if text(order.shippingInfo) then list[1] = order.shippingInfo end
    for _, shipping in ipairs(waybill.list(order.shipping)) do list[#list + 1] = shipping.shippingInfo end
    return list
end

-- Items, shipping and discounts; what is left of the total is the tax that their prices do not include.
local function summary(order, total, currency)
    local list, left = {}, total
    local function add(label, amount)
        if amount == 0 then return end
        list[#list + 1] = {label = constants.labels[label], value = money(amount, currency)}
        left = left - amount
    end
    local items, shipped, coupons = 0, 0, 0
    for _, name in ipairs({"lineItems", "customLineItems"}) do
        for _, item in ipairs(waybill.list(order[name])) do
            local amount = line_total(item)
            if amount < 0 then coupons = coupons + amount else items = items + amount end
        end
    end
    for _, info in ipairs(shippings(order)) do
        local discounted = text(info.discountedPrice)
        shipped = shipped + (discounted and discounted.value or info.price).centAmount
    end
    add("items", items)
    add("shipping", shipped)
    local discount = text(order.discountOnTotalPrice)
    add("discount", coupons - (discount and discount.discountedAmount.centAmount or 0))
    add(text(order.taxedPrice) and "tax" or "rest", left)
    return list
end

local function total(order)
    local taxed = text(order.taxedPrice)
    return taxed and taxed.totalGross or order.totalPrice
end

local function customer(order)
    local address = text(order.billingAddress) or text(order.shippingAddress) or {}
    return {
        givenName = text(address.firstName),
        familyName = text(address.lastName),
        organizationName = text(address.company),
        emailAddress = text(order.customerEmail) or text(address.email),
    }
end

local function recipient(address)
    if not text(address) then return end
    local street = text(address.streetName)
    local number = text(address.streetNumber)
    local lines = {}
    if street then lines[1] = number and street .. " " .. number or street end
    lines[#lines + 1] = text(address.additionalStreetInfo)
    return {
        givenName = text(address.firstName),
        familyName = text(address.lastName),
        organizationName = text(address.company),
        address = {
            addressLines = #lines > 0 and lines or nil,
            postalCode = text(address.postalCode),
            locality = text(address.city),
            administrativeArea = text(address.state) or text(address.region),
            countryCode = text(address.country),
        },
    }
end

-- A parcel is a fulfillment: it has the tracking number. One with a number was handed over.
local function shipment(identifier, tracking, address)
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
        recipient = recipient(address),
    }
end

local function parcels(delivery, list)
    for _, parcel in ipairs(waybill.list(delivery.parcels)) do
        list[#list + 1] = shipment(parcel.id, parcel.trackingData, delivery.address)
    end
    return list
end

local return_states = {
    ["Advised"] = "open", ["Returned"] = "processing", ["BackInStock"] = "completed", ["Unusable"] = "issue",
}

-- A return item is a return: messages of its state name it, and not the return that it belongs to.
local function returns(infos)
    local list = {}
    for _, info in ipairs(waybill.list(infos)) do
        for _, item in ipairs(info.items) do
            list[#list + 1] = {
                returnIdentifier = item.id,
                returnNumber = text(info.returnTrackingId),
                status = return_states[item.shipmentState],
                statusDescription = text(item.comment),
                initiatedAt = waybill.time(text(info.returnDate) or item.createdAt),
            }
        end
    end
    return list
end

local function present(list)
    if #list > 0 then return list end
end

local function snapshot(message)
    local order = message.order
    local amount = total(order)
    local fulfillments = {}
    for _, info in ipairs(shippings(order)) do
        for _, delivery in ipairs(waybill.list(info.deliveries)) do parcels(delivery, fulfillments) end
    end
    return {data = {
        createdAt = waybill.time(text(order.completedAt) or order.createdAt),
        orderNumber = text(order.orderNumber),
        status = waybill.status.commercetools(order.orderState),
        orderManagementURL = constants.account .. order.id,
        customer = customer(order),
        lineItems = line_items(order),
        payment = {
            total = money(amount.centAmount, amount.currencyCode),
            summaryItems = present(summary(order, amount.centAmount, amount.currencyCode)),
            status = payment_states[order.paymentState],
        },
        fulfillments = present(fulfillments),
        returns = present(returns(order.returnInfo)),
    }}
end

local function shipped(list)
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
    -- An edit names the new total, and no items.
    ["OrderEditApplied"] = function(message)
        local after = total(message.result.excerptAfterEdit)
        local amount = money(after.centAmount, after.currencyCode)
        return numbered(message, "total", {
            payment = {total = amount, summaryItems = {{label = constants.labels.total, value = amount}}},
        })
    end,
    ["OrderCustomerEmailSet"] = function(message)
        if text(message.email) then
            return numbered(message, "email", {customer = {emailAddress = message.email}})
        end
    end,
    ["DeliveryAdded"] = function(message) return shipped(parcels(message.delivery, {})) end,
    ["ParcelAddedToDelivery"] = function(message)
        local delivery = text(message.delivery) or {}
        return shipped({shipment(message.parcel.id, message.parcel.trackingData, delivery.address)})
    end,
    -- The whole of it: what it does not have is no longer so.
    ["ParcelTrackingDataUpdated"] = function(message)
        local made = shipment(message.parcelId, message.trackingData)
        if not made then return end
        made.carrier = made.carrier or null
        made.trackingNumber, made.trackingURL = made.trackingNumber or null, made.trackingURL or null
        return shipped({made})
    end,
    ["ParcelRemovedFromDelivery"] = function(message)
        return shipped({{fulfillmentIdentifier = message.parcel.id, status = "cancelled"}})
    end,
    ["DeliveryRemoved"] = function(message)
        local list = {}
        for _, parcel in ipairs(waybill.list(message.delivery.parcels)) do
            list[#list + 1] = {fulfillmentIdentifier = parcel.id, status = "cancelled"}
        end
        return shipped(list)
    end,
    ["ReturnInfoAdded"] = function(message) return {data = {returns = returns(message.returnInfo)}} end,
    ["ReturnInfoSet"] = function(message)
        local list = returns(message.returnInfo)
        if #list > 0 then return {data = {returns = list}} end
    end,
    ["OrderReturnShipmentStateChanged"] = function(message)
        local status = return_states[message.returnShipmentState]
        if status then return {data = {returns = {{returnIdentifier = message.returnItemId, status = status}}}} end
    end,
    ["OrderDeleted"] = function() return {type = "removed"} end,
}

function map(event)
    local message = event.data
    if message.notificationType ~= "Message" or message.resource.typeId ~= "order" then return end
    local away = text(message.payloadNotIncluded)
    local kind = kinds[text(message.type) or away and away.payloadType]
    if not kind then return end
    if away then error("message " .. message.id .. " came without its payload: " .. away.reason) end
    local change = kind(message)
    if not change then return end
    change.order, change.id, change.time = message.resource.id, message.id, message.createdAt
    return {change}
end
