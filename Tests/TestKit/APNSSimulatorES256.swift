/// Verifies ECDSA signatures with P-256 and SHA-256.
///
/// Plain Swift, independent of the libcrypto that signs; about a millisecond, once per provider token. Nothing here is
/// secret, so nothing is in constant time.
/// Source: FIPS 186-5 §6.4.2; SEC 2 §2.4.2 (curve); RFC 7518 §3.4 (form of the signature)
struct APNSSimulatorES256: Hashable {
    typealias Number = APNSSimulatorModulus.Number

    private static let field = APNSSimulatorModulus(
        [0xFFFF_FFFF_FFFF_FFFF, 0x0000_0000_FFFF_FFFF, 0, 0xFFFF_FFFF_0000_0001])
    private static let order = APNSSimulatorModulus(
        [0xF3B9_CAC2_FC63_2551, 0xBCE6_FAAD_A717_9E84, 0xFFFF_FFFF_FFFF_FFFF, 0xFFFF_FFFF_0000_0000])
    private static let b = field.entering(
        [0x3BCE_3C3E_27D2_604B, 0x651D_06B0_CC53_B0F6, 0xB3EB_BD55_7698_86BC, 0x5AC6_35D8_AA3A_93E7])
    private static let generator = Point(
        x: field.entering(
            [0xF4A1_3945_D898_C296, 0x7703_7D81_2DEB_33A0, 0xF8BC_E6E5_63A4_40F2, 0x6B17_D1F2_E12C_4247]),
        y: field.entering(
            [0xCBB6_4068_37BF_51F5, 0x2BCE_3357_6B31_5ECE, 0x8EE7_EB4A_7C0F_9E16, 0x4FE3_42E2_FE1A_7F9B]),
        z: field.one)

    private let key: Point

    /// - Parameter point: x and y, 32 bytes each.
    /// - Returns: nil when the point is not on the curve.
    init?(point: [UInt8]) {
        guard point.count == 64 else { return nil }
        let (x, y) = (APNSSimulatorModulus.number(point[..<32]), APNSSimulatorModulus.number(point[32...]))
        let field = Self.field
        guard field.contains(x), field.contains(y) else { return nil }
        let affine = Point(x: field.entering(x), y: field.entering(y), z: field.one)
        // y² = x³ - 3x + b
        let cube = field.multiply(field.square(affine.x), affine.x)
        let triple = field.add(field.add(affine.x, affine.x), affine.x)
        guard field.square(affine.y) == field.add(field.subtract(cube, triple), Self.b) else { return nil }
        self.key = affine
    }

    /// - Parameter signature: r and s, 32 bytes each.
    func verifies(_ signature: [UInt8], of message: [UInt8]) -> Bool {
        guard signature.count == 64 else { return false }
        let (r, s) = (APNSSimulatorModulus.number(signature[..<32]), APNSSimulatorModulus.number(signature[32...]))
        let order = Self.order
        guard order.contains(r), order.contains(s), r != .zero, s != .zero else { return false }
        let hash = APNSSimulatorModulus.number(APNSSimulatorSHA256.digest(message)[...])
        let inverse = order.inverse(order.entering(s))
        let u1 = order.leaving(order.multiply(order.entering(order.reduced(hash)), inverse))
        let u2 = order.leaving(order.multiply(order.entering(r), inverse))
        let both = Self.sum(Self.generator, self.key)
        var result = Point.infinity
        for bit in (0..<256).reversed() {
            result = Self.double(result)
            switch (Self.bit(bit, of: u1), Self.bit(bit, of: u2)) {
            case (true, true): result = Self.sum(result, both)
            case (true, false): result = Self.sum(result, Self.generator)
            case (false, true): result = Self.sum(result, self.key)
            case (false, false): break
            }
        }
        guard result.z != .zero else { return false }
        let field = Self.field
        let x = field.leaving(field.multiply(result.x, field.square(field.inverse(result.z))))
        return order.reduced(x) == r
    }

    /// A point in Jacobian coordinates, in the field's Montgomery form; z = 0 is the point at infinity.
    private struct Point: Hashable {
        var x: Number
        var y: Number
        var z: Number

        static let infinity = Point(x: .zero, y: .zero, z: .zero)
    }

    private static func bit(_ index: Int, of number: Number) -> Bool {
        number[index / 64] >> UInt64(index % 64) & 1 == 1
    }

    /// Source: Explicit-Formulas Database, shortw, jacobian-3, dbl-2001-b
    private static func double(_ p: Point) -> Point {
        if p.z == .zero { return p }
        let f = Self.field
        let delta = f.square(p.z)
        let gamma = f.square(p.y)
        let beta = f.multiply(p.x, gamma)
        let product = f.multiply(f.subtract(p.x, delta), f.add(p.x, delta))
        let alpha = f.add(f.add(product, product), product)
        let beta2 = f.add(beta, beta)
        let beta4 = f.add(beta2, beta2)
        let x = f.subtract(f.square(alpha), f.add(beta4, beta4))
        let z = f.subtract(f.subtract(f.square(f.add(p.y, p.z)), gamma), delta)
        let gamma2 = f.square(f.add(gamma, gamma))
        let y = f.subtract(f.multiply(alpha, f.subtract(beta4, x)), f.add(gamma2, gamma2))
        return Point(x: x, y: y, z: z)
    }

    /// Source: Explicit-Formulas Database, shortw, jacobian, add-1998-cmo-2
    private static func sum(_ p: Point, _ q: Point) -> Point {
        if p.z == .zero { return q }
        if q.z == .zero { return p }
        let f = Self.field
        let (pz, qz) = (f.square(p.z), f.square(q.z))
        let (u1, u2) = (f.multiply(p.x, qz), f.multiply(q.x, pz))
        let s1 = f.multiply(p.y, f.multiply(qz, q.z))
        let s2 = f.multiply(q.y, f.multiply(pz, p.z))
        if u1 == u2 { return s1 == s2 ? Self.double(p) : .infinity }
        let h = f.subtract(u2, u1)
        let h2 = f.square(h)
        let h3 = f.multiply(h2, h)
        let r = f.subtract(s2, s1)
        let v = f.multiply(u1, h2)
        let x = f.subtract(f.subtract(f.square(r), h3), f.add(v, v))
        let y = f.subtract(f.multiply(r, f.subtract(v, x)), f.multiply(s1, h3))
        return Point(x: x, y: y, z: f.multiply(h, f.multiply(p.z, q.z)))
    }
}
