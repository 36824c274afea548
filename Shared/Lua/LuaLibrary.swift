import Model

/// The part of the library `waybill` that is written in Lua itself.
enum LuaLibrary {
    /// A list of changes as `clua_load` takes it: where the data has lists and numbers.
    static let resultShape: [UInt8] = {
        func shape(_ place: OrderPlace?) -> JSON {
            guard let place else { return .null }
            if place.isArray { return [shape(place.element)] }
            if place.isNumber { return 0 }
            return .object(JSONObject(place.memberNames.map { ($0, shape(place.member($0))) }))
        }
        guard case .object(var data) = shape(.data) else { return [] }
        data["owns"] = [.null]
        return ([["data": .object(data)]] as JSON).serialized
    }()

    /// A chunk that returns the metatable of a program's globals. It begins with `LuaBase.text`.
    static let text = """
        \(LuaBase.text)
        local waybill = {time = time, integer = integer, status = {}}

        -- The marks of a text's number as one text: that of decimals, and that of groups if there is one.
        local function marks(options)
            if type(options) ~= "table" then fail('marks are a table, such as {decimal = ","}') end
            for name in pairs(options) do
                if name ~= "decimal" and name ~= "grouping" then fail("marks are decimal and grouping") end
            end
            return (options.decimal or ".") .. (options.grouping or "")
        end

        function waybill.money(value, currency, unit, options)
            if plain_type(currency) == "string" then currency = upper(currency) end
            if options ~= nil then options = marks(options) end
            return {amount = amount(value, currency, unit, options), currency = currency}
        end

        function waybill.number(value, form, options)
            if type(form) == "table" then form, options = nil, form end
            return number(value, options ~= nil and marks(options) or nil, form)
        end

        -- The URL that a text means, or nil: a link is an ornament, and costs no order.
        function waybill.url(text)
            if type(text) ~= "string" or #text > 4096 then return nil end
            return url(text)
        end

        -- Of one thing or many of them, as in XML that was converted, a list.
        function waybill.list(value)
            if value == nil or value == null then return {} end
            if type(value) ~= "table" then return {value} end
            if #value == 0 then
                for _ in pairs(value) do return {value} end
            end
            return value
        end

        -- Copies a value without the nulls inside.
        function waybill.drop_nulls(value)
            if type(value) ~= "table" then return value end
            local copy = {}
            if #value > 0 then
                for _, element in ipairs(value) do
                    if element ~= null then copy[#copy + 1] = waybill.drop_nulls(element) end
                end
                return copy
            end
            for name, member in pairs(value) do
                if member ~= null then copy[name] = waybill.drop_nulls(member) end
            end
            return copy
        end

        function waybill.split(text, separator)
            if type(text) ~= "string" or type(separator) ~= "string" or separator == "" then
                fail("split: takes a text and a separator")
            end
            local parts, from = {}, 1
            while true do
                local first, last = text:find(separator, from)
                if not first then break end
                parts[#parts + 1] = text:sub(from, first - 1)
                from = last + 1
            end
            parts[#parts + 1] = text:sub(from)
            return parts
        end

        -- Names are compared without case, spaces and punctuation.
        local function plain(name)
            local letters = {}
            for index = 1, math.min(#name, 40) do
                local letter = name:sub(index, index):lower()
                if letter:match("%w") then letters[#letters + 1] = letter end
            end
            return table.concat(letters)
        end

        local carriers = {
        \(Self.carriers)
        }

        -- Notes a value that a table does not have.
        local function unknown(table_name, value) note(table_name, tostring(value):sub(1, 200)) end

        function waybill.carrier(name, number)
            if name == nil or name == null or name == "" then return {trackingNumber = number} end
            if type(name) ~= "string" then fail("carrier: the name must be a text") end
            local known = carriers[plain(name)]
            if not known then
                unknown("carrier", name)
                return {carrier = name, trackingNumber = number}
            end
            local url
            if type(number) == "string" and #number <= 64 and number:match("^[%w]+$") then
                url = known[2]:replace("{}", number)
            end
            return {carrier = known[1], trackingNumber = number, trackingURL = url}
        end

        -- The order of a parcel, its fulfillment, and the brand if there are several.
        function waybill.alias(name, number)
            if name == null then name = nil end
            if name ~= nil and type(name) ~= "string" then fail("alias: the carrier must be a text") end
            local known = name and carriers[plain(name)]
            local shown = known and known[1] or name
            return owner("order", number, name, shown), owner("fulfillment", number, name, shown),
                owner("brand", number, name, shown)
        end

        -- Returns a function that finds words; one that is false is known and means nothing.
        local function finder(table_name, values)
            return function(word)
                if word == nil or word == null or word == "" then return nil end
                local found = values[word]
                if found == nil then unknown(table_name, word) end
                return found or nil
            end
        end

        function waybill.words(name, values)
            if type(name) ~= "string" or #name > 40 or not name:match("^[%w_.-]+$") then
                fail("words: the name must have 1 to 40 letters, digits, _, . or -")
            end
            if type(values) ~= "table" then fail("words: takes a name and a table") end
            local find = finder(name, values)
            return protect(function(_, word) return find(word) end)
        end

        \(Self.statuses)

        for name, values in pairs(statuses) do waybill.status[name] = finder("status." .. name, values) end
        waybill.status = protect(waybill.status)
        base.waybill = protect(waybill)
        return {__index = base, __metatable = false}
        """

    /// Keys are plain names; `{}` is the place of the number.
    private static let carriers = [
        ("ups", "UPS", "https://www.ups.com/track?tracknum={}"),
        ("usps", "USPS", "https://tools.usps.com/go/TrackConfirmAction?tLabels={}"),
        ("fedex", "FedEx", "https://www.fedex.com/fedextrack/?trknbr={}"),
        ("dhl", "DHL", "https://www.dhl.com/global-en/home/tracking.html?tracking-id={}"),
        ("dhlexpress", "DHL Express", "https://www.dhl.com/global-en/home/tracking.html?tracking-id={}"),
        ("dhlpaket", "DHL", "https://www.dhl.de/de/privatkunden/dhl-sendungsverfolgung.html?piececode={}"),
        ("dpd", "DPD", "https://tracking.dpd.de/status/en_US/parcel/{}"),
        ("gls", "GLS", "https://gls-group.eu/track/{}"),
        ("hermes", "Hermes", "https://www.myhermes.de/empfangen/sendungsverfolgung/sendungsinformation#{}"),
        ("evri", "Evri", "https://www.evri.com/track/parcel/{}"),
        ("royalmail", "Royal Mail", "https://www.royalmail.com/track-your-item#/tracking-results/{}"),
        ("canadapost", "Canada Post", "https://www.canadapost-postescanada.ca/track-reperage/en#/search?searchFor={}"),
        ("australiapost", "Australia Post", "https://auspost.com.au/mypost/track/details/{}"),
        ("colissimo", "Colissimo", "https://www.laposte.fr/outils/suivre-vos-envois?code={}"),
        ("postnord", "PostNord", "https://tracking.postnord.com/en/tracking?id={}"),
        ("ontrac", "OnTrac", "https://www.ontrac.com/tracking/?number={}"),
    ].map { "    \($0.0) = {\"\($0.1)\", \"\($0.2)\"}," }.joined(separator: "\n")

    /// A status that is `false` is known and says nothing.
    ///
    /// Sources: EasyPost, "Tracker object"; AfterShip, "Delivery statuses"; Shopify, `FulfillmentEventStatus`,
    /// `FulfillmentDisplayStatus` and `FulfillmentStatus`; commercetools, `ShipmentState` and `OrderState`; Adobe
    /// Commerce, "Order status"
    private static let statuses = """
        local statuses = {
            easypost = {
                unknown = false, pre_transit = "processing", in_transit = "onTheWay",
                out_for_delivery = "outForDelivery", delivered = "delivered", available_for_pickup = "onTheWay",
                return_to_sender = "issue", failure = "issue", cancelled = "cancelled", error = "issue",
            },
            aftership = {
                Pending = false, InfoReceived = "processing", InTransit = "onTheWay",
                OutForDelivery = "outForDelivery", AttemptFail = "issue", Delivered = "delivered",
                AvailableForPickup = "onTheWay", Exception = "issue", Expired = false,
            },
            shopify = {
                pending = "open", open = "open", success = "shipped", cancelled = "cancelled", error = "issue",
                failure = "issue", label_purchased = "processing", label_printed = "processing",
                confirmed = "processing", ready_for_pickup = "onTheWay", in_transit = "onTheWay",
                out_for_delivery = "outForDelivery", attempted_delivery = "issue", delivered = "delivered",
                carrier_picked_up = "onTheWay", delayed = "onTheWay", picked_up = "delivered",
                ready_for_recipient_pickup = "onTheWay", buyer_action_required = "issue",
                returning_to_sender = "issue", not_delivered = "issue", submitted = "processing",
                label_voided = "processing", fulfilled = "shipped", marked_as_fulfilled = "shipped",
                canceled = "cancelled",
            },
            commercetools = {
                Shipped = "shipped", Delivered = "delivered", Ready = "processing", Pending = "open",
                Delayed = "issue", Partial = "processing", Backorder = "open", Canceled = "cancelled",
                Open = "open", Confirmed = "open", Complete = "completed", Cancelled = "cancelled",
            },
            adobe = {
                pending = "open", pending_payment = "open", processing = "open", holded = "open",
                payment_review = "open", fraud = "open", complete = "open", closed = "completed",
                canceled = "cancelled",
            },
        }
        """
}
