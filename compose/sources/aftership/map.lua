-- AfterShip's webhooks tracking_update and edd_revise.
-- https://www.aftership.com/docs/tracking/webhook/webhook-specifications
-- The shop gives a tracking the order's identifier as order_id, and the fulfillment's in custom_fields; a tracking
-- without the latter is a fulfillment of its own.

local function text(value)
    if value ~= null and value ~= nil and value ~= "" then return value end
end

-- Couriers whose slug is not their name.
local names = {
    ["dhl-germany"] = "DHL Paket", ["dpd-de"] = "DPD", ["hermes-de"] = "Hermes", ["colis-prive"] = "Colis Privé",
    ["la-poste-colissimo"] = "Colissimo",
}

-- Many carriers send local times: they are taken as of the zone that the shop delivers in.
local function moment(value)
    if text(value) then return waybill.time(value, constants.zone) end
end

local function estimate(tracking)
    local latest = text(tracking.latest_estimated_delivery)
    if latest then return text(latest.datetime) or text(latest.datetime_max) end
    return tracking.expected_delivery
end

function map(event)
    if event.event ~= "tracking_update" and event.event ~= "edd_revise" then return end
    local tracking = event.msg
    -- A parcel to a store is no shipment to the customer.
    if not text(tracking.order_id) or tracking.delivery_type == "pickup_at_store" then return end
    local fields = text(tracking.custom_fields) or {}
    local slug = tracking.slug
    local carrier = waybill.carrier(names[slug] or slug, text(tracking.tracking_number))
    -- What goes back to the sender ends as Delivered too.
    local is_returned = tracking.return_to_sender == true
    return {{
        order = tracking.order_id,
        id = event.event_id,
        time = waybill.time(event.ts, "s"),
        data = {fulfillments = {{
            fulfillmentIdentifier = text(fields[constants.fulfillment]) or tracking.id,
            fulfillmentType = "shipping",
            status = is_returned and "issue" or waybill.status.aftership(tracking.tag),
            carrier = carrier.carrier,
            trackingNumber = carrier.trackingNumber,
            trackingURL = text(tracking.courier_tracking_link) or carrier.trackingURL,
            shippedAt = moment(tracking.shipment_pickup_date),
            deliveredAt = not is_returned and moment(tracking.shipment_delivery_date) or nil,
            estimatedDeliveryAt = moment(estimate(tracking)),
        }}},
    }}
end
