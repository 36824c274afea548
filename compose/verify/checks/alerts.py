"""Tries each rule of compose/operate with promtool, in a state in which it fires and in one in which it is silent, and
parses the queries of the dashboards there.

Usage: alerts.py WORK_FOLDER

Each rule has a runbook of its own name, which is complete, and names metrics only that the rules or the documents
name.
"""
import json
import pathlib
import re
import subprocess
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2] / "operate"
HEADINGS = ("Meaning", "Impact", "Diagnosis", "Fix", "If nothing is done")
# The minute of judgement, after each `for`, and the minutes between samples.
NOW, STEP = 200, 2


def gauge(name, value):
    return (f"waybill_{name}", f"{value}x{NOW // STEP}")


def counter(name, each_minute):
    return (f"waybill_{name}", f"0+{each_minute * STEP}x{NOW // STEP}")


def late(name, limit, share):
    """Returns the series of a histogram of which a share, in thousandths, is above a limit."""
    return [counter(f'{name}_bucket{{le="{limit}"}}', 1000 - share), counter(f'{name}_bucket{{le="+Inf"}}', 1000),
            counter(f"{name}_count", 1000)]


def fetches(failed):
    return [counter('responses_total{endpoint="package",status="200"}', 10000 - failed),
            counter('responses_total{endpoint="package",status="503"}', failed),
            # These are no fetches.
            counter('responses_total{endpoint="log",status="500"}', 10000)]


def requests(failed):
    labels = 'route="payment",merchant="shop"'
    return [counter(f'checkout_requests_total{{{labels},outcome="done"}}', 100 - failed),
            counter(f'checkout_requests_total{{{labels},outcome="failed"}}', failed)]


def connections(queued, open):
    labels = 'instance="a",credential="c",host="h"'
    return [gauge(f"apns_queued{{{labels}}}", queued), gauge(f'apns_connections{{{labels},state="open"}}', open)]


def refusals(count):
    labels = 'credential="c",host="h"'
    return [counter(f'apns_requests_total{{{labels},status="200",reason=""}}', 1000 - count),
            counter(f'apns_requests_total{{{labels},status="400",reason="BadTopic"}}', count)]


def updates(each_minute):
    return counter('fetched_update_age_seconds_count{brand="b"}', each_minute)


def told(notified, fetched):
    return [counter('pushes_total{credential="b",host="h",outcome="delivered"}', notified), updates(fetched),
            counter('adoption_total{brand="b",step="added"}', 1)]


def complaints(count, fetched):
    return [counter('device_complaints_total{brand="b",class="signature"}', count), updates(fetched)]


def expiry(certificate, days):
    return [gauge(f'certificate_expiry_timestamp_seconds{{owner="o",certificate="{certificate}"}}', days * 86400)]


def mapped(mapped, ignored, heartbeats=0):
    """
    Returns the records of a source: 20 are mapped and 20 ignored each step, and these numbers in the last 40 minutes.
    heartbeats: those of the ignored ones that are.
    """
    def series(labels, first, then):
        return (f'waybill_ingest_{labels}}}',
                f"0+{first}x{NOW // STEP - 20} {first * (NOW // STEP - 20) + then}+{then}x19")
    return [series('records_total{source="s",outcome="mapped"', 20, mapped),
            series('records_total{source="s",outcome="ignored"', 20, ignored),
            series('ignored_total{source="s",kind="unmapped"', 20, ignored - heartbeats),
            series('ignored_total{source="s",kind="heartbeat"', 0, heartbeats)]


def omitted(before, then):
    """Returns the members that are left out of 40 records each step: these numbers, the second in the last 40 minutes."""
    return [("waybill_ingest_omitted_total{source=\"s\",member=\"m\"}",
             f"0+{before}x{NOW // STEP - 20} {before * (NOW // STEP - 20) + then}+{then}x19"),
            ("waybill_ingest_records_total{source=\"s\",outcome=\"mapped\"}", f"0+40x{NOW // STEP}")]


# The series of a state in which each alert fires, and of one in which it is silent.
CASES = {
    "WaybillDown": ([("up{job=\"waybill-gateway\"}", f"0x{NOW // STEP}")], [("up{job=\"node\"}", f"0x{NOW // STEP}")]),
    "WaybillUpstreamDown": ([gauge('upstream_up{job="j",upstream="redis"}', 0)],
                            [gauge('upstream_up{job="j",upstream="redis"}', 1)]),
    "WaybillReloadFailed": ([gauge('reload_ok{file="tls"}', 0)], [gauge('reload_ok{file="tls"}', 1)]),
    "WaybillBrandLoadFailed": ([gauge('brand_load_failed{brand="b"}', 1)], [gauge('brand_load_failed{brand="b"}', 0)]),
    "WaybillCertificateEnds": (expiry("signing", 20), expiry("signing", 30) + expiry("push", 1)),
    "WaybillRedisFault": ([gauge('redis_fault{fault="f"}', 1)], [gauge('redis_fault{fault="f"}', 0)]),
    "WaybillRedisFull": ([gauge("redis_memory_bytes", 95), gauge("redis_memory_limit_bytes", 100)],
                         [gauge("redis_memory_bytes", 95), gauge("redis_memory_limit_bytes", 0)]),
    "WaybillCommitsFail": ([counter('commit_failures_total{job="j"}', 2)],
                           # A roll-out: while a worker comes or goes, the others commit nothing.
                           [('waybill_commit_failures_total{job="j"}', f"0x{NOW // STEP - 6} 10 20x5")]),
    "WaybillPartitionsLost": ([counter('rebalances_total{job="j",kind="lost"}', 1)],
                              [counter('rebalances_total{job="j",kind="revoked"}', 9)]),
    "WaybillVersionsDiffer": ([gauge('build_info{job="j",version="1",commit="a"}', 1),
                               gauge('build_info{job="j",version="1",commit="b"}', 1)],
                              [gauge('build_info{job="j",version="1",commit="a"}', 1),
                               gauge('build_info{job="k",version="1",commit="b"}', 1)]),
    "WaybillLogLinesDropped": ([counter('log_lines_dropped_total{job="j"}', 1)],
                               [counter('log_lines_dropped_total{job="j"}', 0)]),
    "WaybillChangesLate": (late("change_age_seconds", "5.0", 100), late("change_age_seconds", "5.0", 20)),
    "WaybillChangesLateSlowly": (late("change_age_seconds", "5.0", 40), late("change_age_seconds", "5.0", 20)),
    "WaybillViewIncomplete": ([gauge('view_complete{instance="a"}', 0)],
                              [gauge('view_complete{instance="a"}', 0), gauge('view_complete{instance="b"}', 1)]),
    "WaybillDeadLetters": ([counter("dead_letters_total", 1)], [counter("dead_letters_total", 0)]),
    "WaybillDeadLettersOld": ([gauge("dead_letters_oldest_seconds", 300000)], [gauge("dead_letters_oldest_seconds", 0)]),
    "WaybillPackagerQuiet": ([gauge('worker_quiet_seconds{job="waybill-packager"}', 400)],
                             [gauge('worker_quiet_seconds{job="waybill-pusher"}', 400)]),
    "WaybillPackagerLags": ([gauge('unworked_records{job="waybill-packager",topic="t",pod="a"}', 6000),
                             gauge('unworked_records{job="waybill-packager",topic="t",pod="b"}', 6000)],
                            [gauge('unworked_records{job="waybill-packager",topic="t",pod="a"}', 6000)]),
    "WaybillOrdersParked": ([gauge("parked_oldest_seconds", 700)], [gauge("parked_oldest_seconds", 500)]),
    "WaybillUnknownOrders": ([gauge("unknown_orders_waiting", 1001)], [gauge("unknown_orders_waiting", 1000)]),
    "WaybillWaitingRecordsLost": ([counter("waiting_records_lost_total", 1)], [counter("waiting_records_lost_total", 0)]),
    "WaybillPicturesWait": ([gauge("pictures_waiting", 101)], [gauge("pictures_waiting", 100)]),
    "WaybillDocumentsWait": ([gauge("own_documents_waiting", 101)], [gauge("own_documents_waiting", 100)]),
    "WaybillDocumentsFull": ([gauge('own_document_bytes{brand="b"}', 81), gauge('own_document_limit_bytes{brand="b"}', 100)],
                             [gauge('own_document_bytes{brand="b"}', 81), gauge('own_document_limit_bytes{brand="b"}', 110)]),
    "WaybillOrdersDiffer": ([gauge('orders_not_cooled{reason="differs"}', 1)],
                            [gauge('orders_not_cooled{reason="unplaced"}', 9)]),
    "WaybillPartitionsBehind": ([gauge('topic_partitions_behind{topic="t"}', 1)],
                                [gauge('topic_partitions_behind{topic="t"}', 0)]),
    "WaybillPartitionsAdded": ([gauge('topic_partitions_added{topic="t"}', 1)],
                               [gauge('topic_partitions_added{topic="t"}', 0)]),
    "WaybillSourceMapsLess": (mapped(4, 36), mapped(4, 40, heartbeats=36)),
    "WaybillSourceOmits": (omitted(1, 4), omitted(4, 4)),
    "WaybillFetchesFail": (fetches(200), fetches(50)),
    "WaybillFetchesFailSlowly": (fetches(80), fetches(50)),
    "WaybillGatewaySlow": (
        [counter('request_seconds_bucket{endpoint="register",le="0.5"}', 90),
         counter('request_seconds_bucket{endpoint="register",le="1.0"}', 100),
         counter('request_seconds_bucket{endpoint="register",le="+Inf"}', 100)],
        # A held fetch takes its time.
        [counter('request_seconds_bucket{endpoint="package",le="0.5"}', 90),
         counter('request_seconds_bucket{endpoint="package",le="+Inf"}', 100)]),
    "WaybillConnectionsRefused": ([counter('connections_refused_total{job="j",reason="r"}', 100)],
                                  [counter('connections_refused_total{job="j",reason="r"}', 10)]),
    "WaybillHandshakesFail": ([counter('tls_handshakes_failed_total{job="j"}', 400)],
                              [counter('tls_handshakes_failed_total{job="j"}', 100)]),
    "WaybillRegistrationsRefused": ([counter('registrations_refused_total{reason="r"}', 100)],
                                    [counter('registrations_refused_total{reason="r"}', 10)]),
    "WaybillCheckoutFails": (requests(6), requests(4)),
    "WaybillCheckoutChangesFail": ([counter('checkout_changes_total{outcome="failed"}', 1)],
                                   [counter('checkout_changes_total{outcome="published"}', 9)]),
    "WaybillWebhookRefused": (
        [counter('webhook_events_total{source="s",outcome="body_too_large"}', 1),
         counter('webhook_events_total{source="s",outcome="taken"}', 9)],
        [counter('webhook_events_total{source="s",outcome="signature_refused"}', 9),
         counter('webhook_events_total{source="s",outcome="taken"}', 9)]),
    "WaybillMerchantLoadFailed": ([gauge('merchant_load_failed{merchant="m"}', 1)],
                                  [gauge('merchant_load_failed{merchant="m"}', 0)]),
    "WaybillNotificationsLate": (late("push_age_seconds", "30.0", 200), late("push_age_seconds", "30.0", 50)),
    "WaybillNotificationsLateSlowly": (late("push_age_seconds", "30.0", 80), late("push_age_seconds", "30.0", 50)),
    "WaybillPushCredentialStopped": ([gauge('push_credential_state{credential="c"}', 2)],
                                     [gauge('push_credential_state{credential="c"}', 1)]),
    "WaybillPushCredentialIll": ([gauge('push_credential_state{credential="c"}', 1)],
                                 [gauge('push_credential_state{credential="c"}', 0)]),
    "WaybillPushBreakerOpen": ([gauge('push_breaker_open{credential="c"}', 1)],
                               [gauge('push_breaker_open{credential="c"}', 0)]),
    "WaybillPushNoConnection": (connections(1, 0), connections(1, 1)),
    "WaybillPushQueueOld": ([gauge('apns_queue_oldest_seconds{credential="c"}', 16)],
                            [gauge('apns_queue_oldest_seconds{credential="c"}', 15)]),
    "WaybillPushRefused": (refusals(60), refusals(40)),
    "WaybillPushDeadLetters": ([counter('push_dead_letters_total{credential="c",code="d"}', 1)],
                               [counter('push_dead_letters_total{credential="c",code="d"}', 0)]),
    "WaybillUpdatesLate": (late("fetched_update_age_seconds", "60.0", 200), late("fetched_update_age_seconds", "60.0", 100)),
    "WaybillUpdatesLateSlowly": (late("fetched_update_age_seconds", "60.0", 80), late("fetched_update_age_seconds", "60.0", 50)),
    "WaybillUpdatesUnfetched": (told(20, 1), told(20, 10)),
    "WaybillWalletRefuses": (complaints(2, 10), complaints(2, 1000)),
    "WaybillPushPending": ([gauge('push_pending{credential="c"}', 10001)], [gauge('push_pending{credential="c"}', 10000)]),
    "WaybillPushConnectionsFlap": ([counter('apns_disconnected_total{instance="a",credential="c",reason="r"}', 3)],
                                   [counter('apns_disconnected_total{instance="a",credential="c",reason="r"}', 1)]),
    "WaybillPushCertificateEnds": (expiry("push", 20), expiry("push", 30)),
    "WaybillPusherQuiet": ([gauge('worker_quiet_seconds{job="waybill-pusher"}', 400)],
                           [gauge('worker_quiet_seconds{job="waybill-packager"}', 400)]),
    "WaybillPusherLookupsFail": ([counter('batch_retries_total{job="waybill-pusher"}', 3)],
                                 [counter('batch_retries_total{job="waybill-packager"}', 3)]),
    "WaybillPusherLags": ([gauge('unworked_records{job="waybill-pusher",topic="t"}', 10001)],
                          [gauge('unworked_records{job="waybill-pusher",topic="t"}', 10000)]),
}


def tests():
    """Returns promtool's tests. States without a common metric are in one of them, since each evaluates all rules."""
    made = []
    for number, fires in enumerate((True, False)):
        for alert, states in CASES.items():
            metrics = {name.partition("{")[0] for name, _ in states[number]}
            test = next((test for test in made if not test["metrics"] & metrics), None)
            if test is None:
                made.append(test := {"metrics": set(), "interval": f"{STEP}m", "input_series": [], "promql_expr_test": []})
            test["metrics"] |= metrics
            test["input_series"] += [{"series": name, "values": values} for name, values in states[number]]
            test["promql_expr_test"].append({
                "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})', "eval_time": f"{NOW}m",
                "exp_samples": [{"value": 1}] if fires else []})
    return [{key: value for key, value in test.items() if key != "metrics"} for test in made]


def runbooks(document):
    """Returns the text of each runbook by the name of its alert.

    >>> runbooks("# Runbooks\\n\\n## WaybillA\\n\\n**Meaning.** x\\n\\n## WaybillB\\n\\ny")
    {'WaybillA': '**Meaning.** x', 'WaybillB': 'y'}
    """
    parts = re.split(r"^## (\w+)\n", document, flags=re.M)
    return {name: text.strip() for name, text in zip(parts[1::2], parts[2::2])}


def fault(alert, books):
    """Returns what is wrong with the runbook of an alert, or nothing.

    >>> alert = {"alert": "WaybillA", "annotations": {"runbook_url": "compose/operate/runbooks.md#waybilla"}}
    >>> fault(alert, {})
    'WaybillA: there is no runbook'
    >>> fault(alert, {"WaybillA": "\\n\\n".join(f"**{one}.** x" for one in HEADINGS[1:])})
    'WaybillA: the runbook has no Meaning'
    >>> fault(alert, {"WaybillA": "\\n\\n".join(f"**{one}.** x" for one in HEADINGS)})
    """
    name = alert["alert"]
    url = f"compose/operate/runbooks.md#{name.lower()}"
    if alert["annotations"].get("runbook_url") != url:
        return f"{name}: runbook_url must be {url}"
    if name not in books:
        return f"{name}: there is no runbook"
    missing = [one for one in HEADINGS if not re.search(rf"^\*\*{one}\.\*\*\s+\S", books[name], re.M)]
    return f"{name}: the runbook has no {', '.join(missing)}" if missing else None


def queries(work):
    """Returns the exit code of promtool for the queries of all dashboards."""
    rules = [{"record": f"query:{path.stem}:{number}", "expr": re.sub(r"\$(credential|host|brand)", ".*", query)}
             for path in sorted((ROOT / "dashboards").glob("*.json"))
             for number, query in enumerate(
                 target["expr"].replace("$__rate_interval", "5m")
                 for panel in json.loads(path.read_text())["panels"] for target in panel["targets"])]
    path = pathlib.Path(work) / "queries.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboards", "rules": rules}]}))
    return subprocess.run(["promtool", "check", "rules", str(path)]).returncode


def main(work):
    files = sorted((ROOT / "alerts").glob("*.yaml"))
    alerts = [rule for path in files for group in yaml.safe_load(path.read_text())["groups"]
              for rule in group["rules"] if "alert" in rule]
    names = {alert["alert"] for alert in alerts}
    books = runbooks((ROOT / "runbooks.md").read_text())
    wrong = [text for text in (fault(alert, books) for alert in alerts) if text]
    wrong += [f"{name}: is in compose/operate/alerts or in CASES, not in both" for name in sorted(names ^ set(CASES))]
    wrong += [f"runbooks.md: there is no alert {name}" for name in books if name not in names]
    path = pathlib.Path(work) / "alert-tests.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [str(each) for each in files], "tests": tests()}))
    print("\n".join(wrong))
    return subprocess.run(["promtool", "test", "rules", str(path)]).returncode or queries(work) or bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
