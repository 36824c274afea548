import ArgumentParser

/// The options of both roles.
///
/// The command line parser gives an option to the first command that knows it, and its value to every later command
/// with the same group of options. A flag that both commands declare would not reach the second one.
struct StartOptions: ParsableArguments {
    @Flag(help: "Print the effective configuration, secrets redacted, and exit.")
    var checkConfig = false
}
