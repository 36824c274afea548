-- Adyen's standard webhooks of payments: https://docs.adyen.com/development-resources/webhooks/webhook-types
-- They know the money and not the goods, so they move the status of the payment alone.
-- Adyen sends them in any sequence and some again with another date. Each change is numbered: first by what it can
-- undo, then by the date, then by the status. So an attempt to pay takes back no payment, however late it arrives.

local function text(value)
    if value ~= null and value ~= nil and value ~= "" then return value end
end

-- The shop names the order in the metadata of each request, or before the separator of the reference.
local function order_of(item, additional)
    local reference = text(item.merchantReference)
    return text(additional["metadata." .. constants.order])
        or reference and text(waybill.split(reference, constants.separator)[1])
end

-- The status once the money is reserved. What cannot be captured was paid at once, as with iDEAL.
local function reserved(item)
    if constants.capture == "automatic" then return "paid" end
    for _, operation in ipairs(text(item.operations) or {"CAPTURE"}) do
        if operation == "CAPTURE" then return "authorized" end
    end
    return "paid"
end

local function is_whole(item, additional)
    if constants.refunds == "full" then return true end
    local total = text(additional["metadata.total"])
    return total ~= nil and total == tostring(item.amount.value)
end

-- Attempts to pay; the reservation and its end, which takes nothing back of what was captured; what follows it.
local attempt, reservation, later = "0", "1", "2"

-- Each returns what the event can undo, and the status; nothing for an event that says nothing of it.
local kinds = {
    ["PENDING"] = function() return attempt, "pending" end,
    ["OFFER_CLOSED"] = function() return attempt, "voided" end,
    ["AUTHORISATION"] = function(item, additional)
        -- One part of several, such as a gift card. ORDER_CLOSED ends them all.
        if text(additional.merchantOrderReference) then return end
        return reservation, reserved(item)
    end,
    ["ORDER_CLOSED"] = function(item) return reservation, reserved(item) end,
    ["CAPTURE"] = function() return later, "paid" end,
    ["CAPTURE_FAILED"] = function() return later, "authorized" end,
    ["CANCELLATION"] = function() return reservation, "voided" end,
    ["TECHNICAL_CANCEL"] = function() return reservation, "voided" end,
    ["VOID_PENDING_REFUND"] = function() return reservation, "voided" end,
    ["EXPIRE"] = function() return reservation, "voided" end,
    ["CANCEL_OR_REFUND"] = function(_, additional)
        local action = additional["modification.action"]
        if action == "cancel" then return reservation, "voided" end
        if action == "refund" then return later, "refunded" end
    end,
    ["REFUND"] = function(item, additional)
        if is_whole(item, additional) then return later, "refunded" end
    end,
    ["REFUND_FAILED"] = function() return later, "paid" end,
    ["REFUNDED_REVERSED"] = function() return later, "paid" end,
}

local failures = {["AUTHORISATION"] = "declined", ["ORDER_CLOSED"] = "voided"}

local ranks = {pending = 0, declined = 1, authorized = 2, paid = 3, voided = 4, refunded = 5}

local function outcome(item, additional)
    if tostring(item.success) == "true" then
        local kind = kinds[item.eventCode]
        if kind then return kind(item, additional) end
    elseif failures[item.eventCode] and not text(additional.merchantOrderReference) then
        return attempt, failures[item.eventCode]
    end
end

function map(event, record)
    if tostring(event.live) ~= constants.live then return end
    local changes = {}
    for _, wrapped in ipairs(text(event.notificationItems) or {}) do
        local item = wrapped["NotificationRequestItem"]
        local additional = text(item.additionalData) or {}
        local step, status = outcome(item, additional)
        local order = order_of(item, additional)
        if status and order then
            local date = text(item.eventDate)
            local time = date and waybill.time(date) or waybill.time(record.timestamp, "ms")
            changes[#changes + 1] = {
                order = order,
                id = item.eventCode .. "/" .. item.pspReference .. "/" .. tostring(item.success),
                time = time,
                sequence = step .. string.match(time, "^%d+") .. time:sub(6, 7) .. time:sub(9, 10) .. time:sub(12, 13)
                    .. time:sub(15, 16) .. time:sub(18, 19) .. ranks[status],
                data = {payment = {status = status}},
            }
        end
    end
    return changes
end
