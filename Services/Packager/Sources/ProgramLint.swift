import Lua
import Model

/// Mistakes in the text of a program, found without running it.
///
/// Scopes are not followed: a name that is declared anywhere is declared everywhere.
struct ProgramLint {
    /// `map.lua:3: …`
    private(set) var globals: [String] = []
    private(set) var members: [String] = []

    init(_ text: String) {
        let tokens = Self.tokens(text)
        let declared = Self.declared(tokens)
        let tables = ProgramTables(tokens, known: Self.known)
        var seen: Set<String> = []
        for (index, token) in tokens.enumerated() where token.isName {
            let before = index > 0 ? tokens[index - 1].text : ""
            let after = index + 1 < tokens.count ? tokens[index + 1].text : ""
            if before == ":", after == "(", LuaProgram.missingMethods.contains(token.text),
                !declared.contains(token.text)
            {
                self.globals.append("map.lua:\(token.line): there is no string.\(token.text)")
            }
            if before == "." || before == ":" || before == "goto" || before == "::" { continue }
            if let member = Self.unknownMember(tokens[index...]), !declared.contains(token.text) {
                self.globals.append("map.lua:\(member.line): there is no \(member.text)")
            }
            if after == "=", before == "{" || before == "," || before == ";" {
                if tables.isMember(index, token.text), !Self.known.contains(token.text), !declared.contains(token.text),
                    seen.insert(token.text).inserted
                {
                    self.members.append("map.lua:\(token.line): note: no order has a member \(token.text)")
                }
                continue
            }
            if !declared.contains(token.text), !LuaProgram.globals.contains(token.text),
                seen.insert(token.text).inserted
            {
                self.globals.append("map.lua:\(token.line): there is no global \(token.text)")
            }
        }
    }

    /// Returns the member that a table of the library does not have, if one is named here: `waybill.status.ups`.
    private static func unknownMember(_ tokens: ArraySlice<Token>) -> Token? {
        guard let first = tokens.first else { return nil }
        var path = first.text
        var rest = tokens.dropFirst()
        while let members = LuaProgram.members[path] {
            let next = rest.prefix(2)
            guard next.count == 2, next.first?.text == ".", let member = next.last, member.isName else { return nil }
            path += ".\(member.text)"
            guard members.contains(member.text) else {
                let known = members.sorted().joined(separator: ", ")
                return Token(text: "\(path): it is one of \(known)", line: member.line, isName: false)
            }
            rest = rest.dropFirst(2)
        }
        return nil
    }

    /// The members of changes, and of orders at any place.
    private static let known: Set<String> = {
        var known = Set(["order", "type", "data", "id", "sequence", "time", "source", "silent", "brand", "owns"])
        Self.collect(.order, into: &known, depth: 0)
        return known
    }()

    /// Adds the names of all members below a place; fulfillments nest the deepest.
    private static func collect(_ place: OrderPlace, into names: inout Set<String>, depth: Int) {
        guard depth < 10 else { return }
        for name in place.memberNames {
            names.insert(name)
            if let inside = place.member(name) { self.collect(inside, into: &names, depth: depth + 1) }
        }
        if let element = place.element { self.collect(element, into: &names, depth: depth + 1) }
    }

    struct Token {
        let text: String
        let line: Int
        let isName: Bool
    }

    private static let keywords: Set<String> = [
        "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in", "local", "nil",
        "not", "or", "repeat", "return", "then", "true", "until", "while",
    ]

    /// Returns the names that the text declares: locals, parameters, variables of loops, and globals it assigns.
    private static func declared(_ tokens: [Token]) -> Set<String> {
        var names: Set<String> = []
        for (index, token) in tokens.enumerated() {
            switch token.text {
            case "local", "for", "function":
                var next = index + 1
                if token.text == "function" {
                    // The name, and then the parameters.
                    while next < tokens.count, tokens[next].text != "(" {
                        if tokens[next - 1].text != ".", tokens[next].isName { names.insert(tokens[next].text) }
                        next += 1
                    }
                    next += 1
                }
                while next < tokens.count, tokens[next].isName || ",<>const".contains(tokens[next].text) {
                    if tokens[next].isName { names.insert(tokens[next].text) }
                    next += 1
                    if next < tokens.count, token.text == "local", tokens[next].text == "function" { break }
                }
            case "=" where index > 0 && tokens[index - 1].isName:
                let before = index > 1 ? tokens[index - 2].text : ""
                if ![".", "{", ",", ";", ":"].contains(before) { names.insert(tokens[index - 1].text) }
            default: break
            }
        }
        return names
    }

    /// Returns names and punctuation, without texts, numbers and comments. Source: Lua 5.4 manual §3.1
    private static func tokens(_ text: String) -> [Token] {
        let bytes = Array(text.utf8)
        var tokens: [Token] = []
        var line = 1
        var at = 0
        func byte(_ index: Int) -> UInt8 { index < bytes.count ? bytes[index] : 0 }
        /// Returns the level of a long bracket that opens here; nil if none does.
        func longBracket(_ start: Int) -> Int? {
            guard byte(start) == UInt8(ascii: "[") else { return nil }
            var end = start + 1
            while byte(end) == UInt8(ascii: "=") { end += 1 }
            return byte(end) == UInt8(ascii: "[") ? end - start - 1 : nil
        }
        func skipLong(_ level: Int) {
            let close = [UInt8(ascii: "]")] + Array(repeating: UInt8(ascii: "="), count: level) + [UInt8(ascii: "]")]
            while at < bytes.count, !bytes[at...].starts(with: close) {
                if bytes[at] == 0x0A { line += 1 }
                at += 1
            }
            at += close.count
        }
        func isLetter(_ byte: UInt8) -> Bool { (byte | 0x20) &- UInt8(ascii: "a") < 26 || byte == UInt8(ascii: "_") }
        func isDigit(_ byte: UInt8) -> Bool { byte &- UInt8(ascii: "0") < 10 }
        while at < bytes.count {
            let first = bytes[at]
            if first == UInt8(ascii: "-"), byte(at + 1) == UInt8(ascii: "-") {
                at += 2
                if let level = longBracket(at) {
                    skipLong(level)
                } else {
                    while at < bytes.count, bytes[at] != 0x0A { at += 1 }
                }
            } else if let level = longBracket(at) {
                skipLong(level)
            } else if first == UInt8(ascii: "\"") || first == UInt8(ascii: "'") {
                at += 1
                while at < bytes.count, bytes[at] != first {
                    at += bytes[at] == UInt8(ascii: "\\") ? 2 : 1
                }
                at += 1
            } else if isLetter(first) || isDigit(first) {
                let start = at
                while isLetter(byte(at)) || isDigit(byte(at)) { at += 1 }
                let word = String(decoding: bytes[start..<at], as: UTF8.self)
                if isLetter(first) {
                    tokens.append(Token(text: word, line: line, isName: !self.keywords.contains(word)))
                }
            } else {
                if first == 0x0A { line += 1 }
                if first > 0x20 {
                    // `..` joins texts, whereas `.` names a member.
                    let isJoined = first == UInt8(ascii: ".") && byte(at + 1) == first
                    let isDouble = isJoined || byte(at + 1) == UInt8(ascii: "=") && "=<>~".utf8.contains(first)
                    let mark = isJoined ? ".." : isDouble ? "==" : String(decoding: [first], as: UTF8.self)
                    tokens.append(Token(text: mark, line: line, isName: false))
                    if isDouble { at += 1 }
                    if isJoined, byte(at + 1) == first { at += 1 }
                }
                at += 1
            }
        }
        return tokens
    }
}
