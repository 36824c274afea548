-- EasyPost's events tracker.created and tracker.updated: https://docs.easypost.com/docs/trackers
-- A tracker names no order. The order is the one that has the parcel: another source must have sent its carrier and
-- tracking number. An event that is sent again can arrive after newer ones: each tracker is a source of its own,
-- numbered by the moments of its changes.

local function text(value)
    if value ~= null and value ~= nil and value ~= "" then return value end
end

-- The first moment at which the parcel had one of these statuses, or the last one.
local function scanned(tracker, statuses, isLast)
    local moment
    for _, detail in ipairs(text(tracker.tracking_details) or {}) do
        if statuses[detail.status] and text(detail.datetime) and (isLast or not moment) then
            moment = waybill.time(detail.datetime)
        end
    end
    return moment
end

-- The carrier's own day, where the parcel goes. A date comes as midnight of UTC, which is the evening before in America.
local function estimate(tracker)
    local detail = text(tracker.carrier_detail) or {}
    local date, clock = text(detail.est_delivery_date_local), text(detail.est_delivery_time_local)
    if date then return waybill.time(clock and date .. "T" .. clock or date, constants.zone) end
    local value = text(tracker.est_delivery_date)
    if not value then return end
    if value:find("T00:00:00Z") then return waybill.time(value:sub(1, 10), constants.zone) end
    return waybill.time(value)
end

function map(event)
    if event.object ~= "Event" or not event.description:find("tracker.") then return end
    if text(event.mode) and event.mode ~= constants.mode then return end
    local tracker = text(event.result)
    if not tracker or tracker.is_return == true then return end
    local name = text(tracker.carrier)
    name = constants.carriers[name or ""] or name
    local order, fulfillment = waybill.alias(name, tracker.tracking_code)
    local carrier = waybill.carrier(name, tracker.tracking_code)
    local time = text(tracker.updated_at) and waybill.time(tracker.updated_at)
    -- What goes back to the sender ends as delivered with many carriers.
    local status = scanned(tracker, {return_to_sender = true}) and "return_to_sender" or tracker.status
    local change = {
        order = order,
        id = event.id,
        time = time,
        data = {fulfillments = {{
            fulfillmentIdentifier = fulfillment,
            status = waybill.status.easypost(status),
            statusDescription = constants.descriptions[status] or null,
            carrier = carrier.carrier,
            trackingNumber = carrier.trackingNumber,
            trackingURL = carrier.trackingURL or waybill.url(tracker.public_url),
            shippedAt = scanned(tracker, {in_transit = true, out_for_delivery = true, delivered = true}),
            deliveredAt = status == "delivered" and scanned(tracker, {delivered = true}, true) or nil,
            estimatedDeliveryAt = estimate(tracker),
        }}},
    }
    if time and text(tracker.id) then
        change.source = "/easypost/" .. tracker.id
        change.sequence = string.replace(string.replace(string.replace(
            string.replace(time, "-", ""), ":", ""), "T", ""), "Z", "")
    end
    return {change}
end
