-- Shopify's fulfillment, as of its webhooks fulfillments/create and fulfillments/update.
-- https://shopify.dev/docs/api/admin-rest/latest/resources/fulfillment

local function text(value)
    if value ~= null and value ~= nil and value ~= "" then return value end
end

local function line_items(fulfillment)
    local items, is_shipped = {}, false
    for _, item in ipairs(waybill.list(fulfillment.line_items)) do
        items[#items + 1] = {
            title = item.title, subtitle = text(item.variant_title), sku = text(item.sku), quantity = item.quantity,
        }
        if item.requires_shipping ~= false then is_shipped = true end
    end
    return items, is_shipped or #items == 0
end

-- Each parcel is a fulfillment of its own, since Wallet follows one number in each. Their contents are known together.
local function shipments(fulfillment, status, is_sent, items)
    local numbers, links = waybill.list(fulfillment.tracking_numbers), waybill.list(fulfillment.tracking_urls)
    if #numbers == 0 then numbers = {text(fulfillment.tracking_number)} end
    local company, parcels = text(fulfillment.tracking_company), {}
    -- Other is what a person chooses who does not find the carrier.
    if company and company:lower() == "other" then company = nil end
    for index = 1, math.max(#numbers, 1) do
        local carrier = waybill.carrier(company, text(numbers[index]))
        local link = text(links[index]) or index == 1 and text(fulfillment.tracking_url)
        parcels[index] = {
            fulfillmentIdentifier = fulfillment.id .. (index > 1 and "-" .. index or ""),
            fulfillmentType = "shipping",
            status = status,
            shippedAt = is_sent and waybill.time(fulfillment.created_at) or nil,
            carrier = carrier.carrier,
            trackingNumber = carrier.trackingNumber,
            trackingURL = link and waybill.url(link) or carrier.trackingURL,
            lineItems = index == 1 and items or nil,
        }
    end
    return parcels
end

local pickups = {["ready_for_pickup"] = "readyForPickup", ["picked_up"] = "pickedUp"}

-- An earlier event may have said that it was shipped.
local function pickup(fulfillment, status, items)
    return {{
        fulfillmentIdentifier = tostring(fulfillment.id),
        fulfillmentType = "pickup",
        status = status,
        displayName = constants.store,
        shippedAt = null,
        lineItems = items,
    }}
end

function map(fulfillment)
    local items, is_shipped = line_items(fulfillment)
    local request = (text(fulfillment.status) or ""):lower()
    -- A cancelled fulfillment keeps the last status of its shipment.
    local movement = request ~= "cancelled" and text(fulfillment.shipment_status) or request
    movement = movement:lower()
    local status = waybill.status.shopify(movement)
    local is_sent = is_shipped and request == "success" and status ~= "processing"
    -- A download or a gift card is delivered by being fulfilled.
    if not is_shipped and status == "shipped" then status = "delivered" end
    -- With a number, it is a carrier's counter where the parcel waits; without one, the shop's.
    local is_parcel = text(fulfillment.tracking_number) or #waybill.list(fulfillment.tracking_numbers) > 0
    local taken = not is_parcel and pickups[movement]
    return {{
        order = fulfillment.order_id,
        time = fulfillment.updated_at,
        data = {fulfillments = taken and pickup(fulfillment, taken, items)
            or shipments(fulfillment, status, is_sent, items)},
    }}
end
