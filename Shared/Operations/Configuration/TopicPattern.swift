import Glibc

/// A pattern of topic names, a POSIX extended regular expression, which librdkafka matches names with.
///
/// Owner: this object owns one compiled expression.
@safe struct TopicPattern: ~Copyable {
    private var expression = unsafe regex_t()

    /// Nil if the text is not a regular expression. Source: regcomp(3)
    init?(_ text: String) {
        guard unsafe regcomp(&self.expression, text, REG_EXTENDED | REG_NOSUB) == 0 else { return nil }
    }

    deinit {
        var expression = unsafe self.expression
        unsafe regfree(&expression)
    }

    func matches(_ name: String) -> Bool {
        var expression = unsafe self.expression
        return unsafe regexec(&expression, name, 0, nil, 0) == 0
    }
}
