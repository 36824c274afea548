"""nginx, serving what the gateway serves: from files, and from Redis with Lua."""

import email.utils
import os
from pathlib import Path

from client import Connection, showing
from nginx import start_nginx
from processes import free_ports
from stack import Failure
from subject import AUTHORIZATION, HERE

class Peers:
    def __init__(self, stack, folder):
        self.stack, self.folder = stack, folder
        self.static_port, self.lua_port = free_ports(2)

    def save(self, order, response):
        """Stores a package as a file for nginx, with the modification time that the gateway reports."""
        file = Path(f"{self.folder}/static{self.stack.path(order)}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(response.body)
        modified = email.utils.parsedate_to_datetime(response.headers["last-modified"]).timestamp()
        os.utime(file, (modified, modified))

    def start(self, headers):
        """Starts nginx. headers: of the gateway's answer; the peers repeat those about caching."""
        text = Path(f"{HERE}/gateway/nginx.conf").read_text()
        words = {
            "LUA": f"{HERE}/gateway", "STATIC_PORT": self.static_port, "LUA_PORT": self.lua_port,
            "REDIS_PORT": self.stack.redis_port, "CACHE_CONTROL": headers.get("cache-control", ""),
            "VARY": headers.get("vary", ""),
        }
        self.nginx = start_nginx(self.folder, text, words, [self.static_port, self.lua_port])
        return self.nginx

    def workers(self):
        pid = self.nginx.pid
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def check(self, orders):
        """Fails unless all servers answer alike."""
        gateway, lua, static = (Connection(p) for p in (self.stack.gateway_port, self.lua_port, self.static_port))
        shared = ("content-type", "content-length", "last-modified", "cache-control", "vary")
        for order in orders:
            path = self.stack.path(order)
            ours = gateway.get(path, AUTHORIZATION)
            require(ours.status == 200 and len(ours.body) > 16000, f"{path}: {ours.status}, {len(ours.body)} bytes")
            for name, peer, same in (("Lua", lua, shared + ("etag",)), ("static", static, shared)):
                theirs = peer.get(path, AUTHORIZATION)
                require(theirs.status == 200, f"{name} answers {theirs.status} instead of 200")
                require(theirs.body == ours.body, f"{name} answers with different bytes")
                for header in same:
                    require(
                        theirs.headers.get(header) == ours.headers.get(header),
                        f"{name} says {header}: {theirs.headers.get(header)}, the gateway {ours.headers.get(header)}")
            since = ("if-modified-since", ours.headers["last-modified"])
            match = ("if-none-match", ours.headers["etag"])
            early = ("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT")
            for name, peer in (("gateway", gateway), ("Lua", lua)):
                cases = [
                    ("since", AUTHORIZATION + [since], 304), ("match", AUTHORIZATION + [match], 304),
                    ("an early date", AUTHORIZATION + [early], 200), ("no token", [], 401),
                ]
                # Once: for a time after each, the gateway reads an order twice for this address.
                if order == orders[0]:
                    cases.append(("a wrong token", showing("0" * 32), 401))
                for case, headers, status in cases:
                    given = peer.get(path, headers)
                    require(given.status == status, f"{name} answers {given.status} to {case}, {status} is correct")
                    if status == 304:
                        require(given.headers.get("etag") == ours.headers["etag"], f"{name}'s 304 has no etag")
            require(static.get(path, [since]).status == 304, "static does not answer 304")
        for connection in (gateway, lua, static):
            connection.close()


def require(condition, message):
    if not condition:
        raise Failure(f"the three do not answer alike: {message}")
