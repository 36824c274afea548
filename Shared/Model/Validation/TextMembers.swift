/// The members of an object that are texts of some formats, and those that contain such members: derived from its
/// schema, so that a member that is added there is one of them.
final class TextMembers: Sendable {
    /// All moments of order.json but `updatedAt`, which Waybill writes without a fraction.
    static let moments = TextMembers(of: [OrderSchema.order], except: ["updatedAt"]) { $0 == .dateTime }
    /// All names of files in order.json.
    static let files = TextMembers(of: [OrderSchema.order]) { [.image, .file, .label].contains($0) }

    let texts: [(name: String, format: TextFormat, isRequired: Bool)]
    let parts: [(name: String, isArray: Bool, members: TextMembers)]

    /// - Parameter schemas: those that the object may have.
    init(of schemas: [ObjectSchema], except omitted: Set<String> = [], where matches: (TextFormat) -> Bool) {
        var texts: [String: (format: TextFormat, isRequired: Bool)] = [:]
        var parts: [String: (isArray: Bool, schemas: [ObjectSchema])] = [:]
        for member in schemas.flatMap(\.members) where !omitted.contains(member.name) {
            if case .text(let format) = member.shape, matches(format) {
                texts[member.name] = (format, member.isRequired || texts[member.name]?.isRequired == true)
            }
            let isArray = if case .array = member.shape { true } else { false }
            parts[member.name, default: (isArray, [])].schemas += member.shape.objects
        }
        self.texts = texts.map { (name: $0, format: $1.format, isRequired: $1.isRequired) }.sorted { $0.name < $1.name }
        self.parts = parts.map { (name: $0, isArray: $1.isArray, members: TextMembers(of: $1.schemas, where: matches)) }
            .filter { !$0.members.texts.isEmpty || !$0.members.parts.isEmpty }
            .sorted { $0.name < $1.name }
    }
}

extension Shape {
    /// The schemas of the objects that the value is or contains directly.
    var objects: [ObjectSchema] {
        switch self {
        case .object(let schema): [schema]
        case .array(let shape): shape.objects
        case .fulfillment: [OrderSchema.shipping, OrderSchema.pickup]
        case .text, .choice, .number, .wholeNumber, .boolean, .amount: []
        }
    }
}
