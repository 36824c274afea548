import Cryptography
import FoundationEssentials
import HTTPServer
import NIOCore
import NIOHTTP1
import Tokens

/// The page behind a link in a mail. A pure value: no script, no picture, nothing of another origin.
struct MailPage: Sendable {
    private let shop: String
    private let words: Sentences
    /// The language's code.
    private let code: String

    /// The sentences instead of buttons.
    enum Message: Int {
        case invalid, expired, removed, elsewhere
    }

    private struct Sentences {
        /// The heading of a shop without a name.
        let title: String
        let track: String
        let order: String
        /// By `Message`.
        let messages: [String]
    }

    private static let english = Sentences(
        title: "Your order", track: "Track with Apple Wallet", order: "See your order",
        messages: [
            "This link is not valid: a part of it is missing, or the shop has ended it.",
            "This link has expired. Your order is on the shop’s website.", "This order no longer exists.",
            "Open this link on your iPhone to track the order there.",
        ])

    private static let others: [String: Sentences] = [
        "de": Sentences(
            title: "Ihre Bestellung", track: "Mit Apple Wallet verfolgen", order: "Bestellung ansehen",
            messages: [
                "Dieser Link gilt nicht: Ein Teil fehlt, oder der Shop hat ihn beendet.",
                "Dieser Link ist abgelaufen. Ihre Bestellung finden Sie auf der Website des Shops.",
                "Diese Bestellung gibt es nicht mehr.",
                "Öffnen Sie diesen Link auf Ihrem iPhone, um die Bestellung dort zu verfolgen.",
            ]),
        "fr": Sentences(
            title: "Votre commande", track: "Suivre avec Apple Wallet", order: "Voir la commande",
            messages: [
                "Ce lien n’est pas valable : une partie manque, ou la boutique y a mis fin.",
                "Ce lien a expiré. Votre commande se trouve sur le site de la boutique.",
                "Cette commande n’existe plus.",
                "Ouvrez ce lien sur votre iPhone pour y suivre la commande.",
            ]),
        "es": Sentences(
            title: "Su pedido", track: "Seguir con Apple Wallet", order: "Ver el pedido",
            messages: [
                "Este enlace no es válido: falta una parte, o la tienda lo ha anulado.",
                "Este enlace ha caducado. Su pedido está en la web de la tienda.", "Este pedido ya no existe.",
                "Abra este enlace en su iPhone para seguir el pedido allí.",
            ]),
        "it": Sentences(
            title: "Il tuo ordine", track: "Segui con Apple Wallet", order: "Vedi l’ordine",
            messages: [
                "Questo link non è valido: ne manca una parte, o il negozio lo ha annullato.",
                "Questo link è scaduto. L’ordine si trova sul sito del negozio.", "Questo ordine non esiste più.",
                "Apri questo link sul tuo iPhone per seguire l’ordine.",
            ]),
    ]

    /// A browser that draws Apple Pay's button is on a device with Wallet, and an agent's name says nothing.
    private static let style = """
        :root{color-scheme:light dark}
        body{margin:0;min-height:100vh;display:flex;align-items:center;justify-content:center;\
        font:17px/1.5 system-ui,sans-serif;background:Canvas;color:CanvasText}
        main{max-width:22rem;padding:2rem;text-align:center}
        h1{font-size:1.4rem;overflow-wrap:anywhere}
        button{width:100%;padding:.8rem 1rem;border:1px solid CanvasText;border-radius:.6rem;font:inherit;\
        font-weight:600;background:CanvasText;color:Canvas;cursor:pointer}
        button:focus-visible{outline:3px solid #0a84ff;outline-offset:3px}
        .wallet{display:none}
        @supports (-webkit-appearance:-apple-pay-button){.wallet{display:block}.other{display:none}}
        """
    private static let policy =
        "default-src 'none'; style-src 'sha256-\(Data(SHA256.digest(Array(style.utf8))).base64EncodedString())'; "
        // The policy holds for the addresses that a form leads to as well: the package, and the shop's page.
        + "form-action 'self' https:; base-uri 'none'; frame-ancestors 'none'"

    /// - Parameters:
    ///   - shop: the shop's name; empty if its brand has none.
    ///   - language: a language tag; other languages than those of `others` get English.
    init(shop: String, language: String) {
        self.shop = shop
        let primary = String(language.lowercased().prefix { $0 != "-" })
        self.words = Self.others[primary] ?? Self.english
        self.code = Self.others[primary] == nil ? "en" : primary
    }

    /// Makes the page with the buttons.
    ///
    /// - Parameter signature: the link's, found right.
    func answer(_ link: MailLink, signature: String) -> Answer {
        func button(_ name: String, _ purpose: MailEndpoint.Purpose, _ text: String) -> String {
            let proof = "expires=\(link.expiresEpochSeconds)&signature=\(signature)"
            let query = "\(proof)&language=\(self.code)&open=\(purpose.rawValue)"
            return """
                <form class="\(name)" method="post" action="?\(Self.escaped(query))">\
                <button>\(Self.escaped(text))</button></form>
                """
        }
        return self.page(
            .ok, button("wallet", .wallet, self.words.track) + button("other", .order, self.words.order))
    }

    /// The page with a sentence.
    func answer(_ status: HTTPResponseStatus, _ message: Message) -> Answer {
        let text = self.words.messages[message.rawValue]
        return self.page(status, "<p>\(Self.escaped(text))</p>")
    }

    private func page(_ status: HTTPResponseStatus, _ body: String) -> Answer {
        let title = Self.escaped(self.shop.isEmpty ? self.words.title : self.shop)
        let html = """
            <!doctype html>
            <html lang="\(self.code)"><head><meta charset="utf-8"><title>\(title)</title>
            <meta name="viewport" content="width=device-width">
            <style>\(Self.style)</style></head>
            <body><main><h1>\(title)</h1>\(body)</main></body></html>

            """
        return Answer(
            status,
            headers: [
                "content-type": "text/html; charset=utf-8", "cache-control": "private, no-store",
                "content-security-policy": Self.policy, "referrer-policy": "no-referrer",
                "x-content-type-options": "nosniff", "x-robots-tag": "noindex, nofollow",
            ], body: [ByteBuffer(string: html)])
    }

    private static func escaped(_ text: String) -> String {
        text.replacing("&", with: "&amp;").replacing("<", with: "&lt;").replacing("\"", with: "&quot;")
    }
}
