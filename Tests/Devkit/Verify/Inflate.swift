/// Decompresses DEFLATE data. Independent of Shared/Packaging, which uses zlib, in order to check it.
///
/// Slow and small: decodes one bit at a time, canonical codes by counting. Source: RFC 1951
struct Inflate {
    private let input: ArraySlice<UInt8>
    private let limit: Int
    private var position: Int
    private var bitBuffer: UInt32 = 0
    private var bitCount: UInt32 = 0
    private var output: [UInt8] = []

    /// - Parameters:
    ///   - input: exactly one DEFLATE stream; bytes after its last block are refused.
    ///   - limit: the most bytes of output.
    /// - Throws: `ToolError` with code `.protocol` for anything other than a whole, valid stream.
    static func decompress(_ input: ArraySlice<UInt8>, limit: Int) throws(ToolError) -> [UInt8] {
        var inflate = Inflate(input: input, limit: limit)
        return try inflate.run()
    }

    private init(input: ArraySlice<UInt8>, limit: Int) {
        self.input = input
        self.limit = limit
        self.position = input.startIndex
    }

    private mutating func run() throws(ToolError) -> [UInt8] {
        var isLast = false
        while !isLast {
            isLast = try self.bits(1) == 1
            switch try self.bits(2) {
            case 0: try self.storedBlock()
            case 1: try self.block(literals: Self.fixedLiterals, distances: Self.fixedDistances)
            case 2:
                let (literals, distances) = try self.dynamicCodes()
                try self.block(literals: literals, distances: distances)
            default: throw Self.fault("block type 3 does not exist")
            }
        }
        guard self.position == self.input.endIndex else { throw Self.fault("bytes after the last block") }
        return self.output
    }

    private static func fault(_ reason: String) -> ToolError { ToolError(.protocol, "inflating: \(reason)") }

    /// - Parameter count: at most 13, the most that the format reads in one step.
    private mutating func bits(_ count: UInt32) throws(ToolError) -> Int {
        while self.bitCount < count {
            guard self.position < self.input.endIndex else { throw Self.fault("the data ends in the middle") }
            self.bitBuffer |= UInt32(self.input[self.position]) << self.bitCount
            self.position += 1
            self.bitCount += 8
        }
        let value = self.bitBuffer & ((1 << count) - 1)
        self.bitBuffer >>= count
        self.bitCount -= count
        return Int(value)
    }

    private mutating func append(_ byte: UInt8) throws(ToolError) {
        guard self.output.count < self.limit else { throw Self.fault("more than \(self.limit) bytes come out") }
        self.output.append(byte)
    }

    /// Source: RFC 1951 §3.2.4
    private mutating func storedBlock() throws(ToolError) {
        // Fewer than 8 bits are left over, so only the padding of this byte is discarded.
        self.bitBuffer = 0
        self.bitCount = 0
        guard self.input.endIndex - self.position >= 4 else { throw Self.fault("the data ends in the middle") }
        let header = self.input[self.position..<self.position + 4].map(Int.init)
        let length = header[0] | header[1] << 8
        guard length ^ 0xFFFF == header[2] | header[3] << 8 else {
            throw Self.fault("a stored block's length is wrong")
        }
        self.position += 4
        guard self.input.endIndex - self.position >= length else { throw Self.fault("the data ends in the middle") }
        for byte in self.input[self.position..<self.position + length] { try self.append(byte) }
        self.position += length
    }

    /// Source: RFC 1951 §3.2.5: base lengths of codes 257 to 285 and base distances, with their extra bits.
    private static let lengths: [(base: Int, extra: UInt32)] = [
        (3, 0), (4, 0), (5, 0), (6, 0), (7, 0), (8, 0), (9, 0), (10, 0), (11, 1), (13, 1), (15, 1), (17, 1), (19, 2),
        (23, 2), (27, 2), (31, 2), (35, 3), (43, 3), (51, 3), (59, 3), (67, 4), (83, 4), (99, 4), (115, 4), (131, 5),
        (163, 5), (195, 5), (227, 5), (258, 0),
    ]
    private static let distances: [(base: Int, extra: UInt32)] = [
        (1, 0), (2, 0), (3, 0), (4, 0), (5, 1), (7, 1), (9, 2), (13, 2), (17, 3), (25, 3), (33, 4), (49, 4), (65, 5),
        (97, 5), (129, 6), (193, 6), (257, 7), (385, 7), (513, 8), (769, 8), (1025, 9), (1537, 9), (2049, 10),
        (3073, 10), (4097, 11), (6145, 11), (8193, 12), (12289, 12), (16385, 13), (24577, 13),
    ]

    private mutating func block(literals: Code, distances: Code) throws(ToolError) {
        while true {
            let symbol = try self.symbol(of: literals)
            if symbol < 256 {
                try self.append(UInt8(symbol))
            } else if symbol == 256 {
                return
            } else {
                guard symbol - 257 < Self.lengths.count else {
                    throw Self.fault("length code \(symbol) does not exist")
                }
                let length = Self.lengths[symbol - 257]
                let count = length.base + (try self.bits(length.extra))
                let code = try self.symbol(of: distances)
                guard code < Self.distances.count else { throw Self.fault("distance code \(code) does not exist") }
                let back = Self.distances[code].base + (try self.bits(Self.distances[code].extra))
                guard back <= self.output.count else { throw Self.fault("a copy starts before the first byte") }
                for _ in 0..<count { try self.append(self.output[self.output.count - back]) }
            }
        }
    }

    /// A canonical Huffman code: the number of codes of each length, and the symbols in the order of their codes.
    private struct Code {
        var counts = [Int](repeating: 0, count: 16)
        var symbols: [Int] = []

        /// - Parameter mayBeOne: true if a single code of one bit is accepted, though it leaves room for another.
        /// - Returns: nil if the code is oversubscribed or incomplete, as in zlib, which reads the packages on devices.
        init?(lengths: ArraySlice<Int>, mayBeOne: Bool = true) {
            for length in lengths { self.counts[length] += 1 }
            var room = 1
            for length in 1...15 {
                room = room * 2 - self.counts[length]
                if room < 0 { return nil }
            }
            let used = lengths.count - self.counts[0]
            let isOne = mayBeOne && used == 1 && self.counts[1] == 1
            guard room == 0 || used == 0 || isOne else { return nil }
            for length in 1...15 {
                for (symbol, its) in lengths.enumerated() where its == length { self.symbols.append(symbol) }
            }
        }
    }

    private mutating func symbol(of code: Code) throws(ToolError) -> Int {
        var value = 0
        var first = 0
        var index = 0
        for length in 1...15 {
            value |= try self.bits(1)
            let count = code.counts[length]
            if value - count < first { return code.symbols[index + value - first] }
            index += count
            first = (first + count) << 1
            value <<= 1
        }
        throw Self.fault("a code that was not given out")
    }

    /// Source: RFC 1951 §3.2.6. The proof of each `!`: both tables are complete codes by the RFC; distances 30 and 31
    /// have codes and are refused when they occur.
    private static let fixedLiterals = Code(
        lengths: (0..<288).map { $0 < 144 ? 8 : $0 < 256 ? 9 : $0 < 280 ? 7 : 8 }[...])!
    private static let fixedDistances = Code(lengths: [Int](repeating: 5, count: 32)[...])!

    /// The order of the lengths of the code length code in the stream. Source: RFC 1951 §3.2.7
    private static let order = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15]

    /// Source: RFC 1951 §3.2.7
    private mutating func dynamicCodes() throws(ToolError) -> (literals: Code, distances: Code) {
        let literalCount = try self.bits(5) + 257
        let distanceCount = try self.bits(5) + 1
        let lengthCount = try self.bits(4) + 4
        guard literalCount <= 286, distanceCount <= 30 else { throw Self.fault("too many codes in a block") }
        var lengthLengths = [Int](repeating: 0, count: 19)
        for index in 0..<lengthCount { lengthLengths[Self.order[index]] = try self.bits(3) }
        guard let lengthCode = Code(lengths: lengthLengths[...], mayBeOne: false) else {
            throw Self.fault("the code length code has too many or too few codes")
        }
        var lengths: [Int] = []
        while lengths.count < literalCount + distanceCount {
            let symbol = try self.symbol(of: lengthCode)
            switch symbol {
            case 16:
                guard let last = lengths.last else { throw Self.fault("a repeated length with none before it") }
                lengths += [Int](repeating: last, count: 3 + (try self.bits(2)))
            case 17: lengths += [Int](repeating: 0, count: 3 + (try self.bits(3)))
            case 18: lengths += [Int](repeating: 0, count: 11 + (try self.bits(7)))
            default: lengths.append(symbol)
            }
        }
        guard lengths.count == literalCount + distanceCount else { throw Self.fault("more lengths than codes") }
        guard lengths[256] > 0 else { throw Self.fault("a block without an end code") }
        guard let literals = Code(lengths: lengths[..<literalCount]),
            let distances = Code(lengths: lengths[literalCount...])
        else { throw Self.fault("a block's code has too many or too few codes") }
        return (literals, distances)
    }
}
