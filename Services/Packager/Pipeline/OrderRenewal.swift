import Model
import Packaging

/// The action that makes a stored order match what its brand would package at present.
enum OrderRenewal: Sendable {
    /// Nothing.
    case current
    /// The package in a new signature, under the same version: to devices nothing changed.
    case signature(OrderPackage)
    /// A new version: files or the brand's defaults changed.
    case version(OrderState, OrderPackage)
    /// It cannot be packaged with the brand as it is now, and why; what stands there stays.
    case refused(String)
}
