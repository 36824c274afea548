import Operations

/// The wall around processes that handle what others sent: with a filter of system calls, or limits alone.
enum SandboxWall: String, CaseIterable {
    case full, limits
}

extension Settings {
    func sandboxWall() throws(SettingsError) -> SandboxWall { try self.choice(.sandbox, default: .full) }
}
