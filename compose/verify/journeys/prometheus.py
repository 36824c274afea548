"""A Prometheus server beside a stack, with the rules of compose/operate/alerts, as they are or quickened."""

import json
import re
import signal
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import yaml

from processes import Program, free_ports
from quick_rules import quickened
from stack import ROOT, Failure, eventually

def dashboard_queries(window):
    """Returns (dashboard, query) of all dashboards but that of adoption, for any credential and host."""
    return [(path.stem, re.sub(r"\$(credential|host)", ".*", target["expr"].replace("$__rate_interval", window)))
            for path in sorted(Path(f"{ROOT}/compose/operate/dashboards").glob("*.json")) if path.stem != "adoption"
            for panel in json.loads(path.read_text())["panels"] for target in panel["targets"]]


class Prometheus:
    """
    A server of Debian's package.

    targets: addresses of operations listeners by job. alerts: the names of all alerts.
    """

    def __init__(self, folder, targets):
        self.folder, self.port = folder, free_ports(1)[0]
        Path(folder).mkdir(parents=True, exist_ok=True)
        self.load(quick=False, reload=False)
        Path(f"{folder}/prometheus.yaml").write_text(yaml.safe_dump({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [f"{folder}/rules/*.yaml"],
            "scrape_configs": [{"job_name": job, "static_configs": [{"targets": addresses}]}
                               for job, addresses in targets.items()],
        }))
        self.server = Program(
            ["prometheus", f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address=127.0.0.1:{self.port}"], f"{folder}/log")
        self.server.await_ready(lambda: self.reached("/-/ready"), 60)

    def reached(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5):
                return True
        except OSError:
            return False

    def load(self, quick, reload=True):
        """Loads the rules of compose/operate/alerts, with their states empty."""
        self.alerts = []
        Path(f"{self.folder}/rules").mkdir(exist_ok=True)
        for path in Path(f"{ROOT}/compose/operate/alerts").glob("*.yaml"):
            groups = yaml.safe_load(path.read_text())["groups"]
            self.alerts += [rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule]
            if quick:
                # Another name, so that no state is taken over.
                groups = [{"name": f"{group['name']}-quick", "rules": [quickened(rule) for rule in group["rules"]]}
                          for group in groups]
            Path(f"{self.folder}/rules/{path.name}").write_text(yaml.safe_dump({"groups": groups}))
        if reload:
            self.server.process.send_signal(signal.SIGHUP)
            ending = "-quick" if quick else ""
            eventually("the reload of the rules", lambda: all(
                group["name"].endswith(ending) for group in self.ask("/rules")["groups"]), 20)

    def ask(self, path, **parameters):
        query = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1{path}?{query}", timeout=20) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise Failure(f"Prometheus answers {error.code}: {error.read().decode()[:300]}") from error

    def active(self):
        """Returns the states, pending or firing, of the alerts that are not silent, with their summaries."""
        states = {}
        for alert in self.ask("/alerts")["alerts"]:
            name = alert["labels"]["alertname"]
            if states.get(name, ("", ""))[0] != "firing":
                states[name] = (alert["state"], alert["annotations"]["summary"])
        return states

    def firing(self):
        return {name: summary for name, (state, summary) in self.active().items() if state == "firing"}

    def has_series(self, query, began, ended):
        """Returns whether a query gave a value at any time between two moments, in seconds since 1970."""
        step = max(1, (ended - began) / 2000)
        series = self.ask("/query_range", query=query, start=began, end=ended, step=step)["result"]
        return any(value != "NaN" for one in series for _, value in one["values"])

    def stop(self):
        self.server.stop()
