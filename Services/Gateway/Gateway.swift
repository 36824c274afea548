@main struct Gateway { static func main() {} }
