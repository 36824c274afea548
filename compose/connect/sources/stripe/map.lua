-- Stripe's events of payments, as snapshots: https://docs.stripe.com/api/events/types
-- They know the money and not the goods: the status of the payment, and what was paid and given back.
-- Stripe sends them in any sequence, and several in one second. Each change is numbered: first by whether it is an
-- attempt only, then by the time, then by the status. So a failed attempt takes back no payment.

local function text(value)
    if value ~= null and value ~= nil and value ~= "" then return value end
end

local ranks = {pending = 1, declined = 2, authorized = 3, paid = 4, refunded = 5, voided = 6}

-- What the customer paid with: "Visa 4242", "PayPal".
local function method(charge)
    local details = text(charge.payment_method_details) or {}
    local card = text(details.card) or text(details.card_present) or {}
    local name = text(card.brand) or text(details.type) or "card"
    local shown = constants.methods[name]
    if not shown then
        shown = string.replace(name, "_", " ")
        shown = shown:sub(1, 1):upper() .. shown:sub(2)
    end
    return text(card.last4) and shown .. " " .. card.last4 or shown
end

local states = {authorized = "approved", paid = "completed", refunded = "completed", voided = "cancelled"}

-- The charge as a purchase, and all of its refunds as one: an event has their sum, and no list.
local function transactions(charge, status, time)
    if not states[status] then return end
    local function transaction(kind, amount, moment, state)
        return {
            transactionType = kind,
            status = state,
            amount = waybill.money(amount, charge.currency, "stripe"),
            createdAt = moment,
            paymentMethod = {displayName = method(charge)},
        }
    end
    local captured = charge.captured and text(charge.amount_captured) or charge.amount
    local list = {transaction("purchase", captured, waybill.time(charge.created, "s"), states[status])}
    -- What was not captured counts as refunded with Stripe, though nobody paid it.
    local refunded = charge.amount_refunded - (charge.amount - captured)
    if charge.captured and refunded > 0 then
        list[2] = transaction("refund", refunded, time, "completed")
    end
    return list
end

-- Each returns the status, and members of the payment beside it; nothing for an object that says nothing of it.
local objects = {
    ["charge"] = function(charge, time)
        local status
        if charge.status == "failed" then
            status = "declined"
        elseif charge.status == "pending" then
            status = "pending"
        elseif charge.refunded then
            status = charge.captured and "refunded" or "voided"
        else
            status = charge.captured and "paid" or "authorized"
        end
        return status, transactions(charge, status, time)
    end,
    ["payment_intent"] = function(intent)
        local status = intent.status
        local isRefused = text(intent.last_payment_error) ~= nil
        if status == "succeeded" then return "paid" end
        if status == "requires_capture" then return "authorized" end
        if status == "processing" or status == "requires_action" then return "pending" end
        if status == "requires_payment_method" and isRefused then return "declined" end
        -- One that never reserved anything is an attempt that was given up: another may have paid.
        if status == "canceled" and text(intent.latest_charge) and not isRefused
            and intent.cancellation_reason ~= "duplicate" then return "voided" end
    end,
    ["refund"] = function(refund)
        -- The money came back to the shop. The sum of the refunds is not known.
        if refund.status == "failed" or refund.status == "canceled" then return "paid", null end
    end,
    ["checkout.session"] = function(session, _, kind)
        if session.mode ~= "payment" then return end
        if kind == "checkout.session.async_payment_failed" then return "declined" end
        if session.payment_status == "paid" then return "paid" end
        if session.status == "complete" and session.payment_status == "unpaid" then return "pending" end
    end,
}

local function order_of(object)
    local metadata = text(object.metadata) or {}
    return text(metadata[constants.order]) or text(object.client_reference_id)
end

function map(event)
    -- Whoever has a connected account writes its metadata.
    if event.livemode ~= constants.livemode or text(event.account) then return end
    if event.object == "v2.core.event" then
        if event.type:match("^v1%.charge%.") or event.type:match("^v1%.payment_intent%.") then
            error("event " .. event.id .. " is thin: choose snapshot for the destination of events")
        end
        return
    end
    local object = event.data.object
    local kind = objects[object.object]
    local order = kind and order_of(object)
    if not order then return end
    local time = waybill.time(event.created, "s")
    local status, made = kind(object, time, event.type)
    if not status then return end
    local step = (status == "pending" or status == "declined") and "0" or "1"
    return {{
        order = order,
        id = event.id,
        time = time,
        sequence = step .. event.created .. ranks[status],
        data = {payment = {status = status, transactions = made}},
    }}
end
