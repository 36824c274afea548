@main struct Packager { static func main() {} }
