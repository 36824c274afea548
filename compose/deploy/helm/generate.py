"""Writes the chart into a folder: templates made of the kustomize base and its components, and the files beside this.

Usage: generate.py KUBECTL FOLDER

An object of the base becomes a template in which what installations differ in is a value; everything else is as it is
there. `compose/verify/checks/chart.py` holds what helm renders against the base.
"""
import pathlib
import re
import shutil
import subprocess
import sys

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
KUBERNETES = HERE.parent / "kubernetes"
SCALED = ("gateway", "checkout", "packager", "pusher")
VOLUMES = ("brands", "merchants", "sources")


def fill(text):
    """Replaces the marks of a template's YAML by what helm reads.

    >>> print(fill("a: '@text .Values.a'\\nb:\\n  c: '@tree .Values.c'\\n  d: '@some .Values.d'"), end="")
    a: {{ .Values.a }}
    b:
      c:
        {{- toYaml .Values.c | nindent 4 }}
      {{- with .Values.d }}
      d:
        {{- toYaml . | nindent 4 }}
      {{- end }}
    >>> print(fill("  e: '@unless .Values.s .Values.e'"), end="")
      {{- if not .Values.s }}
      e: {{ .Values.e }}
      {{- end }}
    """
    lines = []
    for line in text.splitlines():
        match = re.fullmatch(r"( *(?:- )?)(\w+): '@(text|tree|some|unless) (.+)'", line)
        if not match:
            lines.append(line)
            continue
        indent, key, how, value = match.groups()
        value = value.replace("''", "'")
        deep = len(indent) + 2
        if how == "text":
            lines.append(f"{indent}{key}: {{{{ {value} }}}}")
        elif how == "tree":
            lines += [f"{indent}{key}:", f"{' ' * deep}{{{{- toYaml {value} | nindent {deep} }}}}"]
        elif how == "some":
            lines += [f"{indent}{{{{- with {value} }}}}", f"{indent}{key}:",
                      f"{' ' * deep}{{{{- toYaml . | nindent {deep} }}}}", f"{indent}{{{{- end }}}}"]
        else:
            condition, value = value.split(" ", 1)
            lines += [f"{indent}{{{{- if not {condition} }}}}", f"{indent}{key}: {{{{ {value} }}}}",
                      f"{indent}{{{{- end }}}}"]
    return "\n".join(lines) + "\n"


def mark_pod(pod):
    """Puts marks into the part of a pod that installations differ in."""
    pod["imagePullSecrets"] = "@some .Values.image.pullSecrets"
    for container in pod["containers"]:
        name = container["image"].split(":")[0]
        container["image"] = f'@text printf "%s{name}:%s" (include "waybill.registry" .) (include "waybill.tag" .)'
        for source in container["envFrom"]:
            source["configMapRef"]["name"] = '@text include "waybill.config" .'
    for volume in pod["volumes"]:
        if volume["name"] in VOLUMES:
            volume["projected"]["sources"] = f"@tree .Values.files.{volume['name']}"
        else:
            volume["secret"]["secretName"] = f"@text .Values.secrets.{volume['name']}"


def mark(document):
    """Puts marks into an object. Returns the value without which it is left out, or nothing."""
    kind, name, spec = document["kind"], document["metadata"]["name"], document.get("spec", {})
    role = name.removeprefix("waybill-")
    if kind in ("Deployment", "StatefulSet"):
        replicas = f".Values.{role}.replicas"
        spec["replicas"] = f"@unless .Values.autoscaling.enabled {replicas}" if role in SCALED else f"@text {replicas}"
        pod = spec["template"]["spec"]
        pod["containers"][0]["resources"] = f"@tree .Values.{role}.resources"
        mark_pod(pod)
    elif kind == "Job":
        mark_pod(spec["template"]["spec"])
        # A Job cannot be changed: each upgrade makes it anew.
        document["metadata"]["annotations"] = {
            "helm.sh/hook": "post-install,post-upgrade",
            "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded"}
        return ".Values.topics.enabled"
    elif kind == "CronJob":
        mark_pod(spec["jobTemplate"]["spec"]["template"]["spec"])
        return ".Values.retention.enabled"
    elif kind == "NetworkPolicy":
        return ".Values.networkPolicy.enabled"
    elif kind == "PodMonitor":
        return ".Values.monitoring.podMonitor"
    elif kind == "HorizontalPodAutoscaler":
        spec |= {f"{end}Replicas": f"@text .Values.autoscaling.{role}.{end}" for end in ("min", "max")}
        return ".Values.autoscaling.enabled"
    elif kind == "ScaledObject":
        spec |= {f"{end}ReplicaCount": f"@text .Values.autoscaling.{role}.{end}" for end in ("min", "max")}
        for trigger in spec["triggers"]:
            trigger["metadata"]["serverAddress"] = "@text .Values.autoscaling.prometheus"
        return ".Values.autoscaling.enabled"
    return None


def template(document):
    """Returns the text of an object's template."""
    condition = mark(document)
    text = fill(yaml.safe_dump(document, sort_keys=False, width=1 << 20))
    return f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n" if condition else text


def objects(kubectl):
    """Yields the objects of the base, and those of what is added to it."""
    shown = subprocess.run([kubectl, "kustomize", KUBERNETES / "base"], check=True, capture_output=True, text=True)
    yield from yaml.safe_load_all(shown.stdout)
    for file in ("autoscaling/gateway", "autoscaling/workers", "topics/job", "retention/cronjob",
                 "monitoring/pod-monitor"):
        for document in yaml.safe_load_all((KUBERNETES / f"{file}.yaml").read_text()):
            document["metadata"].setdefault("labels", {})["app.kubernetes.io/part-of"] = "waybill"
            yield document


def main(kubectl, folder):
    folder = pathlib.Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(HERE / "templates", folder / "templates")
    shutil.copy(HERE / "values.yaml", folder)
    for name in ("alerts", "dashboards"):
        shutil.copytree(HERE.parents[1] / "operate" / name, folder / name)
    version = re.search(r'let number = "(.*)"', (ROOT / "Shared/Model/ProgramVersion.swift").read_text())[1]
    (folder / "Chart.yaml").write_text(yaml.safe_dump({
        "apiVersion": "v2", "name": "waybill", "type": "application", "version": version, "appVersion": version,
        "description": "Order tracking in Apple Wallet: packager, gateway, checkout, pusher, ingest"}, sort_keys=False))
    for document in objects(kubectl):
        # Its content is that of the values.
        if document["kind"] != "ConfigMap":
            name = f"{document['metadata']['name'].removeprefix('waybill-')}-{document['kind'].lower()}.yaml"
            (folder / "templates" / name).write_text(template(document))


if __name__ == "__main__":
    main(*sys.argv[1:])
