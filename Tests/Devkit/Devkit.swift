@main struct Devkit { static func main() {} }
