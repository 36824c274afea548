import Testing

@testable import Model

/// The handling of texts of a format, wherever the schema of orders has one.
@Suite struct TextMembersTests {
    /// An order with every member of the schema, arrays with an element of each kind, and the texts of its leaves.
    private struct Filled {
        private(set) var files: [String] = []
        private(set) var moments = 0

        mutating func object(_ schema: ObjectSchema) -> JSONObject {
            var object: JSONObject = [:]
            for member in schema.members { object[member.name] = self.value(member.shape) }
            return object
        }

        private mutating func value(_ shape: Shape) -> JSON {
            switch shape {
            case .text(.dateTime):
                self.moments += 1
                return "2025-03-05T16:02:11.5Z"
            case .text(.image), .text(.file), .text(.label):
                self.files.append("file-\(self.files.count).png")
                return .string(self.files[self.files.count - 1])
            case .object(let schema): return .object(self.object(schema))
            case .array(of: .fulfillment):
                return [.object(self.object(OrderSchema.shipping)), .object(self.object(OrderSchema.pickup))]
            case .array(of: let element): return [7, self.value(element), self.value(element)]
            case .fulfillment: return .object(self.object(OrderSchema.shipping))
            case .text, .choice, .number, .wholeNumber, .boolean, .amount: return "text"
            }
        }
    }

    @Test func everyFileOfTheSchemaIsFound() throws {
        var filled = Filled()
        let order = filled.object(OrderSchema.order)
        var found: [String] = []
        order.forEachFile { name, place in
            found.append(name)
            var value: JSON? = .object(order)
            for step in place.path {
                switch step {
                case .member(let name): value = value?.object?[name]
                case .element(let index): value = value?.array?[index]
                }
            }
            #expect(value == .string(name), "\(place.text)")
            // An element of an array cannot be left out by itself: its index is in other places.
            guard case .member = place.omittedPath.last else {
                Issue.record("\(place.text) is required by an element of an array")
                return
            }
        }
        #expect(found.sorted() == filled.files.sorted())
        #expect(filled.files.count > 10)
    }

    @Test func everyMomentOfTheSchemaLosesItsFraction() {
        var filled = Filled()
        let order = filled.object(OrderSchema.order)
        let text = JSON.object(order.inWholeSeconds).text
        #expect(text.split(separator: ".5Z").count == 2, "all but updatedAt")
        #expect(filled.moments > 8)
    }

    @Test func placesSayWhatIsLeftOut() throws {
        let order: JSONObject = [
            "orderProvider": ["trackingLogoNameDarkColorScheme": "dark.png"],
            "lineItems": [["image": "a.png"], 7, ["image": "b.png"]],
            "returns": [["returnLabel": "label.pdf", "lineItems": [["image": "c.png"]]]],
        ]
        var places: [String: FilePlace] = [:]
        order.forEachFile { places[$0] = $1 }
        #expect(places["dark.png"]?.omittedPath == [.member("orderProvider")])
        #expect(places["b.png"]?.text == "$.lineItems[2].image")
        #expect(places["b.png"]?.omittedPath == places["b.png"]?.path[...])
        #expect(places["c.png"]?.text == "$.returns[0].lineItems[0].image")
        #expect(places.filter { !$0.value.isPicture }.keys.sorted() == ["label.pdf"])
    }
}
