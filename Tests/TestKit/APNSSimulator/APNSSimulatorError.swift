/// The reason why the simulator could not be started or controlled.
public struct APNSSimulatorError: Error, Hashable, CustomStringConvertible {
    /// A sentence with the value at fault.
    public let description: String
}
