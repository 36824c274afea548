import Model

/// Whom one notification tells: it names no order, so there is one for each device and order type.
///
/// Source: Wallet Orders §4.1
struct PushTarget: Hashable, Sendable {
    let orderType: OrderTypeIdentifier
    let pushToken: PushToken
}
