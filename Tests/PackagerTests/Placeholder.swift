import Testing

@Suite struct PackagerTests {}
