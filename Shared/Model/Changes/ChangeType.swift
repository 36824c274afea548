/// The `type` of an event.
///
/// Source: Design §3
public enum ChangeType: String, Hashable, Sendable, CaseIterable {
    case orderReplaced = "waybill.order.replaced"
    case orderMerged = "waybill.order.merged"
    case orderPatched = "waybill.order.patched"
    case fulfillmentUpdated = "waybill.fulfillment.updated"
    case returnUpdated = "waybill.return.updated"
    case orderAnnounced = "waybill.order.announced"
    case orderRemoved = "waybill.order.removed"
}
