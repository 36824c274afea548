import Model
import NIOHTTP1
import Testing

@testable import Devkit

/// The parts that the playground's page gets of packages and of answers of the gateway.
@Suite struct PlaygroundPageTests {
    @Test(arguments: [
        ("receipt.pdf", "application/pdf"), ("en.lproj/label.PNG", "image/png"), ("a.b.jpeg", "image/jpeg"),
        ("order.json", nil), ("signature", nil), ("page.html", nil), ("receipt.pdf.svg", nil), ("", nil),
    ])
    func onlyReceiptsAndLabelsHaveAType(_ name: String, _ type: String?) {
        #expect(PlaygroundPage.documentType(of: name) == type)
    }

    @Test(arguments: [
        (200, #"{"orderIdentifiers":["b","a"],"lastModified":"7"}"#, ["b", "a"]),
        (200, #"{"lastModified":"7"}"#, nil), (200, "[", nil), (204, "", nil),
        (401, #"{"orderIdentifiers":["b"]}"#, nil),
    ])
    func aListOfChangedOrdersNamesThem(_ status: Int, _ body: String, _ orders: [String]?) {
        let response = HTTPResponse(
            status: status, headers: ["content-type": "application/json"], body: Array(body.utf8), isKeepAlive: true)
        #expect(PlaygroundEnvironment.orders(listedIn: response) == orders)
    }
}
