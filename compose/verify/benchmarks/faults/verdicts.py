"""Compares the pusher's counters with the simulator's. Only this module of the run names the pusher's metrics."""


class Verdicts:
    """The increase of the pusher's counters between two readings."""

    def __init__(self, before, after):
        def grown(name, **labels):
            return after.total(name, **labels) - before.total(name, **labels)

        self.delivered = grown("waybill_pushes_total", outcome="delivered")
        self.retried = grown("waybill_pushes_total", outcome="retried")
        self.coalesced = grown("waybill_pushes_total", outcome="coalesced")
        self.limited = grown("waybill_pushes_total", outcome="limited")
        # Included in `dropped`.
        self.unknown = grown("waybill_pushes_total", outcome="unknown-token")
        self.dropped = grown("waybill_pushes_total", outcome="dropped")
        # Registrations: one answer may end several, or none if they were renewed meanwhile.
        self.retired = grown("waybill_push_tokens_retired_total")
        self.dead_letters = grown("waybill_push_dead_letters_total")
        self.requests = grown("waybill_apns_requests_total")
        # Answers about push tokens.
        self.gone = grown("waybill_apns_requests_total", status="410")
        self.bad = grown("waybill_apns_requests_total", status="400", reason="BadDeviceToken")
        # By status as text; `none`: no answer, or never sent.
        self.answers = {
            status: grown("waybill_apns_requests_total", status=status)
            for status in after.by("waybill_apns_requests_total", "status")}

    def shown(self):
        shown = [(f"pusher.{name}", value) for name, value in vars(self).items() if name != "answers"]
        return shown + [(f"pusher.status_{status}", count) for status, count in sorted(self.answers.items())]


def judge_verdicts(verdicts, seen, findings):
    """
    Checks that no verdict is missing or counted twice.

    Each outcome of a request is exactly one of delivered, retried, given up with a dead letter, or a push token that is
    gone; a 410 that is older than the registration may also be counted as retried. Each notification that APNs accepted
    is delivered, except for answers that were lost with their connection or came too late; each registration that ended
    was retired once. For each status, APNs answered it as often as the pusher counted it, except for lost answers.

    seen: statuses, accepted, perhaps_lost, ended, tombstones, refused (final 400s), bad_retired, outdated (410s for
    devices that are still registered), given_up, dead_letters.

    >>> from faults.judge import Findings
    >>> from metrics import Metrics
    >>> def judged(of={}, **changes):
    ...     verdicts, findings = Verdicts(Metrics(""), Metrics("")), Findings()
    ...     vars(verdicts).update({
    ...         "delivered": 100, "retried": 10, "dropped": 2, "unknown": 1, "retired": 2, "dead_letters": 2,
    ...         "requests": 113, "gone": 1, "bad": 1, "answers": {"200": 100, "410": 1}} | changes)
    ...     judge_verdicts(verdicts, {
    ...         "statuses": {"200": 101, "410": 1}, "accepted": 101, "perhaps_lost": 1, "ended": 2, "tombstones": 3,
    ...         "refused": 1, "bad_retired": 0, "outdated": 0, "given_up": 1, "dead_letters": 2} | of, findings)
    ...     return [text.split(":")[0] for text in findings.by_rule["verdicts"]]
    >>> judged()
    []

    A delivery that is counted twice, one that is not counted, and an outcome that led to nothing:

    >>> judged(delivered=102), judged(delivered=99), judged(requests=114)
    (['delivered', 'outcomes'], ['delivered', 'outcomes'], ['outcomes'])

    A registration that ended without being counted, and one that is counted twice:

    >>> judged(retired=1), judged(retired=4)
    (['retired'], ['retired'])

    An answer that was not counted, or counted twice; a dead letter that is missing, and a notification dropped without
    one:

    >>> judged(answers={"200": 99}), judged(answers={"410": 2}), judged(dead_letters=1, requests=112), judged(dropped=3)
    (['status 200'], ['status 410'], ['dead_letters', 'dropped'], ['dropped'])

    A dead letter without a cause, and a cause without one:

    >>> judged({"dead_letters": 3}, dead_letters=3, dropped=3, retried=9), judged({"given_up": 3})
    (['given up'], ['given up'])

    An outdated 410 may be retried, but not dropped without a dead letter:

    >>> judged({"outdated": 1}, dropped=3), judged({"outdated": 1}, retried=11)
    (['dropped'], [])
    """
    def wrong(what, text):
        findings.add("verdicts", f"{what}: {text}")

    lost, outdated = seen["perhaps_lost"], seen["outdated"]
    if not 0 <= seen["accepted"] - verdicts.delivered <= lost:
        wrong("delivered", (
            f"{verdicts.delivered}, APNs accepted {seen['accepted']}, at most {lost} answers may have been lost"))
    # A device that registers again was retired, but has not ended; a registration that is renewed after its
    # tombstone was written is not retired.
    if not seen["ended"] <= verdicts.retired <= seen["tombstones"]:
        wrong("retired", (
            f"{verdicts.retired}, {seen['ended']} registrations are gone, {seen['tombstones']} tombstones written"))
    for status, count in sorted(verdicts.answers.items()):
        answered = seen["statuses"].get(status, 0)
        if status.isdigit() and not 0 <= answered - count <= lost:
            wrong(f"status {status}", f"APNs answered it {answered} times, the pusher counted {count}")
    ends = (verdicts.delivered + verdicts.retried + verdicts.dead_letters + verdicts.gone + verdicts.bad
            - verdicts.unknown)
    if not 0 <= ends - verdicts.requests <= outdated:
        wrong("outcomes", f"{verdicts.requests} requests had {ends} outcomes, of which {outdated} may be double")
    if verdicts.dead_letters != seen["dead_letters"]:
        wrong("dead_letters", f"{verdicts.dead_letters} were counted, {seen['dead_letters']} are in the topic")
    final = seen["refused"] - seen["bad_retired"] + seen["given_up"]
    if not 0 <= final - verdicts.dead_letters <= min(lost, seen["refused"]):
        wrong("given up", f"{verdicts.dead_letters}, APNs refused or never accepted {final}")
    if verdicts.dropped != verdicts.dead_letters:
        wrong("dropped", f"{verdicts.dropped} without delivery, {verdicts.dead_letters} with a dead letter")
