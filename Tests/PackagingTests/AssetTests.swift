import Testing

@testable import Packaging

@Suite struct AssetTests {
    @Test func compressibleAssetsAreDeflatedAndOthersStored() {
        let text = Array(repeatElement("order ", count: 200).joined().utf8)
        #expect(Asset(name: "a.txt", content: text).entry.count < 100)
        for start: [UInt8] in [[0x89, 0x50, 0x4E, 0x47], [0xFF, 0xD8, 0xFF], Array("%PDF".utf8)] {
            let content = start + text
            let asset = Asset(name: "a.png", content: content)
            #expect(asset.entry.count == 30 + 5 + content.count)
            #expect(asset.entry.suffix(content.count) == content[...])
        }
        for short: [UInt8] in [[], [1], [1, 2, 3]] {
            #expect(Asset(name: "a", content: short).entry == Asset(name: "a", content: short).entry)
            #expect(Asset(name: "a", content: short).entry.count == 31 + short.count)
        }
    }

    @Test func equalContentUnderTwoNamesHasDistinctEntryDigests() {
        let (one, two) = (Asset(name: "a.png", content: [1, 2]), Asset(name: "b.png", content: [1, 2]))
        #expect(one.contentDigest == two.contentDigest)
        #expect(one.entryDigest != two.entryDigest)
    }

    @Test func theUTF8FlagIsSetOnlyForNonASCIINames() {
        #expect(Asset(name: "a.png", content: []).entry[7] == 0)
        #expect(Asset(name: "ä.png", content: []).entry[7] == 0x08)
    }

    /// Source: the check value of CRC-32/ISO-HDLC
    @Test func theZIPChecksumMatchesTheCRC32CheckValue() {
        #expect(zipChecksum(Array("123456789".utf8)) == 0xCBF4_3926)
        #expect(zipChecksum([]) == 0)
    }

    @Test func aDeflaterIsReusableAfterIncompressibleInput() {
        let deflater = Deflater.forOrders()
        let text = Array(repeatElement("{\"a\":1}", count: 100).joined().utf8)
        let first = deflater.deflate(text)
        #expect(first != nil)
        #expect(deflater.deflate((0..<200).map { UInt8($0) }) == nil)
        #expect(deflater.deflate([]) == nil)
        #expect(deflater.deflate(text) == first)
    }

    /// More combinations than are remembered still give the right set.
    @Test func assetSetsAreCorrectBeyondTheCacheLimit() {
        let names = (0..<100).map { "\($0).png" }
        let catalog = AssetCatalog(
            Dictionary(uniqueKeysWithValues: names.map { ($0, Asset(name: $0, content: Array($0.utf8))) }))
        for one in 0..<100 {
            for two in 0..<100 {
                let indices = (catalog.family(names[one]) ?? []) + (catalog.family(names[two]) ?? [])
                #expect(catalog.set(indices).digests.count == (one == two ? 1 : 2))
            }
        }
    }
}
