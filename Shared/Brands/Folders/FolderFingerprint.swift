import Cryptography
import FoundationEssentials
import Glibc
import Packaging

/// The visible attributes of a folder's files, without their content: names, sizes, times, inodes.
///
/// Links are followed, so the new inodes reveal a volume that is swapped by one link (Kubernetes' `..data`).
public struct FolderFingerprint: Hashable, Sendable {
    private let digest: String

    /// The most entries that are examined; a brand has at most 10,000 assets.
    private static let entryLimit = 20_000
    private static let depthLimit = 9

    /// Makes a fingerprint for tests of decisions based on them.
    init(digest: String) { self.digest = digest }

    /// Examines a folder and those inside, but not hidden ones. Unreadable entries count as such.
    init(folder: String) {
        var seen: [UInt8] = []
        var count = 0
        var open = [(path: folder, depth: 0)]
        while let next = open.popLast(), count < Self.entryLimit {
            let names = (try? FileManager.default.contentsOfDirectory(atPath: next.path)) ?? ["(unreadable)"]
            for name in names.sorted(by: precedes).prefix(Self.entryLimit - count) {
                count += 1
                let path = "\(next.path)/\(name)"
                var info = stat()
                let isThere = unsafe stat(path, &info) == 0
                seen += Array(path.utf8) + [0]
                let numbers = [
                    isThere ? 1 : 0, Int64(info.st_size), Int64(truncatingIfNeeded: info.st_ino),
                    Int64(info.st_mtim.tv_sec), Int64(info.st_mtim.tv_nsec), Int64(info.st_ctim.tv_sec),
                    Int64(info.st_ctim.tv_nsec), Int64(truncatingIfNeeded: info.st_mode),
                ]
                for number in numbers { seen += Array("\(number) ".utf8) }
                let isFolder = isThere && info.st_mode & S_IFMT == S_IFDIR
                if isFolder, !name.hasPrefix("."), next.depth < Self.depthLimit { open.append((path, next.depth + 1)) }
            }
        }
        self.digest = SHA256.hex(seen)
    }
}
