import Testing

@testable import APNS

@Suite struct IdentifierGeneratorTests {
    /// Source: xoshiro256starstar.c, the authors' own implementation, seeded with 1, 2, 3, 4
    @Test func theNumbersAreThoseOfTheReferenceImplementation() {
        var generator = IdentifierGenerator(seed: (1, 2, 3, 4))
        let numbers = (0..<6).map { _ in generator.next() }
        #expect(
            numbers == [
                11_520, 0, 1_509_978_240, 1_215_971_899_390_074_240, 1_216_172_134_540_287_360,
                607_988_272_756_665_600,
            ])
    }

    @Test func twoGeneratorsGiveDifferentNumbers() {
        var first = IdentifierGenerator()
        var second = IdentifierGenerator()
        #expect((0..<4).map { _ in first.next() } != (0..<4).map { _ in second.next() })
    }

    @Test func anAllZeroSeedStillGivesDifferentNumbers() {
        var generator = IdentifierGenerator(seed: (0, 0, 0, 0))
        #expect(Set((0..<100).map { _ in generator.next() }).count > 90)
    }
}
