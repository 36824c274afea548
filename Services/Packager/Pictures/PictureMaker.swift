import Cryptography
import Model
import Packaging
import PictureFitting
import Store

/// Makes files for packages of files that were fetched.
struct PictureMaker: Sendable {
    /// Gives a picture of a brand a form: in the service, in a process of its own.
    let fit: @Sendable ([UInt8], OrderTypeIdentifier, PictureFit) async -> Result<[UInt8], Failure>

    /// The reason why there is no file.
    struct Failure: Error, Hashable {
        let reason: PictureFailure
        /// A sentence for people.
        let message: String
    }

    struct Made {
        /// Nil for a picture that is the one that is known.
        let file: (file: PictureFile, entry: [UInt8])?
        /// As in the picture's record.
        let form: (source: String, name: String)?
    }

    /// Makes a file of the content of a URL.
    ///
    /// Content that was fetched before makes no new file: what stands in packages stays there, also if it was fetched
    /// by a release, or for a brand, that gave it no form.
    /// - Parameters:
    ///   - key: the identity of the picture.
    ///   - fit: nil to leave the picture as it is.
    ///   - known: the picture's record.
    func make(
        _ content: [UInt8], of key: PictureKey, _ fit: PictureFit?, known: PictureRecord
    ) async throws(Failure) -> Made {
        let source = SHA256.hex(content)
        if let old = known.content, (known.form?.source ?? old.contentDigest) == source,
            known.form.map({ $0.name == fit?.description }) ?? true
        {
            return Made(file: nil, form: known.form)
        }
        let made = if let fit { try await self.fit(content, key.orderType, fit).get() } else { content }
        do throws(PictureFault) {
            return Made(
                file: try PictureFile.make(url: key.url, content: made), form: fit.map { (source, $0.description) })
        } catch {
            throw Failure(reason: .notAPicture, message: error.description)
        }
    }

    /// Makes a file of an own document, which stays as it was fetched.
    static func document(_ content: [UInt8], identifier: String) throws(Failure) -> Made {
        do throws(PictureFault) {
            return Made(file: try PictureFile.makeDocument(identifier, content: content), form: nil)
        } catch {
            throw Failure(reason: .notADocument, message: "reading a document: it \(error.message)")
        }
    }
}

extension PictureMaker.Failure {
    init(_ fault: PictureFitFault) {
        let reason: PictureFailure =
            switch fault.reason {
            case .notAPicture: .notAPicture
            case .tooManyPixels: .tooManyPixels
            case .damaged: .damaged
            case .tooLarge: .tooLarge
            case .memory: .memory
            }
        self.init(reason: reason, message: fault.message)
    }
}
