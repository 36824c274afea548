import Testing

@Suite struct HTTP2Tests {}
