import Foundation
import Packaging
import PictureSamples
import TestKit
import Testing

@testable import PictureFitting

/// Pictures before and after, for people, where the environment names a directory for them.
@Suite struct PictureSheetTests {
    private static let directory = ProcessInfo.processInfo.environment["WAYBILL_TEST_PICTURES"]

    @Test(.enabled(if: Self.directory != nil)) func eachSampleIsShownBesideTheOneThatIsMadeOfIt() throws {
        let directory = URL(filePath: try #require(Self.directory))
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        var cells = ""
        for (index, sample) in PictureSample.all.enumerated() {
            let began = ProcessorTime.now
            let file = try PictureFit(.square, on: .white).file(of: sample.bytes)
            let milliseconds = Int((ProcessorTime.now - began) / .milliseconds(1))
            var names: [String] = []
            for (when, bytes) in [("before", sample.bytes), ("after", file)] {
                let format = try #require(PictureFormat(bytes))
                names.append("\(index)-\(when).\(format)")
                try Data(bytes).write(to: directory.appending(path: "\(index)-\(when).\(format)"))
            }
            let seen = try Seen(file)
            cells += """
                <figure><img src="\(names[0])"><img src="\(names[1])"><figcaption>\(sample)<br>
                \(sample.bytes.count) → \(file.count) bytes, \(seen.width) x \(seen.height) px, \(milliseconds) ms
                </figcaption></figure>\n
                """
        }
        let style = """
            body { font: 13px sans-serif; display: grid; grid-template-columns: repeat(4, 1fr); gap: 10px }
            figure { margin: 0 } figcaption { height: 3.2em }
            img { width: 46%; height: 150px; object-fit: contain; margin-right: 2%; border: 1px solid #999;
                background: repeating-conic-gradient(#ddd 0 25%, #fff 0 50%) 0 / 16px 16px }
            """
        let page = "<!doctype html><meta charset=utf-8><style>\(style)</style>\n\(cells)"
        try Data(page.utf8).write(to: directory.appending(path: "sheet.html"))
    }
}
