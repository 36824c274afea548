"""Checks rendered manifests: schemas of several versions of Kubernetes, and that what an object names is there.

python manifests.py FILE...
"""
import pathlib
import sys

import jsonschema
import kubernetes_validate
import yaml

VERSIONS = ("1.33", "1.35", "1.37")
TEXT, COUNT, MAP = {"type": "string"}, {"type": "integer", "minimum": 1}, {"type": "object"}


def members(required, optional=None):
    """Returns the schema of an object that has these members and no others."""
    return {"type": "object", "additionalProperties": False, "required": list(required),
            "properties": {"apiVersion": TEXT, "kind": TEXT, **required, **(optional or {})}}


def items(schema):
    return {"type": "array", "minItems": 1, "items": schema}


# What we use of resources that Kubernetes itself does not know.
# Source: the references of KEDA (keda.sh/v1alpha1) and of the Prometheus Operator (monitoring.coreos.com/v1)
CUSTOM = {
    "ScaledObject": members({
        "metadata": MAP,
        "spec": members(
            {"scaleTargetRef": members({"name": TEXT}),
             "triggers": items({"oneOf": [
                 members({"type": {"const": "cpu"}, "metricType": {"enum": ["AverageValue", "Utilization"]},
                          "metadata": members({"value": TEXT})}),
                 members({"type": {"const": "prometheus"},
                          "metadata": members({"serverAddress": TEXT, "query": TEXT, "threshold": TEXT})})]})},
            {"minReplicaCount": COUNT, "maxReplicaCount": COUNT,
             "advanced": members({"horizontalPodAutoscalerConfig": members({"behavior": MAP})})})}),
    "PodMonitor": members({
        "metadata": MAP,
        "spec": members({
            "selector": members({"matchLabels": MAP}),
            "podMetricsEndpoints": items(members({"port": TEXT}, {"path": TEXT, "interval": TEXT}))},
            {"jobLabel": TEXT})}),
    "PrometheusRule": members({
        "metadata": MAP,
        "spec": members({"groups": items(members({"name": TEXT, "rules": items({"oneOf": [
            members({"record": TEXT, "expr": TEXT}, {"labels": MAP}),
            members({"alert": TEXT, "expr": TEXT}, {"for": TEXT, "labels": MAP, "annotations": MAP})]})},
            {"interval": TEXT}))})}),
}


def schema_problems(document):
    kind = document["kind"]
    if kind in CUSTOM:
        validator = jsonschema.Draft202012Validator(CUSTOM[kind])
        return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]
    problems = []
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
            problems.append(f"Kubernetes {version}: {error.message}")
    return problems


def template(document):
    if document["kind"] == "CronJob":
        return document["spec"]["jobTemplate"]["spec"]["template"]
    return document["spec"]["template"] if document["kind"] in ("Deployment", "StatefulSet", "Job") else None


def ports(pods):
    containers = [container for pod in pods for container in pod["spec"]["containers"]]
    return {port["name"] for container in containers for port in container.get("ports", [])}


class Objects:
    """The objects of one file, which are applied together.

    >>> pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"ports": [{"name": "http"}]}]}}
    >>> objects = Objects([{"kind": "Deployment", "metadata": {"name": "x"}, "spec": {"template": pod}}])
    >>> def of(kind, **spec): return list(objects.problems({"kind": kind, "metadata": {"name": "y"}, "spec": spec}))
    >>> of("Service", selector={"a": "b"}, ports=[{"targetPort": "http"}])
    []
    >>> of("Service", selector={"a": "b"}, ports=[{"targetPort": "https"}])
    ['no pod has the port https']
    >>> of("PodDisruptionBudget", selector={"matchLabels": {"a": "c"}})
    ["no pod has the labels {'a': 'c'}"]
    >>> of("HorizontalPodAutoscaler", scaleTargetRef={"kind": "StatefulSet", "name": "x"})
    ['there is no StatefulSet x']
    """

    def __init__(self, documents):
        self.documents = documents
        self.names = {(document["kind"], document["metadata"]["name"]) for document in documents}
        self.pods = [pod for pod in map(template, documents) if pod]

    def selected(self, labels):
        return [pod for pod in self.pods if labels.items() <= pod["metadata"]["labels"].items()]

    def named(self, labels, names):
        chosen = self.selected(labels)
        if not chosen:
            yield f"no pod has the labels {labels}"
        elif missing := {name for name in names if isinstance(name, str)} - ports(chosen):
            yield f"no pod has the port {', '.join(sorted(missing))}"

    def problems(self, document):
        kind, spec = document["kind"], document.get("spec", {})
        if kind == "Service":
            yield from self.named(spec["selector"], [port["targetPort"] for port in spec["ports"]])
        elif kind == "PodDisruptionBudget":
            yield from self.named(spec["selector"]["matchLabels"], [])
        elif kind == "PodMonitor":
            yield from self.named(spec["selector"]["matchLabels"], [one["port"] for one in spec["podMetricsEndpoints"]])
        elif kind == "NetworkPolicy":
            rules = spec.get("ingress", [])
            yield from self.named(spec["podSelector"].get("matchLabels", {}),
                                  [port["port"] for rule in rules for port in rule.get("ports", [])])
        elif kind in ("HorizontalPodAutoscaler", "ScaledObject"):
            target = spec["scaleTargetRef"]
            if (target["kind"], target["name"]) not in self.names:
                yield f"there is no {target['kind']} {target['name']}"
            # KEDA and the autoscaler would set the number that this sets back with each `apply`.
            if any("replicas" in other["spec"] for other in self.documents
                   if (other["kind"], other["metadata"]["name"]) == (target["kind"], target["name"])):
                yield f"{target['name']} is scaled and has a number of replicas"
        elif pod := template(document):
            yield from self.pod_problems(kind, document, pod["spec"])

    def pod_problems(self, kind, document, pod):
        labels = document["spec"].get("selector", {}).get("matchLabels", {})
        if not labels.items() <= template(document)["metadata"]["labels"].items():
            yield "its selector does not select its pods"
        for container in pod["containers"]:
            mounts = {mount["name"] for mount in container.get("volumeMounts", [])}
            if mounts != {volume["name"] for volume in pod.get("volumes", [])}:
                yield f"{container['name']}: volumes and mounts differ"
            for source in container.get("envFrom", []):
                if ("ConfigMap", source["configMapRef"]["name"]) not in self.names:
                    yield f"there is no ConfigMap {source['configMapRef']['name']}"
            for name, value in (("readOnlyRootFilesystem", True), ("allowPrivilegeEscalation", False),
                                ("capabilities", {"drop": ["ALL"]})):
                if container.get("securityContext", {}).get(name) != value:
                    yield f"{container['name']}: {name} is not {value}"
            if not {"requests", "limits"} <= container.get("resources", {}).keys():
                yield f"{container['name']}: no requests or no limits"
            for probe in ("startupProbe", "livenessProbe", "readinessProbe") if kind not in ("Job", "CronJob") else ():
                if container.get(probe, {}).get("httpGet", {}).get("port") not in ports([{"spec": pod}]):
                    yield f"{container['name']}: {probe} asks no port of its own"
        if not pod.get("securityContext", {}).get("runAsNonRoot"):
            yield "runs as root"
        if pod.get("automountServiceAccountToken") is not False:
            yield "has the token of a service account"


def main(paths):
    count = 0
    for path in map(pathlib.Path, paths):
        documents = list(yaml.safe_load_all(path.read_text()))
        objects = Objects(documents)
        for document in documents:
            found = schema_problems(document)
            # An object that breaks its schema may have no such members.
            for problem in found or objects.problems(document):
                count += 1
                print(f"{path.stem}: {document['kind']} {document['metadata']['name']}: {problem}")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
