import CCurl
import Glibc

/// The target of libcurl's callbacks of one transfer. Lives on the fetcher's thread only.
@safe
final class TransferSink {
    private(set) var headers = ResponseHeaders()
    private(set) var body: [UInt8] = []
    private(set) var isTooLarge = false
    /// True if a connection to an address was refused.
    private(set) var refusedAddress = false
    /// True if a connection to an address was allowed.
    private(set) var openedSocket = false
    private let addresses: AddressPolicy
    private let sizeLimit: Int

    init(addresses: AddressPolicy, sizeLimit: Int) {
        self.addresses = addresses
        self.sizeLimit = sizeLimit
    }

    /// Appends content within the limit; returning a count smaller than given ends the transfer. Source:
    /// CURLOPT_WRITEFUNCTION(3)
    static let receiveBody: curl_write_callback = { data, size, count, context in
        guard let context = unsafe context, let data = unsafe data else { return 0 }
        let sink = unsafe Unmanaged<TransferSink>.fromOpaque(context).takeUnretainedValue()
        // libcurl passes at most a few hundred kilobytes at once.
        let length = size * count
        guard length <= sink.sizeLimit - sink.body.count else {
            sink.isTooLarge = true
            return 0
        }
        unsafe sink.body.append(contentsOf: UnsafeRawBufferPointer(start: data, count: length))
        return length
    }

    static let receiveHeader: curl_write_callback = { data, size, count, context in
        guard let context = unsafe context, let data = unsafe data else { return 0 }
        let sink = unsafe Unmanaged<TransferSink>.fromOpaque(context).takeUnretainedValue()
        let line = unsafe Array(UnsafeRawBufferPointer(start: data, count: size * count))
        return sink.headers.receive(line) ? size * count : 0
    }

    /// Makes the socket only if connections to its address are allowed: nothing can change between this check and the
    /// connection. Source: CURLOPT_OPENSOCKETFUNCTION(3)
    static let openSocket: curl_opensocket_callback = { context, purpose, address in
        guard let context = unsafe context, let address = unsafe address else { return CURL_SOCKET_BAD }
        let sink = unsafe Unmanaged<TransferSink>.fromOpaque(context).takeUnretainedValue()
        guard purpose == CURLSOCKTYPE_IPCXN, let target = unsafe IPAddress(address),
            sink.addresses.allows(target)
        else {
            sink.refusedAddress = true
            return CURL_SOCKET_BAD
        }
        sink.openedSocket = true
        let type = unsafe address.pointee.socktype | Int32(SOCK_CLOEXEC.rawValue)
        return unsafe socket(address.pointee.family, type, address.pointee.protocol)
    }
}
