"""Holds the chart, as helm renders it, against the kustomize base that it is made of.

Usage: chart.py BIN WORK_FOLDER

With the chart's own values all objects equal those of the base, but for the hash in the name of the configuration. With
everything on they also have rules and dashboards that equal the files; WORK_FOLDER/chart.yaml has them, for manifests.py.
BIN has helm and kubectl.
"""
import json
import pathlib
import subprocess
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
EVERYTHING = {
    "image.registry": "registry.example.com", "image.tag": "2.3.4", "image.pullSecrets[0].name": "registry",
    "secrets.tokens": "other-tokens", "secrets.connections": "other-connections", "autoscaling.enabled": "true",
    "topics.enabled": "true", "retention.enabled": "true", "ingress.gateway": "wallet.example.com",
    "ingress.checkout": "checkout.example.com", "ingress.className": "nginx", "monitoring.podMonitor": "true",
    "monitoring.rules": "true", "monitoring.dashboards": "true", "monitoring.labels.release": "prometheus",
    "monitoring.runbooks": "https://example.com/runbooks#", "config.WAYBILL_LOG_LEVEL": "debug"}


def run(*words):
    return subprocess.run([str(word) for word in words], check=True, stdout=subprocess.PIPE, text=True).stdout


def objects(text):
    """Returns the objects of a text by kind and name, without the hash in the name of the configuration.

    >>> list(objects("kind: ConfigMap\\nmetadata: {name: waybill-0a1b2c3d4e}\\ndata: {WAYBILL_LISTEN: x}"))
    [('ConfigMap', 'waybill')]
    """
    for one in yaml.safe_load_all(text):
        if one and one["kind"] == "ConfigMap" and "WAYBILL_LISTEN" in one["data"]:
            text = text.replace(one["metadata"]["name"], "waybill")
    return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(text) if one}


def differences(here, there):
    """Yields a sentence for each object that is not the same in both.

    >>> list(differences({("A", "x"): 1, ("A", "y"): 1}, {("A", "x"): 2, ("B", "z"): 1}))
    ['A x differs', 'A y is in the chart only', 'B z is in the base only']
    """
    for kind, name in sorted(here.keys() | there.keys()):
        if (kind, name) not in there:
            yield f"{kind} {name} is in the chart only"
        elif (kind, name) not in here:
            yield f"{kind} {name} is in the base only"
        elif here[kind, name] != there[kind, name]:
            yield f"{kind} {name} differs"


def watched(everything):
    """Yields what rules and dashboards of the chart lack."""
    operate = ROOT / "compose/operate"
    groups = [group for path in sorted(operate.glob("alerts/*.yaml"))
              for group in yaml.safe_load(path.read_text())["groups"]]
    for rule in (rule for group in groups for rule in group["rules"] if "alert" in rule):
        rule["annotations"]["runbook_url"] = rule["annotations"]["runbook_url"].replace(
            "compose/operate/runbooks.md#", EVERYTHING["monitoring.runbooks"])
    if everything["PrometheusRule", "waybill"]["spec"]["groups"] != groups:
        yield "the rules are not those of compose/operate/alerts"
    boards = {path.name: json.loads(path.read_text()) for path in operate.glob("dashboards/*.json")}
    if {name: json.loads(text)
            for name, text in everything["ConfigMap", "waybill-dashboards"]["data"].items()} != boards:
        yield "the dashboards are not those of compose/operate/dashboards"


def main(bin_folder, work):
    bin_folder, work = pathlib.Path(bin_folder), pathlib.Path(work)
    chart = work / "chart/waybill"
    run(sys.executable, "-B", ROOT / "compose/deploy/helm/generate.py", bin_folder / "kubectl", chart)
    helm = bin_folder / "helm"
    run(helm, "lint", "--strict", "--quiet", chart)
    base = run(bin_folder / "kubectl", "kustomize", ROOT / "compose/deploy/kubernetes/base")
    problems = list(differences(objects(run(helm, "template", "waybill", chart)), objects(base)))
    values = ",".join(f"{name}={value}" for name, value in EVERYTHING.items())
    text = run(helm, "template", "waybill", chart, "--set", values)
    (work / "chart.yaml").write_text(text)
    everything = objects(text)
    problems += watched(everything)
    for wanted in ("registry.example.com/waybill-gateway:2.3.4", "secretName: other-tokens", "WAYBILL_LOG_LEVEL",
                   "imagePullSecrets", "secretName: other-connections"):
        if wanted not in text:
            problems.append(f"a value has no effect: {wanted}")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
