import Foundation
import Model
import NIOHTTP1
import Synchronization
import TestKit
import TestTraits
import Testing

@testable import Devkit

/// The guided trial, played by simulated devices.
@Suite(.timeLimit(.minutes(2))) struct DeviceTrialTests {
    private static let order = "SF-2025-00077"
    private static let token = "secret-token-of-the-order"

    /// A gateway that knows one order.
    private static func gateway(_ package: [UInt8]) async throws -> FakeServer {
        let tag = Atomic<Int>(0)
        let tags: @Sendable () -> Int = { tag.wrappingAdd(1, ordering: .relaxed).newValue }
        return try await FakeServer.start { request in
            let date = ("last-modified", "Fri, 15 Jan 2027 08:00:00 GMT")
            let type = ("content-type", "application/vnd.apple.finance.order")
            if request.path.hasSuffix("/package") {
                return .response(FakeServer.Response(200, headers: [type], body: Array(repeating: 0, count: 4_600_000)))
            }
            switch (request.method, request.path.contains("/devices/")) {
            case ("GET", false): return .response(FakeServer.Response(200, headers: [type, date], body: package))
            case ("GET", true):
                let list: JSON = ["orderIdentifiers": [.string(Self.order)], "lastModified": .string("\(tags())")]
                return .response(.json(200, list.text))
            case ("POST", _): return .response(FakeServer.Response(201))
            default: return .response(FakeServer.Response(200))
            }
        }
    }

    @Test func aTrialIsPlayedWholeAndItsReportHasNoSecrets() async throws {
        let fixture = try PackageFixture.shared.get()
        let gateway = try await Self.gateway(fixture.package)
        let http = try HTTPClient()
        let proxy = DeviceTrialProxy(gateway: "http://127.0.0.1:\(gateway.port)", http: http)
        let listener = try await FakeServer.start { .response(await proxy.answer($0)) }
        let verifier = try PackageVerifier(rootsPEM: fixture.pem["root"] ?? [])
        let base = "http://127.0.0.1:\(listener.port)"
        let type = try OrderTypeIdentifier(PackageFixture.orderType)
        let devices = (0..<2).map { _ in
            WalletDevice(gateway: base, orderType: type, http: http, verifier: verifier)
        }
        for device in devices { await device.add(order: Self.order, token: Self.token) }
        let step = Atomic<Int>(0)
        let said = Mutex<[String]>([])
        let running = Mutex<[Task<Void, any Error>]>([])
        let act: @Sendable (@escaping @Sendable () async throws -> Void) -> Void = { body in
            // A device whose request gets no answer in time, on a busy machine, sends it again.
            let task = Task {
                for _ in 0..<4 { if (try? await body()) != nil { return } }
                try await body()
            }
            running.withLock { $0.append(task) }
        }
        let run = DeviceTrialRun(
            proxy: proxy, limit: .seconds(60),
            change: { text in
                let present = step.load(ordering: .relaxed)
                #expect(text == "Trial, step \(present)")
                act {
                    let isLast = DeviceTrial.steps[present - 1].name == "both devices"
                    for device in isLast ? devices : [devices[0]] {
                        // As Wallet, the device tries again after 503.
                        for _ in 0..<3 { if (try? await device.react()) != nil { break } }
                    }
                }
            },
            say: { line in said.withLock { $0.append(line) } },
            line: {
                let index = step.wrappingAdd(1, ordering: .relaxed).oldValue
                switch DeviceTrial.steps[index].name {
                case "install", "second device":
                    act {
                        let device = devices[index == 0 ? 0 : 1]
                        _ = try await device.firstFetch(Self.order, within: .seconds(30))
                        _ = try await device.register(Self.order)
                    }
                case "push" where index == 3: return "s"
                case "conditions": act { _ = try await devices[0].fetch(Self.order) }
                case "size":
                    act {
                        let link =
                            "\(base)/v1/orders/\(type)/\(Self.order)/package?expires=1&signature=secret-signature"
                        _ = try await http.send(HTTPRequest(url: link), within: .seconds(30))
                        _ = try await devices[0].register(Self.order)
                    }
                case "removal": act { try await devices[0].unregister(Self.order) }
                default: break
                }
                return ""
            })
        let report = try await run.report()
        for task in running.withLock({ $0 }) { try await task.value }
        await listener.stop()
        await gateway.stop()
        await http.close()
        let rows = report.split(separator: "\n").filter { $0.hasPrefix("| ") }.dropFirst()
        #expect(rows.count == DeviceTrial.steps.count)
        #expect(rows.count { $0.hasSuffix("| skipped |") } == 1)
        #expect(!report.contains("nothing came"), "\(report)")
        #expect(report.contains("the device sends if-modified-since"))
        let retries = rows.first { $0.hasPrefix("| retries") } ?? ""
        #expect(retries.contains("fetches after") && retries.split(separator: ",").count >= 3, "\(retries)")
        #expect(report.contains("2 of 2 devices asked"))
        #expect(report.contains("- `push` in `brand.json`: authentication "))
        #expect(report.contains("device 2\tregistration\t201"))
        #expect(report.contains("fetch\t503"))
        let secrets = [Self.token, Self.order, "secret-signature", PackageFixture.orderType]
        for secret in secrets + devices.flatMap({ [$0.deviceIdentifier, $0.pushToken] }) {
            #expect(!report.contains(secret), "\(secret)")
            #expect(!said.withLock { $0.joined() }.contains(secret))
        }
    }

    @Test func aDeviceThatDoesNothingIsReportedAsThat() throws {
        let step = DeviceTrial.steps[1]
        let silent = DeviceTrial.Result(step: step, ending: .waited, began: .zero, seen: [])
        #expect(silent.answer == "nothing came")
        let report = DeviceTrial.report([silent], [], agents: [])
        #expect(report.contains("No push arrived"))
        let late = DeviceTrial.Result(
            step: step, ending: .reached, began: .seconds(2),
            seen: [
                DeviceTrial.Seen(
                    kind: .list, device: 1, status: 200, at: .milliseconds(3200), bytes: 0, conditions: [], agent: "")
            ])
        #expect(late.answer == "after 1.2 s, with 200")
        #expect(DeviceTrial.report([silent, late], [], agents: []).contains("\(step.push ?? ""), which arrived first"))
    }

    @Test func aStepThatTheDeviceIgnoresEndsAtItsLimit() async throws {
        let http = try HTTPClient()
        let proxy = DeviceTrialProxy(gateway: "http://127.0.0.1:1", http: http)
        let run = DeviceTrialRun(
            proxy: proxy, limit: .milliseconds(20), change: { _ in }, say: { _ in }, line: { "" })
        let report = try await run.report()
        await http.close()
        let rows = report.split(separator: "\n").filter { $0.hasPrefix("| ") }.dropFirst()
        #expect(rows.count == DeviceTrial.steps.count)
        let answers = ["nothing came", "no fetch", "no conditional field", "0 of 2 devices asked"]
        #expect(rows.allSatisfy { row in answers.contains { row.hasSuffix("| \($0) |") } }, "\(report)")
    }
}
