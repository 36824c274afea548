import APNS
import Brands
import Model
import Testing

@testable import Pusher

@Suite struct PushNotificationTests {
    private func notification(_ options: PushOptions) throws -> PushNotification {
        PushNotification(
            deviceToken: try PushToken(PusherFixture.token(1)),
            topic: try OrderTypeIdentifier(PusherBrandFixture.orderType),
            options: options, nowEpochSeconds: 1000)
    }

    @Test func theDefaultIsABackgroundPushThatExpiresAfterAWeek() throws {
        let notification = try self.notification(PushOptions())
        #expect(notification.pushType == .background)
        #expect(notification.priority == 5)
        #expect(notification.expirationEpochSeconds == 605_800)
        #expect(notification.collapseIdentifier == nil)
        #expect(notification.payload == PushNotification.emptyPayload)
    }

    @Test func aBrandsPushOptionsOverrideTheDefaults() throws {
        var options = PushOptions()
        options.kind = .alert
        options.expirationSeconds = 0
        options.collapseIdentifier = "orders"
        for priority in PushOptions.Priority.allCases {
            options.priority = priority
            let notification = try self.notification(options)
            #expect(notification.pushType == .alert)
            #expect(Int64(notification.priority) == priority.rawValue)
            #expect(notification.expirationEpochSeconds == 0)
            #expect(notification.collapseIdentifier == "orders")
        }
    }
}
