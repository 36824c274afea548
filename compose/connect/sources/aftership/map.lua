-- AfterShip's webhooks tracking_update and edd_revise, of version 4 and those with a date up to 2026-07.
-- https://www.aftership.com/docs/tracking/webhook/webhook-specifications
-- The shop gives a tracking the order's identifier as order_id, and the fulfillment's in custom_fields; a tracking
-- without the latter is a fulfillment of its own. A webhook that is sent again can arrive after newer ones: each
-- tracking is a source of its own, numbered by the moments of its events.

local function text(value)
    if value ~= null and value ~= nil and value ~= "" then return value end
end

-- Many carriers send local times: they are taken as of the zone that the shop delivers in. What is no date is left out.
local function moment(value)
    if text(value) and value:match("^%d%d%d%d%-%d%d%-%d%d") then return waybill.time(value, constants.zone) end
end

-- The day that is promised: of a range, its end. Of several forecasts, the one that AfterShip shows.
local function estimate(tracking)
    local latest = text(tracking.latest_estimated_delivery) or {}
    local courier = text(tracking.courier_estimated_delivery_date) or {}
    local own = text(tracking.aftership_estimated_delivery_date) or {}
    return moment(
        text(latest.datetime) or text(latest.datetime_max)
            or text(courier.estimated_delivery_date_max) or text(courier.estimated_delivery_date)
            or text(own.estimated_delivery_date_max) or text(own.estimated_delivery_date)
            or tracking.expected_delivery)
end

local function delivered(tracking)
    if text(tracking.shipment_delivery_date) then return moment(tracking.shipment_delivery_date) end
    local last
    for _, checkpoint in ipairs(text(tracking.checkpoints) or {}) do
        if checkpoint.tag == "Delivered" then last = checkpoint.checkpoint_time end
    end
    return moment(last)
end

-- What the customer can act upon, in the shop's words; null ends what was said before.
local function description(tracking)
    return constants.descriptions[tracking.subtag] or constants.descriptions[tracking.tag] or null
end

-- The carrier that comes to the door, if the first one handed the parcel on.
local function parcel(tracking)
    local last = text(tracking.last_mile)
    local leg = last and text(last.tracking_number) and last or tracking
    local slug = text(leg.slug)
    -- The word for a carrier that AfterShip does not know.
    if slug == "unrecognized" then slug = nil end
    local carrier = waybill.carrier(constants.carriers[slug or ""] or slug, text(leg.tracking_number))
    return carrier, waybill.url(leg.courier_tracking_link) or carrier.trackingURL
end

local pickup_states = {
    ["InfoReceived"] = "processing", ["InTransit"] = "processing", ["OutForDelivery"] = "processing",
    ["AvailableForPickup"] = "readyForPickup", ["Delivered"] = "pickedUp", ["AttemptFail"] = "issue",
    ["Exception"] = "issue",
}

-- A parcel that waits in a store of the shop.
local function pickup(tracking)
    return {
        fulfillmentType = "pickup",
        displayName = text(tracking.pickup_location),
        status = pickup_states[tracking.tag],
        notes = text(tracking.pickup_note),
        pickedUpAt = tracking.tag == "Delivered" and delivered(tracking) or nil,
        pickupAt = estimate(tracking),
    }
end

local function shipping(tracking)
    local carrier, url = parcel(tracking)
    -- What goes back to the sender ends as Delivered too.
    local is_returned = tracking.return_to_sender == true
    return {
        fulfillmentType = "shipping",
        status = is_returned and "issue" or waybill.status.aftership(tracking.tag),
        carrier = carrier.carrier,
        trackingNumber = carrier.trackingNumber,
        trackingURL = url,
        notes = text(tracking.pickup_note) or text(tracking.pickup_location),
        shippedAt = moment(tracking.shipment_pickup_date),
        deliveredAt = not is_returned and tracking.tag == "Delivered" and delivered(tracking) or nil,
        estimatedDeliveryAt = estimate(tracking),
    }
end

function map(event)
    if event.event ~= "tracking_update" and event.event ~= "edd_revise" then return end
    local tracking = event.msg
    if not text(tracking.order_id) then return end
    local fields = text(tracking.custom_fields) or {}
    local fulfillment = tracking.delivery_type == "pickup_at_store" and pickup(tracking) or shipping(tracking)
    fulfillment.fulfillmentIdentifier = text(fields[constants.fulfillment]) or tracking.id
    fulfillment.statusDescription = description(tracking)
    return {{
        order = tracking.order_id,
        source = "/aftership/" .. tracking.id,
        id = event.event_id,
        time = waybill.time(event.ts, "s"),
        sequence = event.ts,
        data = {fulfillments = {fulfillment}},
    }}
end
