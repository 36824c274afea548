import Testing

@Suite struct RedisTests {}
