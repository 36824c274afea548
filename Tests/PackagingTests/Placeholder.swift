import Testing

@Suite struct PackagingTests {}
