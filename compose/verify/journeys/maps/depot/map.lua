-- A shipment, with the identifier of its event. A note that is null is removed.
function map(event)
    local shipment = event.data
    return {{
        order = event.subject,
        type = "fulfillment.updated",
        id = event.id,
        time = event.time,
        data = {
            fulfillmentIdentifier = shipment.shipment, fulfillmentType = "shipping", status = shipment.status,
            carrier = shipment.carrier, trackingNumber = shipment.parcel, notes = shipment.note,
            trackingURL = shipment.link, shippedAt = shipment.shipped,
        },
    }}
end
