/// The names that every package has.
///
/// Source: Wallet Orders §2.1
public enum FileName {
    static let order = Array("order.json".utf8)
    static let manifest = Array("manifest.json".utf8)
    static let signature = Array("signature".utf8)

    public static let all = [Self.order, Self.manifest, Self.signature]
}
