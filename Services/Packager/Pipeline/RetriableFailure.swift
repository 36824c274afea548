/// The reason why something was not done; trying again is safe at any point.
struct RetriableFailure: Error, CustomStringConvertible {
    let description: String
}
