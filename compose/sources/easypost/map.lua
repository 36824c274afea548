-- EasyPost's event tracker.created or tracker.updated: https://docs.easypost.com/docs/trackers
-- A shop that makes its trackers with the reference "<order>/<fulfillment>" names both by it. Else the order is the one
-- that has the parcel: another source must have sent its carrier and tracking number.

local function text(value)
    if value ~= null and value ~= nil and value ~= "" then return value end
end

local function owner(tracker)
    local reference = text(tracker.reference)
    if not reference then return waybill.alias(tracker.carrier, tracker.tracking_code) end
    local parts = waybill.split(reference, constants.separator)
    if #parts ~= 2 then error("the reference \"" .. reference .. "\" is not <order>/<fulfillment>") end
    return parts[1], parts[2]
end

-- A delivery to the sender is none to the customer.
local function delivered(tracker)
    if tracker.status ~= "delivered" then return end
    local moment
    for _, detail in ipairs(text(tracker.tracking_details) or {}) do
        if detail.status == "delivered" then moment = waybill.time(detail.datetime) end
    end
    return moment
end

-- A date comes as midnight of UTC, which is the evening before in America.
local function estimate(tracker)
    local value = text(tracker.est_delivery_date)
    if not value then return end
    if value:find("T00:00:00Z") then return waybill.time(value:sub(1, 10), constants.zone) end
    return waybill.time(value)
end

function map(event)
    if event.object ~= "Event" or not event.description:find("tracker.") then return end
    local tracker = event.result
    if tracker.is_return == true then return end
    local order, fulfillment = owner(tracker)
    local carrier = waybill.carrier(tracker.carrier, tracker.tracking_code)
    return {{
        order = order,
        id = event.id,
        time = tracker.updated_at,
        data = {fulfillments = {{
            fulfillmentIdentifier = fulfillment,
            status = waybill.status.easypost(tracker.status),
            carrier = carrier.carrier,
            trackingNumber = carrier.trackingNumber,
            trackingURL = carrier.trackingURL or text(tracker.public_url),
            deliveredAt = delivered(tracker),
            estimatedDeliveryAt = estimate(tracker),
        }}},
    }}
end
