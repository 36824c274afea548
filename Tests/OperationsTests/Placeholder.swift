import Testing

@Suite struct OperationsTests {}
