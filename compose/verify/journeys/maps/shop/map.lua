-- The whole order each time. The place of its record is the identifier of a change.
function map(event)
    local items = {}
    for index, item in ipairs(event.items) do
        items[index] = {
            sku = item.sku, title = item.title, quantity = item.quantity,
            price = waybill.money(item.cents, "EUR", "minor"),
        }
    end
    return {{
        order = event.number,
        sequence = event.revision,
        time = event.changed,
        data = {
            createdAt = event.placed, orderNumber = event.number, status = event.state,
            statusDescription = event.remark, orderManagementURL = constants.shop .. event.number,
            merchant = constants.merchant, lineItems = items,
            payment = {total = waybill.money(event.cents, "EUR", "minor"), status = "paid"},
        },
    }}
end
