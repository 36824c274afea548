import Store
import Testing

@testable import Devkit

@Suite struct ForgottenSearchTests {
    private static let order = "0123456789abcdef0123456789abcdef"
    private static let device = String(order.reversed())
    private static let marks: [String: ForgottenSearch.Mark] = [order: .order, device: .device]

    private static func found(_ text: String) -> Set<ForgottenSearch.Mark> {
        ForgottenSearch.marks(Array(text.utf8), self.marks)
    }

    @Test func marksAreFoundInTheirMiddle() {
        let (order, device) = (Self.order, Self.device)
        #expect(Self.found("") == [])
        #expect(Self.found(order) == [.order])
        #expect(Self.found("{\"device\":\"\(device)\"}") == [.device])
        #expect(Self.found("a1\(order)ff/\(device)") == [.order, .device])
        #expect(Self.found(String(order.dropLast())) == [])
        #expect(Self.found(String(order.dropLast()) + "g") == [])
    }

    @Test func onlyTheKeysOfATraceMayNameAForgottenOrder() {
        let both: Set<ForgottenSearch.Mark> = [.order, .device]
        for kind in StoreKeyKind.allCases {
            let wrong = ForgottenSearch.wrong(both, inKey: "\(kind.rawValue):{x}")
            let isOfTrace = kind.personalData.map { $0.end != .removal } ?? false
            #expect(wrong == (isOfTrace ? [.device] : both), "\(kind)")
        }
        #expect(ForgottenSearch.wrong(both, inKey: "waybill:1:devices-ended:{x}") == [.device])
        #expect(ForgottenSearch.wrong(both, inKey: "waybill:1:devices:{x}") == both)
        #expect(ForgottenSearch.wrong(both, inKey: "waybill:2:planted:{x}") == both)
    }
}
