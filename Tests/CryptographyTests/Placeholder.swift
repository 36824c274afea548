import Testing

@Suite struct CryptographyTests {}
