@main struct Pusher { static func main() {} }
