/// The part of the library `waybill` that is written in Lua itself.
enum LuaLibrary {
    /// A chunk that returns the table `waybill`. Its globals are the base, the functions of `HostFunction`, and `fail`,
    /// which raises an error at the line of the program.
    static let text = """
        local waybill = {time = time, integer = integer, status = {}}

        function waybill.money(value, currency, unit)
            return {amount = amount(value, currency, unit), currency = currency}
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

        function waybill.carrier(name, number)
            if name == nil or name == null or name == "" then return {trackingNumber = number} end
            if type(name) ~= "string" then fail("carrier: the name must be a text") end
            local known = carriers[plain(name)]
            if not known then
                note("carrier", name)
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

        local function status(table_name, values)
            return function(value)
                if value == nil or value == null then return nil end
                local found = values[value]
                if found == nil then note("status." .. table_name, tostring(value)) end
                return found or nil
            end
        end

        \(Self.statuses)

        for name, values in pairs(statuses) do waybill.status[name] = status(name, values) end
        return waybill
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
    /// Sources: EasyPost, "Tracker object"; AfterShip, "Delivery statuses"; Shopify, `FulfillmentEventStatus` and
    /// `FulfillmentStatus`; commercetools, `ShipmentState` and `OrderState`; Adobe Commerce, "Order status"
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
                carrier_picked_up = "onTheWay", delayed = "onTheWay",
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
