/// A configuration key: its name in the environment and in the file, and its meaning.
///
/// The services' own keys are here too, so that one list has everything that Waybill reads and each service detects a
/// misspelt key in the file. Each service's settings have the defaults, and tests compare them with the table in
/// `Shared/Operations/README.md`. Source: Design §8
public enum SettingKey: String, CaseIterable, Sendable {
    /// Address of one or more Kafka brokers, `host:port` separated by commas.
    case kafkaBootstrap = "WAYBILL_KAFKA_BOOTSTRAP"
    /// Path of a librdkafka properties file (TLS, SASL, tuning).
    case kafkaProperties = "WAYBILL_KAFKA_PROPERTIES"
    /// A name of this worker that survives restarts, such as its pod's: it keeps its partitions during a restart.
    case groupInstance = "WAYBILL_GROUP_INSTANCE"
    /// The prefix of all topics.
    case topicPrefix = "WAYBILL_TOPIC_PREFIX"
    /// Topics that changes are read from, names or patterns that begin with `^`, separated by commas.
    case orderChangeTopics = "WAYBILL_ORDER_CHANGE_TOPICS"
    /// Makes the services count by brand how orders come into Wallet: `on` or `off`.
    case adoption = "WAYBILL_ADOPTION"
    /// `redis://` or `rediss://`, with user and password if needed. Secret.
    case redisURL = "WAYBILL_REDIS_URL"
    /// Path of a file whose first line is the Redis password.
    case redisPasswordFile = "WAYBILL_REDIS_PASSWORD_FILE"
    /// Path of a PEM file with the roots for the certificates of a `rediss://` server.
    case redisRoots = "WAYBILL_REDIS_ROOTS"
    /// Directory with one sub-directory per brand.
    case brands = "WAYBILL_BRANDS"
    /// The interval at which that directory is checked for changes, in seconds, 1 to 3600.
    case brandsReloadSeconds = "WAYBILL_BRANDS_RELOAD_SECONDS"
    /// Path of a file with one secret per line; the first one mints authentication tokens. Required by gateway,
    /// packager.
    case tokenSecrets = "WAYBILL_TOKEN_SECRETS"
    /// The `https://…` URL at which Wallet calls the gateway. Required.
    case webServiceURL = "WAYBILL_WEB_SERVICE_URL"
    /// Most devices that may be registered for one order, 1 to 1,000.
    case devicesPerOrder = "WAYBILL_DEVICES_PER_ORDER"
    /// The longest time that a link in a mail may be valid for, in days, 0 to 90; 0: there are none.
    case mailLinkDays = "WAYBILL_MAIL_LINK_DAYS"
    /// The address on which the gateway listens, `host:port`; port 0 chooses a free one.
    case listen = "WAYBILL_LISTEN"
    /// Path of a PEM file with the gateway's certificate and its intermediates.
    case tlsCertificate = "WAYBILL_TLS_CERTIFICATE"
    /// Path of a PEM file with the key of that certificate.
    case tlsKey = "WAYBILL_TLS_KEY"
    /// Most connections to the gateway, 1 to 1,000,000.
    case connectionLimit = "WAYBILL_CONNECTION_LIMIT"
    /// Most connections to the gateway from one client, 1 to 1,000,000.
    case connectionLimitPerAddress = "WAYBILL_CONNECTION_LIMIT_PER_ADDRESS"
    /// Addresses and networks whose `X-Forwarded-For` the gateway trusts, separated by commas.
    case trustedProxies = "WAYBILL_TRUSTED_PROXIES"
    /// Makes the gateway log the messages that devices send to `POST /v1/log`: `on` or `off`.
    case deviceLogs = "WAYBILL_DEVICE_LOGS"
    /// Makes the gateway serve the routes of the compatible dialect too: `on` or `off`.
    case compatibility = "WAYBILL_COMPATIBILITY"
    /// The address on which the checkout role listens, `host:port`; port 0 chooses a free one.
    case checkoutListen = "WAYBILL_CHECKOUT_LISTEN"
    /// Directory with one sub-directory per source of events of other systems, for the role `ingest`.
    case sources = "WAYBILL_SOURCES"
    /// The wall around processes that map or decode: `full`, or `limits` where the system refuses `seccomp`.
    case sandbox = "WAYBILL_SANDBOX"
    /// Most processes that map records of sources, 1 to 64.
    case mappers = "WAYBILL_MAPPERS"
    /// Directory with one sub-directory per merchant of the checkout role.
    case merchants = "WAYBILL_MERCHANTS"
    case merchantSessionsPerClient = "WAYBILL_MERCHANT_SESSIONS_PER_CLIENT"
    /// Allows pages on this machine to use http with the checkout role: `on` or `off`. For development.
    case developmentPlayground = "WAYBILL_DEVELOPMENT_PLAYGROUND"
    /// Makes the checkout role serve the stand-in for Apple Pay: `on` or `off`. For development.
    case developmentPolyfill = "WAYBILL_DEVELOPMENT_POLYFILL"
    /// The addresses of fakes of Apple's merchant session hosts, `host:port:address:port` separated by commas. For
    /// development.
    case developmentApplePay = "WAYBILL_DEVELOPMENT_APPLE_PAY"
    /// Path of a PEM file with the roots for the certificates of those fakes.
    case developmentApplePayRoots = "WAYBILL_DEVELOPMENT_APPLE_PAY_ROOTS"
    /// The URL at which the pusher reaches APNs.
    case apnsURL = "WAYBILL_APNS_URL"
    /// Path of a PEM file with the roots for APNs' certificate.
    case apnsRoots = "WAYBILL_APNS_ROOTS"
    /// HTTP proxy that leads to APNs, `http://[user:password@]host:port`. The credential is secret.
    case apnsProxy = "WAYBILL_APNS_PROXY"
    /// Fewest and most connections to APNs for each credential, `2-8`, each 1 to 100.
    case apnsConnections = "WAYBILL_APNS_CONNECTIONS"
    /// Time during which further changes for a device are collected before it is notified, in milliseconds, 0 to
    /// 60,000; 0 does not wait.
    case pushWindowMilliseconds = "WAYBILL_PUSH_WINDOW_MILLISECONDS"
    /// Most notifications for a device and order type in an hour, 0 to 3,600; 0 sets no limit.
    case pushHourlyLimit = "WAYBILL_PUSH_HOURLY_LIMIT"
    /// The longest time that an undelivered notification holds back its partition, in seconds, 10 to 86,400.
    case pushHoldSeconds = "WAYBILL_PUSH_HOLD_SECONDS"
    /// Most attempts for a notification, counting only failures attributed to that notification, 1 to 100.
    case pushAttempts = "WAYBILL_PUSH_ATTEMPTS"
    /// Most notifications of one credential that wait for APNs' answer, 100 to 100,000.
    case pushInFlight = "WAYBILL_PUSH_IN_FLIGHT"
    /// Path of a PEM file with the roots for the certificates of picture hosts.
    case pictureRoots = "WAYBILL_PICTURE_ROOTS"
    /// Addresses from which pictures are fetched although they are not public, separated by commas. For development:
    /// any writer of orders reaches the services there.
    case developmentPictureAddresses = "WAYBILL_DEVELOPMENT_PICTURE_ADDRESSES"
    /// `followed`, or `always`: the versions that are packaged with their changes; others are when they are asked for.
    case package = "WAYBILL_PACKAGE"
    /// The age from which on a package is dropped that nobody asked for, in days, 1 to 3650; none is with `always`.
    case coldAfterDays = "WAYBILL_COLD_AFTER_DAYS"
    /// The time that an update waits for an order that does not exist yet, in seconds, 0 to 600.
    case unknownOrderSeconds = "WAYBILL_UNKNOWN_ORDER_SECONDS"
    /// The address of `/livez`, `/readyz` and `/metrics`, `host:port`.
    case operationsListen = "WAYBILL_OPERATIONS_LISTEN"
    /// `trace`, `debug`, `info`, `notice`, `warning`, `error` or `critical`.
    case logLevel = "WAYBILL_LOG_LEVEL"
    /// `json` or `text`.
    case logFormat = "WAYBILL_LOG_FORMAT"
    /// The URL of a collector of traces: OTLP/HTTP, with the path.
    case tracesURL = "WAYBILL_TRACES_URL"
    /// The longest time for which a server that stops takes connections, in seconds, 0 to 300.
    case drainSeconds = "WAYBILL_DRAIN_SECONDS"
    /// The longest time for a graceful stop after that, in seconds, 1 to 600.
    case shutdownSeconds = "WAYBILL_SHUTDOWN_SECONDS"

    /// The environment variable that names the configuration file; not a key of the file itself.
    static let fileVariable = "WAYBILL_CONFIG"

    /// True if a part of the value is secret.
    var isSecret: Bool { self == .redisURL || self == .apnsProxy || self == .tracesURL }

    /// Returns a value in a form that may be shown.
    ///
    /// Only the part of a proxy's URL before the last `@` is hidden, since a password may contain that character too;
    /// the rest helps to find a mistake. A collector's URL may have a token in its path or query: scheme and host only.
    func shown(_ value: String) -> String {
        if self == .tracesURL {
            guard let scheme = ["https://", "http://"].first(where: { value.hasPrefix($0) }), !value.contains("@")
            else { return "(redacted)" }
            let host = value.dropFirst(scheme.count).prefix { !"/?#\\".contains($0) }
            return "\(scheme)\(host)" + (host.utf8.count + scheme.utf8.count < value.utf8.count ? "/(redacted)" : "")
        }
        guard self == .apnsProxy else { return self.isSecret ? "(redacted)" : value }
        guard let at = value.lastIndex(of: "@") else { return value }
        let scheme = value.hasPrefix("http://") ? "http://" : ""
        return "\(scheme)(redacted)\(value[at...])"
    }
}
