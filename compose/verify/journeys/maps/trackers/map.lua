-- A carrier's event, which knows the parcel alone. One without an identifier gets the place of its record; one without
-- a status says nothing.
function map(event)
    if event.status == "" then return end
    local order, fulfillment = waybill.alias(event.carrier, event.parcel)
    local id
    if event.id ~= "" then id = event.id end
    return {{
        order = order,
        type = "fulfillment.updated",
        id = id,
        time = waybill.time(event.at, "ms"),
        data = {fulfillmentIdentifier = fulfillment, status = event.status, statusDescription = event.place},
    }}
end
