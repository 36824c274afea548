import CBrowserFiles

/// A file that the shop's page loads: the JS module, its CSS, the stand-in for Apple Pay.
///
/// The texts are in `Files` in readable form; the build embeds them in the program.
public struct BrowserFile: Hashable, Sendable {
    /// The path below the service's root, such as `/applepay/waybill.mjs`.
    public let path: String
    public let contentType: String
    public let bytes: [UInt8]

    /// The ES module.
    public static let module = BrowserFile(
        path: "/applepay/waybill.mjs", contentType: Self.javaScript, bytes: unsafe browser_module().array)

    /// The same as a classic script with one global, `waybill.applePay`.
    public static let script = BrowserFile(
        path: "/applepay/waybill.js", contentType: Self.javaScript, bytes: Self.classic(Self.module.bytes))

    /// The pay button where the system draws it.
    public static let stylesheet = BrowserFile(
        path: "/applepay/waybill.css", contentType: "text/css; charset=utf-8",
        bytes: unsafe browser_stylesheet().array)

    /// The stand-in for Apple Pay. For development only: a service must not serve it to customers.
    public static let polyfill = BrowserFile(
        path: "/applepay/polyfill.js", contentType: Self.javaScript, bytes: unsafe browser_polyfill().array)

    /// The files that a page of a shop needs in production.
    public static let all = [module, script, stylesheet]

    private static let javaScript = "text/javascript; charset=utf-8"

    /// Turns a module into a classic script: its body in a function, its exports below the global `waybill`.
    static func classic(_ module: [UInt8]) -> [UInt8] {
        let text = String(decoding: module, as: UTF8.self)
        let marker = "\nexport {"
        // From the end: the export list is the module's last statement.
        guard let start = text.ranges(of: marker).last, let end = text.ranges(of: "};").last else { return module }
        let body = text[..<start.lowerBound]
        let names = text[start.upperBound..<end.lowerBound]
        let global = "\nwindow.waybill = Object.assign(window.waybill || {}, { applePay: {\(names)} });\n"
        return Array(("(() => {\n\"use strict\";\n" + body + global + "})();\n").utf8)
    }
}

extension browser_file {
    fileprivate var array: [UInt8] { unsafe Array(UnsafeBufferPointer(start: self.bytes, count: self.count)) }
}
