/// A place in an order document, which tells the members that it may have.
public struct OrderPlace: Sendable {
    /// Those of a fulfillment without a type are those of both types.
    private let shapes: [Shape]

    /// The order itself.
    public static let order = OrderPlace(shapes: [.object(OrderSchema.order)])

    /// The data of a change: an order, a fulfillment or a return, whose members of one name are of one kind.
    public static let data = OrderPlace(
        shapes: [.object(OrderSchema.order), .fulfillment, .object(OrderSchema.return)])

    /// True if an array belongs here.
    public var isArray: Bool { self.shapes.contains { if case .array = $0 { true } else { false } } }

    /// True if a number belongs here.
    public var isNumber: Bool {
        self.shapes.contains {
            switch $0 {
            case .number, .wholeNumber: true
            case .text, .choice, .boolean, .object, .array, .amount, .fulfillment: false
            }
        }
    }

    /// The place of each element of an array; nil if there is no array here.
    public var element: OrderPlace? {
        for case .array(let shape) in self.shapes { return OrderPlace(shapes: [shape]) }
        return nil
    }

    /// The names of all members.
    public var memberNames: [String] { self.objects.flatMap { $0.members.map(\.name) } }

    /// Returns the place of a member; nil if there is no such member.
    public func member(_ name: String) -> OrderPlace? {
        let found = self.objects.compactMap { $0.members.first { $0.name.hasSameBytes(as: name) }?.shape }
        return found.isEmpty ? nil : OrderPlace(shapes: found)
    }

    private var objects: [ObjectSchema] {
        self.shapes.flatMap { shape -> [ObjectSchema] in
            switch shape {
            case .object(let schema): [schema]
            case .amount: [OrderSchema.currencyAmount]
            case .fulfillment: [OrderSchema.shipping, OrderSchema.pickup]
            case .text, .choice, .number, .wholeNumber, .boolean, .array: []
            }
        }
    }
}
