import Model
import Testing

@testable import Devkit

@Suite struct JSONPlacesTests {
    private static let text = Array(
        """
        {
          "a": [1, {"b": "x"}],
            "c": { "d\\"e": null,
          "f": true }
        }
        """.utf8)

    @Test(arguments: [
        ("$", 1, 1), ("$.a", 2, 8), ("$.a[0]", 2, 9), ("$.a[1]", 2, 12), ("$.a[1].b", 2, 18), ("$.c", 3, 10),
        ("$.c.f", 4, 8),
        // A missing member has the place of its object.
        ("$.a[1].missing", 2, 12), ("$.c.missing.deeper[3]", 3, 10), ("$.missing", 1, 1),
    ])
    func valuesHavePlaces(path: String, line: Int, column: Int) throws {
        _ = try JSON(parsing: Self.text)
        #expect(JSONPlaces(Self.text).place(of: path) == JSONPlaces.Place(line: line, column: column))
    }

    @Test func columnsCountCharacters() {
        let text = Array(#"{"é😀": 1, "b": 2}"#.utf8)
        #expect(JSONPlaces(text).place(of: "$.b").column == 16)
    }

    @Test func malformedJSONStillGivesAPlace() {
        for text in ["", "[", "{\"a\"", "[1,", "{\"a\":", "\"", "[[", "{]", "[}", ",", "{,}", "[,1]"] {
            #expect(JSONPlaces(Array(text.utf8)).place(of: "$.a[0]").line == 1, "\(text)")
        }
    }
}

@Suite struct PlaygroundReviewTests {
    private func review(_ text: String) throws -> PlaygroundReview {
        let key = try OrderKey("order.com.example.shop/1")
        return PlaygroundReview(
            order: Array(text.utf8), of: key,
            rules: BrandRules(orderType: key.orderType, webServiceURL: "https://w.example"),
            nowEpochSeconds: 1_800_000_000)
    }

    @Test func aSyntaxErrorHasItsPlace() throws {
        let review = try self.review("{\n  \"a\": 1\n  \"b\": 2\n}")
        let problem = try #require(review.problems.first)
        #expect(problem.rule == "syntax")
        #expect(problem.place == JSONPlaces.Place(line: 3, column: 3))
    }

    @Test func aWrongValueHasItsPlace() throws {
        let review = try self.review(
            """
            {
              "createdAt": "2025-03-03T09:14:27Z",
              "orderManagementURL": "https://shop.example.com/1",
              "merchant": {"merchantIdentifier": "m", "displayName": "S", "url": "https://shop.example.com"},
              "status": "teleported"
            }
            """)
        #expect(review.problems.map(\.path) == ["$.status"])
        #expect(review.problems.first?.place == JSONPlaces.Place(line: 5, column: 13))
    }

    @Test func aRuleTellsWhetherTheSchemaHasIt() throws {
        let request = """
            {"countryCode": "US", "currencyCode": "dollar", "supportedNetworks": ["visa", "masterCart"],
             "merchantCapabilities": ["supports3DS"], "total": {"label": "Shop", "amount": "1.00"},
             "shippingMethods": [{"label": "Van", "identifier": "1", "amount": "1.00"},
                                 {"label": "Bike", "identifier": "1", "amount": "2.00"}]}
            """
        let review = PlaygroundReview(paymentRequest: Array(request.utf8))
        let rules = Dictionary(grouping: review.problems + review.advice, by: \.path).mapValues { Set($0.map(\.rule)) }
        #expect(rules["$.currencyCode"] == ["schema"])
        #expect(rules["$.shippingMethods[1].identifier"] == ["wallet"])
        #expect(rules["$.supportedNetworks[1]"] == ["advice"])
    }

    @Test func anythingButAnObjectIsRefused() throws {
        #expect(try self.review("[1]").problems.map(\.path) == ["$"])
        #expect(PlaygroundReview(object: Array("{}".utf8)).problems.isEmpty)
    }
}
