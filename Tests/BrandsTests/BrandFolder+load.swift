import Brands
import TestKit

extension BrandFolder {
    func load() throws -> Brand { try Brand.load(directory: self.path, webServiceURL: Self.webServiceURL) }
}
