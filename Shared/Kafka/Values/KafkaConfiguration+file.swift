import Glibc

extension KafkaConfiguration {
    /// The most bytes of a properties file, which has some dozens of lines; a larger file is refused.
    static let fileLimit = 1 << 20

    /// Reads a file of librdkafka properties: `name=value` lines, `#` begins a comment line.
    ///
    /// Unknown names are detected when a handle is made.
    /// - Throws: `.configuration` naming the file, and the line that has no `=`.
    public static func properties(file: String) throws(KafkaError) -> [String: String] {
        guard let stream = unsafe fopen(file, "re") else {
            throw KafkaError(.configuration, "opening \(file): \(unsafe String(cString: strerror(errno)))")
        }
        defer { unsafe fclose(stream) }

        var bytes = [UInt8](repeating: 0, count: Self.fileLimit + 1)
        let capacity = bytes.count
        let count = unsafe bytes.withUnsafeMutableBytes { unsafe fread($0.baseAddress, 1, capacity, stream) }
        guard unsafe ferror(stream) == 0 else { throw KafkaError(.configuration, "reading \(file): failed") }
        guard count <= Self.fileLimit else {
            throw KafkaError(.configuration, "reading \(file): more than \(Self.fileLimit) bytes")
        }
        guard let text = String(validating: bytes[..<count], as: UTF8.self) else {
            throw KafkaError(.configuration, "reading \(file): not UTF-8")
        }
        do {
            return try Self.properties(text: text)
        } catch {
            throw KafkaError(.configuration, "reading \(file): \(error.message)")
        }
    }

    /// Parses the text of a properties file. A later line overrides an earlier one.
    ///
    /// - Throws: `.configuration` with the number of the line, never its text: it may be a secret.
    static func properties(text: String) throws(KafkaError) -> [String: String] {
        var properties: [String: String] = [:]
        for (index, raw) in text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).enumerated() {
            let line = trim(raw)
            if line.isEmpty || line.hasPrefix("#") { continue }
            guard let equals = line.firstIndex(of: "="), equals != line.startIndex else {
                throw KafkaError(.configuration, "line \(index + 1) is not name=value")
            }
            properties[String(trim(line[..<equals]))] = String(trim(line[line.index(after: equals)...]))
        }
        return properties
    }

    private static func trim(_ text: Substring) -> Substring {
        var text = text
        while let first = text.first, first.isWhitespace { text.removeFirst() }
        while let last = text.last, last.isWhitespace { text.removeLast() }
        return text
    }
}
