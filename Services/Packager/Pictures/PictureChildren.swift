import Model
import Packaging
import PictureFitting
import Sandbox

/// Gives pictures their form, in child processes: one that a picture has taken over sees others of its brand alone, and
/// few of them.
///
/// Bounded: one child at a time, those who wait for it are the pictures in hand.
final class PictureChildren: Sendable {
    static let command = "picture"
    /// The pictures that a child decodes before another one takes its place. Starting one costs more than a picture.
    private static let life = 64

    private let sandbox: Sandbox
    /// Their children, and the number of pictures that each has decoded.
    private let pool: SandboxPool<Int>

    static func sandbox(_ wall: SandboxWall) -> Sandbox {
        var sandbox = Sandbox(command: Self.command)
        sandbox.wall = wall
        sandbox.memory = 192 << 20
        sandbox.time = .seconds(2)
        // Its processor time ends a picture, not a busy machine.
        sandbox.patience = .seconds(60)
        sandbox.frame = PictureFit.sizeLimit + 1024
        return sandbox
    }

    init(_ sandbox: Sandbox) {
        self.sandbox = sandbox
        self.pool = SandboxPool(sandbox, count: 1) { 0 }
    }

    /// - Parameter brand: the order type of those that name the picture.
    func fit(
        _ bytes: [UInt8], of brand: OrderTypeIdentifier, _ fit: PictureFit
    ) async -> Result<[UInt8], PictureMaker.Failure> {
        // An error page needs no process.
        guard PictureFormat(bytes) != nil else {
            return .failure(PictureMaker.Failure(PictureFitFault.notAPicture(bytes)))
        }
        let request = Self.request(bytes, fit)
        while true {
            let (result, before) = await self.pool.with(brand.rawValue) { child, decoded in
                let result = await child.exchange(request)
                decoded += 1
                return (result.end == nil && decoded < Self.life, (result, decoded - 1))
            }
            if let answer = result.answers.first { return Self.result(of: answer) }
            // It is not at fault for the state in which a picture before it has left the child.
            guard before > 0 else { return .failure(self.failure(result.end)) }
        }
    }

    private func failure(_ end: SandboxEnd?) -> PictureMaker.Failure {
        switch end {
        case .time: .init(reason: .slow, message: "decoding it takes more than \(self.sandbox.time) of processor time")
        case .memory: .init(reason: .memory, message: "decoding it takes more than \(self.sandbox.memory >> 20) MiB")
        case .crashed(let reason): .init(reason: .decoderCrashed, message: "decoding it: \(reason)")
        case .absent(let reason): .init(reason: .noDecoder, message: "it cannot be decoded: \(reason)")
        case .gone, nil: .init(reason: .decoderCrashed, message: "decoding it: no answer")
        }
    }

    private static func request(_ bytes: [UInt8], _ fit: PictureFit) -> [UInt8] {
        var writer = SandboxWriter()
        writer.add(fit.place.rawValue)
        for part in [fit.background.red, fit.background.green, fit.background.blue] { writer.add(part) }
        writer.add(bytes)
        return writer.bytes
    }

    /// The child: closes the wall, and decodes a picture.
    ///
    /// - Parameter limits: those of `Sandbox`.
    static func serve(_ limits: String) -> Never {
        PictureFit.prepare()
        SandboxChild.serve(limits) { child, request in
            child.begin()
            child.answer(Self.answer(request))
        }
    }

    /// Answers in the child: zero and the file, or the number of a reason and a sentence.
    static func answer(_ request: [UInt8]) -> [UInt8] {
        var writer = SandboxWriter()
        do {
            var reader = SandboxReader(request)
            let place = PictureFit.Place(rawValue: try reader.byte()) ?? .square
            let background = PictureFit.Colour(
                red: try reader.byte(), green: try reader.byte(), blue: try reader.byte())
            let file = try PictureFit(place, on: background).file(of: try reader.data())
            writer.add(0 as UInt8)
            writer.add(file)
        } catch let fault as PictureFitFault {
            writer.add(fault.reason.rawValue)
            writer.add(fault.message)
        } catch {
            writer.add(PictureFitFault.Reason.damaged.rawValue)
            writer.add("it was not handed over whole")
        }
        return writer.bytes
    }

    static func result(of answer: [UInt8]) -> Result<[UInt8], PictureMaker.Failure> {
        do throws(SandboxFormatError) {
            var reader = SandboxReader(answer)
            let number = try reader.byte()
            if number == 0 { return .success(try reader.data()) }
            guard let reason = PictureFitFault.Reason(rawValue: number) else { throw SandboxFormatError() }
            return .failure(PictureMaker.Failure(PictureFitFault(reason, try reader.text())))
        } catch {
            return .failure(.init(reason: .decoderCrashed, message: "decoding it: its answer is not as agreed"))
        }
    }
}
