import Testing

@Suite struct PusherTests {}
