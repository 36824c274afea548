"""Tries the queries of compose/kubernetes/autoscaling/workers.yaml with promtool, and what KEDA makes of their values.

Usage: autoscaling.py WORK_FOLDER
"""
import math
import pathlib
import subprocess
import sys

import yaml

WORKERS = pathlib.Path(__file__).parent.parent / "kubernetes" / "autoscaling" / "workers.yaml"


def replicas(value, threshold, least, most):
    """
    Returns the number of pods for a trigger of type AverageValue.

    Source: Kubernetes, HorizontalPodAutoscaler, "Algorithm details"; KEDA gives it the value as an external metric

    >>> [replicas(value, 10000, 2, 16) for value in (0, 1, 10001, 20000, 20001, 45000, 1e7)]
    [2, 2, 2, 2, 3, 5, 16]
    """
    return max(least, min(most, math.ceil(value / threshold)))


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


def main(folder):
    objects = {item["metadata"]["name"]: item["spec"] for item in yaml.safe_load_all(WORKERS.read_text())}
    failed = False
    tests = []
    for name, state, series, value, pods in CASES:
        spec = objects[name]
        trigger = spec["triggers"][0]["metadata"]
        found = replicas(value, float(trigger["threshold"]), spec["minReplicaCount"], spec["maxReplicaCount"])
        if found != pods:
            failed = True
            print(f"{name}, {state}: {found} pods and not {pods}")
        tests.append({
            "name": f"{name}: {state}", "interval": "15s", "input_series": series,
            "promql_expr_test": [{
                "expr": trigger["query"], "eval_time": "0s", "exp_samples": [{"labels": "{}", "value": value}]}]})
    path = pathlib.Path(folder) / "autoscaling.test.yaml"
    path.write_text(yaml.safe_dump({"tests": tests}))
    return subprocess.run(["promtool", "test", "rules", path], check=False).returncode or int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
