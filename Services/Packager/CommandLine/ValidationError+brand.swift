import ArgumentParser
import Brands
import Model

extension ValidationError {
    /// The error of a command for an order type without a loaded brand; it names those that are loaded.
    init(unknownBrand type: OrderTypeIdentifier, known: Brands) {
        let known = known.orderTypes.map(\.rawValue).joined(separator: ", ")
        self.init("--brand \(type): unknown brand; \(known.isEmpty ? "no brand is loaded" : "known brands: \(known)")")
    }
}
