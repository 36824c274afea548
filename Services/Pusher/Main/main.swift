import Pusher

await runPusher()
