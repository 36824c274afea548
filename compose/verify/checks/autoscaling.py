"""Tries the queries that scale workers, of compose/deploy/kubernetes, with promtool, and what KEDA makes of their values.

Usage: autoscaling.py WORK_FOLDER [SAMPLES]

SAMPLES: what `compose/bench fleet --samples SAMPLES` has recorded; fleet.jsonl is an example, of 60,000 orders. A
backlog has to add pods, never too many, and its end has to remove them.
"""
import json
import math
import pathlib
import re
import subprocess
import sys

import yaml

HERE = pathlib.Path(__file__).resolve().parent
WORKERS = HERE.parents[1] / "deploy" / "kubernetes" / "autoscaling" / "workers.yaml"
# Seconds between two recorded samples.
SAMPLE = 1
# The HorizontalPodAutoscaler's defaults: seconds between two looks, the part by which the value may differ from what
# the pods are for, and what one look may add: so many pods or so many times those that there are.
LOOK, TOLERANCE, ADDED, TIMES = 15, 0.1, 4, 2


def replicas(value, spec, pods=None):
    """
    Returns the number of pods for a trigger of type AverageValue, in place of these many, or of the least.

    Source: Kubernetes, HorizontalPodAutoscaler, "Algorithm details"; KEDA gives it the value as an external metric

    >>> spec = {"minReplicaCount": 2, "maxReplicaCount": 16, "triggers": [{"metadata": {"threshold": "10000"}}]}
    >>> [replicas(value, spec) for value in (0, 1, 10001, 20000, 21999, 22001, 45000, 1e7)]
    [2, 2, 2, 2, 2, 3, 5, 16]
    >>> replicas(28000, spec, 3), replicas(26000, spec, 3), replicas(19000, spec, 3)
    (3, 3, 2)
    """
    least, threshold = spec["minReplicaCount"], float(spec["triggers"][0]["metadata"]["threshold"])
    pods = pods or least
    wanted = pods if abs(value / threshold / pods - 1) <= TOLERANCE else math.ceil(value / threshold)
    return max(least, min(spec["maxReplicaCount"], wanted))


def scaled(values, spec):
    """
    Returns the number of pods after each look at a value.

    Source: Kubernetes, HorizontalPodAutoscaler, "Configurable scaling behavior"
    """
    rules = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]
    looks, (policy,) = rules["stabilizationWindowSeconds"] // LOOK, rules["policies"]
    pods, wishes, removed, found = spec["minReplicaCount"], [], -policy["periodSeconds"], []
    for index, value in enumerate(values):
        wishes = [*wishes, replicas(value, spec, pods)][-looks:]
        if wishes[-1] > pods:
            pods = min(wishes[-1], max(pods + ADDED, pods * TIMES))
        elif max(wishes) < pods and index * LOOK - removed >= policy["periodSeconds"]:
            pods, removed = max(*wishes, pods - policy["value"]), index * LOOK
        found.append(pods)
    return found


def unworked(pod, topic, value):
    return {"series": f'waybill_unworked_records{{pod="{pod}",topic="waybill.{topic}"}}', "values": value}


def waiting(brand, value, failed):
    return [
        {"series": f'waybill_waiting_records{{pod="waybill-packager-0",brand="{brand}"}}', "values": value},
        {"series": f'waybill_brand_load_failed{{pod="waybill-packager-0",brand="{brand}"}}', "values": failed}]


def credential(name, value):
    return {"series": f'waybill_push_credential_state{{pod="waybill-pusher-0",credential="{name}"}}', "values": value}


# The trigger, the state, its series, the value of the query, and the pods.
CASES = (
    ("waybill-packager", "nothing is scraped yet", [], 0, 2),
    # The committed lag of this state is 10,001.
    ("waybill-packager", "one parked change, 10,000 after it are done",
     [unworked("waybill-packager-0", "order-changes", "1")], 1, 2),
    ("waybill-packager", "a backlog of two workers",
     [unworked("waybill-packager-0", "order-changes", "25000"),
      unworked("waybill-packager-1", "order-changes", "20000"), *waiting("order.shop", "15000", "0")], 45000, 5),
    ("waybill-packager", "a brand that cannot be loaded",
     [unworked("waybill-packager-0", "order-changes", "900100"), *waiting("order.shop", "900000", "1")], 100, 2),
    ("waybill-packager", "the work of pushers",
     [unworked("waybill-packager-0", "order-changes", "5"), unworked("waybill-pusher-0", "orders", "1000000")], 5, 2),
    ("waybill-pusher", "nothing is scraped yet", [], 0, 2),
    ("waybill-pusher", "a sale, with one of two credentials refused",
     [unworked("waybill-pusher-0", "orders", "180000"), unworked("waybill-pusher-0", "registrations", "11000"),
      unworked("waybill-pusher-0", "push-pending", "1000000"), credential("a", "0"), credential("b", "2")],
     191000, 4),
    ("waybill-pusher", "APNs is away", [unworked("waybill-pusher-0", "orders", "80000"), credential("a", "1")], 0, 2),
)


def work(series, index):
    """Returns the records of a sample that are not finished, without those of brands that no worker can load."""
    found = {}
    for words, values in series.items():
        name, brand = words.partition("{")[0], re.search(r'brand="([^"]*)"', words)
        found.setdefault(name, []).append((brand and brand[1], values[index] or 0))
    failed = {"other", *(brand for brand, value in found.get("waybill_brand_load_failed", []) if value == 1)}
    waits = sum(value for brand, value in found.get("waybill_waiting_records", []) if brand in failed)
    return sum(value for _, value in found["waybill_unworked_records"]) - waits


def replay(run, spec):
    """Returns the test of the query for one recorded run, what is wrong with the pods, and their history as text."""
    looks = range(0, len(run["seconds"]), LOOK // SAMPLE)
    values = [work(run["series"], index) for index in looks]
    test = {
        "name": f"recorded: {run['workers']} packagers", "interval": f"{SAMPLE}s",
        "input_series": [
            {"series": series, "values": " ".join("_" if value is None else f"{value:.0f}" for value in values)}
            for series, values in run["series"].items()],
        "promql_expr_test": [
            {"expr": spec["triggers"][0]["metadata"]["query"], "eval_time": f"{index * SAMPLE}s",
             "exp_samples": [{"labels": "{}", "value": value}]} for index, value in zip(looks, values)]}
    least, most = spec["minReplicaCount"], spec["maxReplicaCount"]
    rules = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]
    # The rest as it is at the end of the recording, until all pods could be gone.
    rest = rules["stabilizationWindowSeconds"] + most * rules["policies"][0]["periodSeconds"]
    pods = scaled(values + values[-1:] * (rest // LOOK), spec)
    wrong = [sentence for sentence, holds in (
        (f"{max(values):.0f} records are no backlog: record more --orders", replicas(max(values), spec) > least),
        (f"{values[-1]:.0f} records are left at the end", replicas(values[-1], spec) == least),
        ("no pod is added", max(pods) > least), (f"{max(pods)} pods are more than {most}", max(pods) <= most),
        ("pods go before the backlog does", pods[:len(values)] == sorted(pods[:len(values)])),
        (f"{pods[-1]} pods stay and not {least}", pods[-1] == least)) if not holds]
    moments = [(0, least), *((index * LOOK, now) for index, now in enumerate(pods) if [least, *pods][index] != now)]
    return test, wrong, (
        f"{test['name']}: records {', '.join(f'{value:.0f}' for value in values)} each {LOOK} s; "
        f"pods {', '.join(f'{now} from {seconds} s' for seconds, now in moments)}")


def main(folder, samples=HERE / "fleet.jsonl"):
    objects = {item["metadata"]["name"]: item["spec"] for item in yaml.safe_load_all(WORKERS.read_text())}
    failed = False
    tests = []
    for name, state, series, value, pods in CASES:
        spec = objects[name]
        found = replicas(value, spec)
        if found != pods:
            failed = True
            print(f"{name}, {state}: {found} pods and not {pods}")
        tests.append({
            "name": f"{name}: {state}", "interval": "15s", "input_series": series,
            "promql_expr_test": [{
                "expr": spec["triggers"][0]["metadata"]["query"], "eval_time": "0s",
                "exp_samples": [{"labels": "{}", "value": value}]}]})
    for line in pathlib.Path(samples).read_text().splitlines():
        test, wrong, history = replay(json.loads(line), objects["waybill-packager"])
        tests.append(test)
        failed = failed or bool(wrong)
        print("; ".join([history, *wrong]))
    path = pathlib.Path(folder) / "autoscaling.test.yaml"
    path.write_text(yaml.safe_dump({"evaluation_interval": f"{SAMPLE}s", "tests": tests}))
    return subprocess.run(["promtool", "test", "rules", path], check=False).returncode or int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
