-- The gateway's GET in nginx: token check, conditional GET, one HMGET (two for an outdated condition), cached assets.
local redis = require "nginx.redis"
local order = {}

-- Assets by digest. They never change, so a plain table in each worker is enough, without the copies of a shared one.
local assets = {}

local function refuse()
    ngx.status = 401
    ngx.header["www-authenticate"] = "AppleOrder"
    ngx.header["content-type"] = "application/json"
    ngx.header["cache-control"] = "no-store"
    local body = '{"error":{"message":"the authentication token is missing or wrong"}}'
    ngx.header["content-length"] = #body
    ngx.print(body)
end

local function is_fresh(modified, tag)
    local given = ngx.var.http_if_none_match
    if given then return given == "*" or given == '"' .. tag .. '"' end
    local since = ngx.var.http_if_modified_since
    if not since then return false end
    local seconds = ngx.parse_http_time(since)
    return seconds and seconds >= modified
end

local function stamp_headers(modified, tag)
    ngx.header["last-modified"] = ngx.http_time(modified)
    ngx.header["etag"] = '"' .. tag .. '"'
    ngx.header["cache-control"] = ngx.var.cache_control
    ngx.header["vary"] = ngx.var.vary
end

local function give_back(connection) connection:set_keepalive(60000, 256) end

function order.answer()
    local authorization = ngx.var.http_authorization
    if not authorization or authorization:sub(1, 11):lower() ~= "appleorder " then return refuse() end
    local token = authorization:sub(12)
    local connection = redis:new()
    connection:set_timeout(1000)
    if not connection:connect("127.0.0.1", tonumber(ngx.var.redis_port)) then return ngx.exit(503) end
    local key = "waybill:1:order:{" .. ngx.var[1] .. "/" .. ngx.var[2] .. "}"

    -- With a condition the package is read only if it is needed, as in the gateway.
    if ngx.var.http_if_none_match or ngx.var.http_if_modified_since then
        local stamp, failure = connection:hmget(key, "token", "version", "modified", "etag", "removed")
        if not stamp then ngx.log(ngx.ERR, failure) return ngx.exit(503) end
        if stamp[1] ~= token or stamp[5] == "1" then give_back(connection) return refuse() end
        local modified = tonumber(stamp[3])
        if is_fresh(modified, stamp[4]) then
            give_back(connection)
            stamp_headers(modified, stamp[4])
            ngx.status = 304
            return
        end
    end

    local fields, failure = connection:hmget(
        key, "token", "version", "modified", "etag", "removed", "head", "assets", "tail")
    if not fields then ngx.log(ngx.ERR, failure) return ngx.exit(503) end
    if fields[1] ~= token or fields[5] == "1" then give_back(connection) return refuse() end
    local parts, length = {}, #fields[6] + #fields[8]
    for digest in fields[7]:gmatch("%S+") do
        local asset = assets[digest]
        if not asset then
            asset = connection:get("waybill:1:asset:{" .. digest .. "}")
            assets[digest] = asset
        end
        parts[#parts + 1] = asset
        length = length + #asset
    end
    -- The last one are the certificates, which follow the order's own head.
    table.insert(parts, #parts, fields[6])
    parts[#parts + 1] = fields[8]
    give_back(connection)
    stamp_headers(tonumber(fields[3]), fields[4])
    ngx.header["content-length"] = length
    ngx.print(parts)
end

return order
