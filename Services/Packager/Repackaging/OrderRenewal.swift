import Model
import Packaging

/// What has to be done about a stored order so that it stands there as its brand would package it now.
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
