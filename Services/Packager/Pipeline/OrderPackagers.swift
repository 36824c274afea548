import Brands
import Model
import Synchronization
import Tokens

/// The packagers of all brands, kept in step with them.
///
/// A batch takes them once, so that all of it is made with the same brands.
final class OrderPackagers: Sendable {
    private struct Kept {
        let brand: Brand
        let packager: OrderPackager
    }

    private let tokens: TokenAuthority
    private let kept: Mutex<[OrderTypeIdentifier: Kept]>

    init(_ brands: Brands, tokens: TokenAuthority) {
        self.tokens = tokens
        self.kept = Mutex(Self.make(brands, [:], tokens))
    }

    /// The packagers as they are now.
    var current: [OrderTypeIdentifier: OrderPackager] { self.kept.withLock { $0.mapValues(\.packager) } }

    /// The order types that have a packager now.
    var orderTypes: Set<OrderTypeIdentifier> { self.kept.withLock { Set($0.keys) } }

    /// Follows the brands; a packager whose brand is unchanged is kept, with what it remembers.
    func update(_ brands: Brands) {
        let old = self.kept.withLock { $0 }
        let new = Self.make(brands, old, self.tokens)
        self.kept.withLock { $0 = new }
    }

    private static func make(
        _ brands: Brands, _ old: [OrderTypeIdentifier: Kept], _ tokens: TokenAuthority
    ) -> [OrderTypeIdentifier: Kept] {
        var new: [OrderTypeIdentifier: Kept] = [:]
        for type in brands.orderTypes {
            guard let brand = brands[type] else { continue }
            if let kept = old[type], kept.brand.isSameLoading(as: brand) {
                new[type] = kept
            } else {
                new[type] = Kept(brand: brand, packager: OrderPackager(brand, tokens: tokens))
            }
        }
        return new
    }
}
