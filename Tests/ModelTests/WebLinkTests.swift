import Testing

@testable import Model

/// Links as shops and people write them.
@Suite struct WebLinkTests {
    @Test func whatIsCertainIsMended() {
        for (text, link) in [
            ("https://shop.example/a b", "https://shop.example/a%20b"),
            ("https://track.example/parcel?nr=RM 391", "https://track.example/parcel?nr=RM%20391"),
            ("https://cdn.example/größe.jpg", "https://cdn.example/gr%C3%B6%C3%9Fe.jpg"),
            ("https://cdn.example/o\u{308}.jpg", "https://cdn.example/o%CC%88.jpg"),
            ("//cdn.example/x.jpg", "https://cdn.example/x.jpg"),
            ("//cdn.example/a b.jpg#t\"", "https://cdn.example/a%20b.jpg#t%22"),
            (" https://shop.example/1\n", "https://shop.example/1"),
            ("\u{A0}https://a.example\u{A0}", "https://a.example"),
            ("HTTPS://Shop.example/A", "https://Shop.example/A"), ("Http://shop.example", "http://shop.example"),
            ("https://shop.example/100%", "https://shop.example/100%25"),
            ("https://shop.example/%zz%2", "https://shop.example/%25zz%252"),
            ("https://shop.example?to=https://b.example/{id}", "https://shop.example?to=https://b.example/%7Bid%7D"),
        ] { #expect(WebLink.mended(text) == link, "\(text)") }
    }

    @Test func aLinkStaysAsItIs() {
        for text in [
            "https://shop.example/a%20b?x=1&y=2#z", "http://shop.example:8080/", "https://user@shop.example/[1]",
            "mailto:ana@shop.example", "sms:+49301234",
        ] { #expect(WebLink.mended(text) == text) }
    }

    @Test func whatIsNoLinkIsNone() {
        for text in [
            "", " ", "n/a", "www.courier.example/track/1", "/media/x.jpg", "see the mail", "https:/shop.example",
            "https://", "https:// shop.example/", "https://exa mple.example/", "https://größe.example/", "https:///x",
            "https://a.example/1 https://b.example/2", "https://a.example/1, HTTPS://b.example/2",
            "https://a.example/1\nhttps://b.example/2", "https://a.example/\u{7F}", "// see below", "mailto:a b",
            "Link: https://a.example/", "https://a%.example/",
        ] { #expect(WebLink.mended(text) == nil, "\(text)") }
    }

    @Test func aMendedLinkIsValidAndMendedOnce() {
        for first in UInt8.min...UInt8(0x7F) {
            for second in UInt8.min...UInt8(0x7F) {
                let text = "https://a.example/\(Character(Unicode.Scalar(first)))\(Character(Unicode.Scalar(second)))"
                guard let link = WebLink.mended(text) else { continue }
                let isValid = isURL(link.utf8.span)
                #expect(isValid, "\(link)")
                #expect(WebLink.mended(link) == link)
            }
        }
    }
}
