import Operations
import Sandbox

extension Settings {
    /// The wall around processes that map records or decode pictures.
    func sandboxWall() throws(SettingsError) -> SandboxWall { try self.choice(.sandbox, default: .full) }
}
