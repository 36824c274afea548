/// The `type` of an event.
///
/// Source: DESIGN.md §3
public enum ChangeType: String, Hashable, Sendable, CaseIterable {
    case orderReplaced = "waybill.order.replaced"
    case orderPatched = "waybill.order.patched"
    case fulfillmentUpdated = "waybill.fulfillment.updated"
    case returnUpdated = "waybill.return.updated"
    case orderRemoved = "waybill.order.removed"
}
