extension Duration {
    /// For answers of servers in the tests' own process, which has other tests that leave no processor for seconds.
    static let answer = Duration.seconds(60)
}
