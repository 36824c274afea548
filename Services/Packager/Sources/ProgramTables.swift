/// The tables that a program writes, and which of them may be parts of a change.
///
/// One with a key that a change or an order has is taken for such a part, and so are the tables inside of it. One that
/// is only looked into (`words[event.word]`), or that a function of the library takes, is the author's own.
struct ProgramTables {
    typealias Token = ProgramLint.Token

    private struct Table {
        /// The table whose member or element it is.
        let parent: Int?
        /// The variable that it is assigned to.
        let variable: String?
        /// True if a function of the library takes it.
        let isArgument: Bool
        var keys: [String] = []
    }

    private enum Bracket {
        case table(Int)
        /// The name of the function before it; empty if there is none.
        case call(String)
        case index
    }

    /// Functions that look into a table, and hand it to nobody.
    private static let readers: Set<String> = ["ipairs", "pairs", "table.concat", "waybill.words"]
    /// Functions whose tables are words and marks.
    private static let takers: Set<String> = ["waybill.money", "waybill.number", "waybill.words"]

    private var tables: [Table] = []
    /// The table of each key, by the index of its token.
    private var keys: [Int: Int] = [:]
    private var isPart: [Bool] = []
    /// Names that the program reads from tables.
    private var read: Set<String> = []

    /// - Parameter known: the members that changes and orders have.
    init(_ tokens: [Token], known: Set<String>) {
        var handedOn: Set<String> = []
        var brackets: [Bracket] = []
        func text(_ index: Int) -> String { tokens.indices.contains(index) ? tokens[index].text : "" }
        for (index, token) in tokens.enumerated() {
            switch token.text {
            case "{":
                brackets.append(.table(self.tables.count))
                self.tables.append(Self.table(at: index, tokens, brackets.dropLast()))
            case "(": brackets.append(.call(Self.path(before: index, tokens)))
            case "[": brackets.append(.index)
            case "}", ")", "]": _ = brackets.popLast()
            default: break
            }
            guard token.isName else { continue }
            if text(index - 1) == "." || text(index - 1) == ":" {
                if text(index + 1) != "=" { self.read.insert(token.text) }
            } else if text(index + 1) == "=" {
                if case .table(let table)? = brackets.last, ["{", ",", ";"].contains(text(index - 1)) {
                    self.keys[index] = table
                    self.tables[table].keys.append(token.text)
                }
            } else if !["[", ".", ":"].contains(text(index + 1)), text(index - 1) != "#" {
                if case .call(let name)? = brackets.last, Self.readers.contains(name) { continue }
                handedOn.insert(token.text)
            }
        }
        for table in self.tables {
            let isLookedInto = table.variable.map { !handedOn.contains($0) } ?? false
            let isInside = table.parent.map { self.isPart[$0] } ?? false
            self.isPart.append(
                !table.isArgument && !isLookedInto && (isInside || table.keys.contains { known.contains($0) }))
        }
    }

    /// Returns true if a token is the key of a table that may be a part of a change.
    ///
    /// A key that the program reads as well is the author's own, unless its table is written inside of a change.
    func isMember(_ token: Int, _ name: String) -> Bool {
        guard let table = self.keys[token], self.isPart[table] else { return false }
        return !self.read.contains(name) || self.tables[table].parent.map { self.isPart[$0] } ?? false
    }

    private static func table(
        at index: Int, _ tokens: [Token], _ brackets: ArraySlice<Bracket>
    ) -> Table {
        func text(_ index: Int) -> String { tokens.indices.contains(index) ? tokens[index].text : "" }
        let callee = index > 0 && tokens[index - 1].isName ? Self.path(before: index, tokens) : ""
        var around = brackets
        var taker = callee
        if case .call(let name)? = around.last, callee.isEmpty { (taker, around) = (name, around.dropLast()) }
        // A copy of a table is where the table would be.
        let isPassedOn = taker.isEmpty || taker == "waybill.drop_nulls"
        var parent: Int?
        if isPassedOn, case .table(let outer)? = around.last { parent = outer }
        let isAssigned = text(index - 1) == "=" && index > 1 && tokens[index - 2].isName && parent == nil
        let isVariable = isAssigned && ![".", ":", ","].contains(text(index - 3))
        return Table(
            parent: parent, variable: isVariable ? text(index - 2) : nil, isArgument: Self.takers.contains(taker))
    }

    /// Returns the names before a bracket, `waybill.words`; empty if there are none.
    private static func path(before index: Int, _ tokens: [Token]) -> String {
        var names: [String] = []
        var at = index - 1
        while at >= 0, tokens[at].isName {
            names.insert(tokens[at].text, at: 0)
            guard at > 0, tokens[at - 1].text == "." || tokens[at - 1].text == ":" else { break }
            at -= 2
        }
        return names.joined(separator: ".")
    }
}
