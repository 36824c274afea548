import Testing

@Suite struct KafkaTests {}
