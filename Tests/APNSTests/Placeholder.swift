import Testing

@Suite struct APNSTests {}
