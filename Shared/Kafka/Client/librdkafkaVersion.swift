import CRDKafka

/// Returns the version of librdkafka that this process runs with.
public func librdkafkaVersion() -> String { unsafe String(cString: rd_kafka_version_str()) }
