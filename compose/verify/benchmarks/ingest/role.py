"""The role `ingest`, and its sources with the program of Shopify's orders."""

import json
import shutil
from pathlib import Path

from client import ask
from ingest import mapping
from processes import Program, free_ports
from stack import ROOT, Failure, program

GROUP = "waybill-ingest"


def write_source(folder, name, topics, members):
    """Writes a source below `folder`. members: of source.json, beside the example's. Returns the source's folder."""
    example, made = Path(f"{ROOT}/compose/connect/sources/shopify-orders"), Path(f"{folder}/{name}")
    made.mkdir(parents=True)
    shutil.copy(example / "map.lua", made)
    source = json.loads((example / "source.json").read_text())
    (made / "source.json").write_text(json.dumps(
        source | members | {"topics": topics, "orderType": mapping.ORDER_TYPE}))
    return made


class Role(Program):
    """The role with the sources below `folder`/sources."""

    def __init__(self, folder, bootstrap):
        properties = Path(f"{folder}/kafka.properties")
        properties.write_text("session.timeout.ms=10000\nauto.commit.interval.ms=50\nfetch.wait.max.ms=5\n")
        properties.chmod(0o600)
        self.url = f"http://127.0.0.1:{free_ports(1)[0]}"
        super().__init__([program("waybill-packager"), "ingest"], f"{folder}/ingest.log", {
            "WAYBILL_KAFKA_BOOTSTRAP": bootstrap, "WAYBILL_KAFKA_PROPERTIES": str(properties),
            "WAYBILL_SOURCES": f"{folder}/sources",
            "WAYBILL_OPERATIONS_LISTEN": self.url.removeprefix("http://")})
        self.await_ready(self.is_ready, 60)

    def is_ready(self):
        try:
            return ask(self.url, "/readyz")
        except (OSError, Failure):
            return False
