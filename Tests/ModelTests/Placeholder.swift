import Testing

@Suite struct ModelTests {}
