import Testing

@Suite struct GatewayTests {}
