"""What is left in the tables and queues in the end, and whether it adds up."""

import collections
import json

from report import until

RELAYED_WITHIN_S = 60
LIVE = {"PENDING_PAYMENT", "PAID", "SHIPPED"}
# Kinds of findings that the protocol excludes: docs/protocol.md, "Reconcile".
NEVER = {"returned_while_live", "gate_sum", "database_sum", "audit_gap"}
NEVER_COUNTED = ("Oversold", "ReturnedWhileLive", "SumsCorrected", "AuditGaps", "UntrackedChanges", "BadData")
# Errors that were provoked here, and one that a machine with too much to do makes by itself.
PROVOKED, BUSY = {"message_fails_again", "poison_record"}, {"breaker_open"}


def reconciled(report, api, activities):
    """Both stores agree: within two reconciliations, and without anything that must never be."""
    for activity in activities:
        first = api.reconcile(activity)
        last = first if first["run"] and first["run"]["found"] == 0 else api.reconcile(activity)
        never = [finding for finding in last["counts"] if finding["kind"] in NEVER]
        clean = last["run"] is not None and last["run"]["found"] == 0 and last["run"]["faults"] == 0
        report.check(f"{activity}: both stores agree, {last['run']['compared']} orders and records compared"
                     if last["run"] else f"{activity}: both stores agree", clean and not never, last)
        for finding in last["counts"]:
            report.say(f"found before in {activity}, and repaired: {finding['count']} × {finding['kind']}")


def stock_of(items):
    return [item for item in items if item["sk"] == "S"]


def orders_of(items):
    return [item for item in items if item["sk"] == "O" and item.get("status", "ABORTED") != "ABORTED"]


def sums(report, cloud):
    """No unit sold twice, none lost: in the database, per stock item."""
    items = cloud.items("orders")
    held = collections.Counter()
    for order in orders_of(items):
        if order["status"] in LIVE:
            for part in order["parts"]:
                held[order["activity"], part["sku"], int(part["bucket"])] += int(part["units"])
    wrong = [
        item for item in stock_of(items)
        if item["allotted"] != item["available"] + held[item["activity"], item["sku"], int(item["bucket"])]
    ]
    report.check(f"available + units of live orders = allotted in {len(stock_of(items))} stock items", not wrong, wrong)


def trail(report, cloud):
    """The relay's rows: one per version of every stock item, each with its operation."""
    def gaps():
        rows = collections.defaultdict(list)
        for row in cloud.items("audit"):
            rows[row["activity"], row["sku"], int(row["bucket"])].append(int(row["version"]))
        stock = {
            (item["activity"], item["sku"], int(item["bucket"])): int(item["version"])
            for item in stock_of(cloud.items("orders"))
        }
        return {
            key: (sorted(rows[key]), version) for key, version in stock.items()
            if sorted(rows[key]) != list(range(1, version + 1))
        }

    until(RELAYED_WITHIN_S, "every stock change has its audit row", lambda: not gaps())
    rows = cloud.items("audit")
    report.ok(f"every stock change has exactly one audit row: {len(rows)} rows")
    untracked = [row for row in rows if row.get("operation") is None or row.get("filled")]
    report.check("each names the operation it came from", not untracked, untracked)
    kinds = collections.Counter(row["operation"] for row in rows)
    report.check("orders, cancellations, expiries, refunds, operators and the system itself are among them",
                 {"order", "cancel", "expiry", "refund", "manual", "automatic"} <= set(kinds), dict(kinds))


def events(report, cloud):
    """The relay's events: of every order its states, each under an id that is the same for a repeat."""
    items = cloud.items("orders")
    wanted = set()
    for order in orders_of(items):
        # What is refunded was paid before; every other state here follows on the first.
        states = {"PENDING_PAYMENT", order["status"]} | ({"PAID"} if order["status"] == "REFUNDED" else set())
        wanted |= {f"{order['order_no']}#{state}#{order['take']}" for state in states}
    for item in items:
        if item["pk"].startswith("F#"):
            wanted.add(f"{item['pk'][2:]}#REFUND_DUE#{item['sk']}")
    seen = collections.Counter()

    def all_there():
        seen.update(json.loads(body)["event_id"] for body in cloud.take_all("fulfilment"))
        return wanted <= set(seen)

    try:
        until(RELAYED_WITHIN_S, "every event is on the fulfilment queue", all_there)
    finally:
        missing = wanted - set(seen)
        report.check(f"every state of every order is an event on the fulfilment queue: {len(wanted)} events",
                     not missing, sorted(missing)[:10])
    report.check("and nothing else is", not set(seen) - wanted, sorted(set(seen) - wanted)[:10])
    returns = sum("#REFUND_DUE#" in name for name in wanted)
    report.check(f"money that goes back is among them: {returns}", returns >= 3, returns)


def unreadable(report, cloud):
    """A record of the stream that nobody can read goes whole to the relay's dead letters and holds up nothing."""
    item = {"pk": {"S": "O#REHEARSAL"}, "sk": {"S": "O"}, "format": {"N": "999"}}
    cloud.dynamodb.put_item(TableName=cloud.tables["orders"], Item=item)
    until(RELAYED_WITHIN_S, "the record is a dead letter", lambda: cloud.depth("relay-dead") == 1)
    letter, = cloud.take_all("relay-dead")
    report.check("a stream record nobody can read is a dead letter, whole",
                 json.loads(letter)["dynamodb"]["Keys"]["pk"]["S"] == "O#REHEARSAL", letter)


def metrics(report, cloud, api):
    """The embedded metrics among the lines of the log, added up over all functions."""
    total = collections.Counter()
    for line in cloud.logged():
        for directive in line.get("_aws", {}).get("CloudWatchMetrics", []):
            if directive["Namespace"] == "Holdfast" and ["Stack"] in directive["Dimensions"]:
                for name in (metric["Name"] for metric in directive["Metrics"]):
                    values = line[name] if isinstance(line[name], list) else [line[name]]
                    total[name] += sum(values)
    report.same("orders that were told 201 are counted", total["OrdersCreated"], api.created)
    units = sum(line["quantity"] for order in orders_of(cloud.items("orders")) for line in order["lines"])
    report.check(f"so are the units that were sold, at least once: {units}", total["SoldUnits"] >= units, dict(total))
    for name in ("RollBacks", "RollBacksSent", "RollBacksFailed", "DeadRecords", "ReturnedUnits", "Differences"):
        report.check(f"{name} is told", name in total, dict(total))
    bad = {name: total[name] for name in NEVER_COUNTED if total[name]}
    report.check("what must not happen is not counted", not bad, bad)


def traced(report, cloud, api):
    """The trace of a request is in the lines of whoever works on what it began."""
    def traces(message):
        return {event["trace_id"] for event in lines if event.get("message") == message and event.get("trace_id")}

    lines = cloud.logged()
    for first, then, by, least in (
        ("commit_unknown", "roll_back", "RollBack", 1), ("place_order", "order_event", "Relay", api.created),
    ):
        both = traces(first) & traces(then)
        seen = traces(first), traces(then)
        report.check(f"{len(both)} traces go from PlaceOrder to {by}", len(both) >= least, seen)


def quiet(report, cloud):
    """No function logged an error but those that were provoked here."""
    errors = [event for event in cloud.logged() if event.get("level") == "ERROR"]
    others = [event for event in errors if event.get("message") not in PROVOKED | BUSY]
    if any(event.get("message") in BUSY for event in errors):
        report.say("this machine was busy: Redis did not answer in time, and orders went past it")
    report.check("no function logged an error that was not provoked", not others, others[:5])
    report.same("a person is told of what was provoked", PROVOKED - {event.get("message") for event in errors}, set())
