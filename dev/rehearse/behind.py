"""What happens behind the answers, as it is deployed: the rollback queue, its dead letters, the schedules.

Begun early and looked at late: a schedule's minute and a queue's retries go by while buyers are served.
"""

import contextlib
import json

from lossy import losing
from report import Failed, until
from sale import opened

# Reconciliation leaves younger submissions alone, so what is settled before was settled by its message.
GRACE_S = 60
# Receives of a message before it is a dead letter, and how long it may not be received again meanwhile, here.
RECEIVES, VISIBILITY_S = 5, 5
SCHEDULED_WITHIN_S = 200
POISON = "this is no roll-back message"


def hurry(report, cloud):
    """Checks how queue and schedule are deployed, and then makes both quicker, or this would take ten minutes."""
    url, deployed = cloud.queues["roll-back"], cloud.attributes("roll-back")
    timeout = cloud.function("RollBack")["Timeout"]
    visible = int(deployed["VisibilityTimeout"])
    report.check(f"a rollback message is out of sight for {visible} s, at least six times its function's {timeout} s",
                 visible >= 6 * timeout)
    receives = int(json.loads(deployed["RedrivePolicy"])["maxReceiveCount"])
    report.same("it is a dead letter after so many receives", receives, RECEIVES)
    cloud.sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": str(VISIBILITY_S)})
    report.say(f"otherwise than deployed: out of sight for {VISIBILITY_S} s only")
    for logical, wanted in (("ExpireOrders", 1), ("RebalanceStock", 1), ("Reconcile", 5)):
        rule = scheduled(cloud, logical)
        every = "rate(1 minute)" if wanted == 1 else f"rate({wanted} minutes)"
        report.same(f"{logical} is scheduled", (rule["ScheduleExpression"], rule["State"]), (every, "ENABLED"))
        if wanted != 1:
            cloud.events.put_rule(Name=rule["Name"], ScheduleExpression="rate(1 minute)", State="ENABLED")
            report.say(f"otherwise than deployed: {logical} every minute")


def scheduled(cloud, logical):
    """The one rule that starts the function."""
    arn = cloud.function(logical)["FunctionArn"]
    names = cloud.events.list_rule_names_by_target(TargetArn=arn)["RuleNames"]
    if len(names) != 1:
        raise Failed(f"{logical} is the target of {names}")
    return cloud.events.describe_rule(Name=names[0])


class Begun:
    """What was begun and is looked at later."""

    late = None


def begin(report, cloud, api):
    """A message nobody can read, an order nobody pays, a sale that stands uneven."""
    cloud.sqs.send_message(QueueUrl=cloud.queues["roll-back"], MessageBody=POISON)
    opened(report, api, "late", 1, payment_minutes=1, buckets=1)
    begun = Begun()
    begun.late, _ = api.order("judy", "late")
    opened(report, api, "uneven", 40, limit={"scope": "activity", "max": 100})
    api.order("kim", "uneven", quantity=15)
    report.ok("an order nobody pays, and one that leaves its bucket with little")
    return begun


def lost_commit(report, cloud, api):
    """The only unit is admitted by Redis, and the transaction never reaches the database."""
    opened(report, api, "lost", 1, buckets=1)
    submission, other = api.submission("laura", "lost"), api.submission("mike", "lost")
    with losing(cloud.aws, "TransactWriteItems") as (url, lost):
        with configured(cloud, "PlaceOrder", AWS_ENDPOINT_URL_DYNAMODB=url):
            answer = api.send(submission)
            report.same("its buyer is told that it is not known yet", (answer.said, answer.body.get("status")),
                        ("202", "CONFIRMING"))
            order = {"activity": "lost", "order_no": answer.body["order_no"]}
            # Both before the message is due, which is after ten seconds.
            asked, held = api.about("GET", order, "laura"), api.final(other)
        report.check("PlaceOrder's transactions were lost on the way", lost)
    report.same("where to ask", answer.headers.get("location"), f"/v1/activities/lost/orders/{order['order_no']}")
    report.same("asked there", asked.must(200)["status"], "CONFIRMING")
    report.same("the unit is held meanwhile", held.said, "409 sold_out")

    def settled():
        view = api.about("GET", order, "laura")
        return view.status == 200 and view.body["status"] == "ABORTED"

    until(GRACE_S - 10, "the message of the lost submission is consumed", settled)
    report.ok("RollBack consumed its message from the queue, and it is ABORTED")
    report.same("the submission sent again", api.final(submission).said, "409 order_aborted")
    logged = [event for event in cloud.logged() if event.get("message") == "roll_back"]
    report.check("the roll-back is logged with its order",
                 any(event.get("order_no") == order["order_no"] for event in logged), logged)
    bought, _ = api.order("nina", "lost")
    report.same("the unit came back and is sold to another buyer", bought["status"], "PENDING_PAYMENT")


@contextlib.contextmanager
def configured(cloud, logical, **variables):
    """Deploys the function with other variables, and afterwards with those it had."""
    name, alias, deployed = cloud.physical(logical), cloud.alias(logical), cloud.variables(logical)

    def update(environment):
        cloud.lambdas.update_function_configuration(FunctionName=name, Environment={"Variables": environment})
        until(30, f"{logical} is configured",
              lambda: cloud.function(logical).get("LastUpdateStatus", "Successful") == "Successful")

    def point(version):
        cloud.lambdas.update_alias(FunctionName=name, Name=alias, FunctionVersion=version)

    before = alias and cloud.lambdas.get_alias(FunctionName=name, Name=alias)["FunctionVersion"]
    update({**deployed, **variables})
    if alias:
        point(cloud.lambdas.publish_version(FunctionName=name)["Version"])
    try:
        yield
    finally:
        update(deployed)
        if alias:
            point(before)


def dead_letters(report, cloud):
    """What can be read by nobody is kept for a person, and stands in nobody's way."""
    until(90, "the message that cannot be read is a dead letter", lambda: cloud.depth("roll-back-dead") == 1)
    report.same("the message that cannot be read is a dead letter, whole", cloud.take_all("roll-back-dead"), [POISON])
    failed = [event for event in cloud.logged() if event.get("message") in ("message_failed", "message_fails_again")]
    receives = sorted(event.get("receives") for event in failed)
    report.same("it failed at each of its receives", receives, list(range(1, RECEIVES + 1)))
    again = sum(event["message"] == "message_fails_again" for event in failed)
    report.same("from the third on with an alarm", again, RECEIVES - 2)
    until(30, "the rollback queue is empty", lambda: cloud.depth("roll-back") == 0)
    report.ok("the rollback queue is empty")


def schedules(report, cloud, api, begun):
    """Each of the three by its rule: nothing here calls them."""
    def closed():
        return api.about("GET", begun.late, "judy").must(200)["status"] == "CLOSED"

    until(SCHEDULED_WITHIN_S, "the order nobody paid is closed", closed)
    report.ok("ExpireOrders ran by its schedule and closed the order nobody paid")
    again, _ = api.order("oscar", "late")
    report.same("its unit is on sale again", again["status"], "PENDING_PAYMENT")

    def moved():
        return [row for row in cloud.items("audit")
                if row["activity"] == "uneven" and row["operator"] == "rebalance-stock"]

    rows = until(SCHEDULED_WITHIN_S, "RebalanceStock moved stock", lambda: len(moved()) >= 2 and moved())
    report.ok(f"RebalanceStock ran by its schedule and moved stock: {len(rows)} audit rows")

    def passed():
        report_ = api.operate("lives/reconciliation", method="GET").must(200)
        return report_["last_full"] or report_["last_incremental"]

    until(SCHEDULED_WITHIN_S, "Reconcile compared everything", passed)
    report.ok("Reconcile ran by its schedule and came to the end of a pass")


def late_money(report, api, begun):
    """The order of the first buyer was closed, and its unit is sold: the money goes back."""
    outcome = api.pay(begun.late, "pay-late").must(200)
    report.same("a payment that comes too late", (outcome["outcome"], outcome.get("reason")),
                ("refund_due", "paid_too_late"))
