"""Compares the configuration keys and time limits of manifests, units and composition with the table of keys."""
import pathlib
import re
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
# The roles that keep accepting for WAYBILL_DRAIN_SECONDS after SIGTERM.
DRAINING = ("gateway", "checkout")
# After the last deadline of a program: time to exit before SIGKILL.
SPARE_SECONDS = 5


def table(document):
    """Returns the keys with their defaults, as far as a row has one.

    >>> table("| `WAYBILL_A`, `WAYBILL_B` | `1`, `x` (seconds) | all |\\n| `WAYBILL_C` | none | all |\\n| other |")
    {'WAYBILL_A': '1', 'WAYBILL_B': 'x', 'WAYBILL_C': None}
    """
    keys = {}
    for line in document.splitlines():
        if not line.startswith("| `WAYBILL_"):
            continue
        cells = line.split("|")
        names = re.findall(r"`(WAYBILL_\w+)`", cells[1])
        values = re.findall(r"`([^`]+)`", cells[2]) if cells[2].startswith(" `") else []
        keys.update((name, values[index] if index < len(values) else None) for index, name in enumerate(names))
    return keys


def limit(role, values, defaults):
    """Returns the seconds from SIGTERM to SIGKILL that a role needs.

    >>> limit("gateway", {"WAYBILL_DRAIN_SECONDS": "4"}, {"WAYBILL_SHUTDOWN_SECONDS": "20"})
    29
    >>> limit("packager", {"WAYBILL_DRAIN_SECONDS": "4"}, {"WAYBILL_SHUTDOWN_SECONDS": "20"})
    25
    """
    both = {**defaults, **values}
    draining = int(both["WAYBILL_DRAIN_SECONDS"]) if role in DRAINING else 0
    return draining + int(both["WAYBILL_SHUTDOWN_SECONDS"]) + SPARE_SECONDS


def variables(text):
    """Returns the `KEY=value` lines of a file, or of the `Environment=` lines of a unit.

    >>> variables("# WAYBILL_X=1\\nWAYBILL_A=1\\nEnvironment=WAYBILL_B=%d/b WAYBILL_C=3\\n")
    {'WAYBILL_A': '1', 'WAYBILL_B': '%d/b', 'WAYBILL_C': '3'}
    """
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return dict(re.findall(r"(WAYBILL_\w+)=(\S*)", "\n".join(lines)))


def seconds(text):
    """Returns a duration of a composition in seconds.

    >>> seconds("1m5s"), seconds("35s")
    (65, 35)
    """
    parts = re.fullmatch(r"(?:(\d+)m)?(?:(\d+)s)?", text)
    return int(parts[1] or 0) * 60 + int(parts[2] or 0)


def kubernetes():
    """Yields the place of each role with its variables and its seconds to SIGKILL."""
    folder = ROOT / "compose/deploy/kubernetes"
    values = variables((folder / "base/waybill.env").read_text())
    for path in sorted(folder.glob("base/*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if document["kind"] in ("Deployment", "StatefulSet") and document["metadata"]["name"] != "any":
                pod = document["spec"]["template"]["spec"]
                own = {entry["name"]: "" for entry in pod["containers"][0].get("env", [])}
                role = document["metadata"]["name"].removeprefix("waybill-")
                yield path, role, {**values, **own}, pod["terminationGracePeriodSeconds"]
    for path in sorted(folder.rglob("kustomization.yaml")):
        for generator in yaml.safe_load(path.read_text()).get("configMapGenerator", []):
            yield path, None, variables("\n".join(generator.get("literals", []))), None


def systemd():
    folder = ROOT / "compose/deploy/systemd"
    common = variables((folder / "waybill-.service.d/common.conf").read_text())
    shared = variables((folder / "waybill.env").read_text())
    for path in sorted(folder.glob("*.service")):
        text = path.read_text()
        stop = int(re.search(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)[1])
        role = path.stem.removeprefix("waybill-")
        # A command of a timer is no role.
        yield path, None if path.with_suffix(".timer").exists() else role, {
            **common, **variables(text), **shared}, stop


def composition():
    path = ROOT / "compose/deploy/compose.yaml"
    if not path.exists():
        return
    for name, service in yaml.safe_load(path.read_text())["services"].items():
        given = service.get("environment") or {}
        values = given if isinstance(given, dict) else dict(entry.split("=", 1) for entry in given)
        values = {key: value for key, value in values.items() if key.startswith("WAYBILL_")}
        stop = service.get("stop_grace_period")
        role = name if name in (*DRAINING, "packager", "ingest", "pusher") else None
        yield path, role, values, seconds(stop) if stop else 10


def absent():
    """Returns a sentence for each file that the composition mounts and that is not there: Docker makes it a folder."""
    path = ROOT / "compose/deploy/compose.yaml"
    mounts = [mount.split(":")[0] for service in yaml.safe_load(path.read_text())["services"].values()
              for mount in service.get("volumes", []) if mount.startswith(".")]
    return [f"{path.relative_to(ROOT)}: there is no {mount}" for mount in mounts if not (path.parent / mount).exists()]


def main():
    defaults = table((ROOT / "Shared/Operations/README.md").read_text())
    problems, roles = absent(), []
    for path, role, values, stop in [*kubernetes(), *systemd(), *composition()]:
        place = path.relative_to(ROOT)
        problems += [f"{place}: {key} is not in the table of Shared/Operations/README.md"
                     for key in values if key not in defaults]
        if role:
            roles.append(role)
            needed = limit(role, values, defaults)
            if stop != needed:
                problems.append(f"{place}: {role} is killed after {stop} s, and its keys need {needed} s")
    if sorted(set(roles)) != ["checkout", "gateway", "ingest", "packager", "pusher"] or len(roles) < 10:
        problems.append(f"roles were not found: {roles}")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
