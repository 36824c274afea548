-- EasyPost's event tracker.created or tracker.updated: https://docs.easypost.com/docs/trackers
-- The shop creates its trackers with the reference "<order>/<fulfillment>": an event names both by it.

function map(event)
    if event.object ~= "Event" or not event.description:find("tracker.") then return end
    local tracker = event.result
    local reference = tracker.reference
    if not reference or reference == null then return end
    local parts = waybill.split(reference, constants.separator)
    if #parts ~= 2 then error("the reference \"" .. reference .. "\" is not <order>/<fulfillment>") end
    local carrier = waybill.carrier(tracker.carrier, tracker.tracking_code)
    local delivered
    for _, detail in ipairs(tracker.tracking_details or {}) do
        if detail.status == "delivered" then delivered = waybill.time(detail.datetime) end
    end
    local estimate = tracker.est_delivery_date
    return {{
        order = parts[1],
        time = tracker.updated_at,
        data = {fulfillments = {{
            fulfillmentIdentifier = parts[2],
            status = waybill.status.easypost(tracker.status),
            carrier = carrier.carrier,
            trackingNumber = carrier.trackingNumber,
            trackingURL = carrier.trackingURL,
            deliveredAt = delivered,
            estimatedDeliveryAt = estimate and estimate ~= null and waybill.time(estimate) or nil,
        }}},
    }}
end
