extension Duration {
    /// The deadline for servers in the tests' own process, where other tests may occupy all processors for seconds.
    static let answer = Duration.seconds(60)
}
