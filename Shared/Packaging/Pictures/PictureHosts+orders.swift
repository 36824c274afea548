public import Model

extension PictureHosts {
    /// The URLs of pictures in an order that may be fetched, each once, in the order of their places.
    public func urls(in orderJSON: JSON) -> [String] {
        guard !self.isEmpty, let order = orderJSON.object else { return [] }
        var urls: [String] = []
        OrderFiles.forEach(in: order) { name, place in
            if place.isPicture, self.allows(url: name), !urls.contains(name) { urls.append(name) }
        }
        return urls
    }
}
