"""What happens over HTTP: who is let in, a burst for scarce stock, the lives of orders, what operators do."""

import collections
import concurrent.futures
import time

# Of one activity: so many want so few.
BUYERS, SCARCE = 40, 12
# Calls at a time: each is a function's process of its own.
AT_ONCE = 8


def doors(report, api):
    """Tokens and routes, before there is anything behind them."""
    path, issuer = "/v1/activities/nothing/tokens", api.issuer

    def door(what, access, status, code=None, method="POST", where=path, body=None):
        answer = api.call(method, where, access, {} if body is None and method != "GET" else body)
        report.same(what, answer.said, f"{status} {code}" if code else f"{status}")

    door("no access token", None, 401)
    door("no JWT at all", "nonsense", 401)
    door("signed with a foreign key", issuer.token("alice", key=issuer.foreign_key), 401)
    door("expired", issuer.token("alice", exp=int(time.time()) - 5), 401)
    door("of another issuer", issuer.token("alice", iss="https://elsewhere.example"), 401)
    door("for another audience", issuer.token("alice", client_id="elsewhere"), 401)
    door("a buyer, an activity that is not there", issuer.token("alice"), 404, "unknown_activity")
    operators = "/v1/admin/activities/nothing/freeze"
    door("a buyer on an operator's route", issuer.token("alice"), 403, where=operators)
    door("an operator without the scope", issuer.operator("olga", scope="openid"), 403, where=operators)
    reason = {"reason": "rehearsal"}
    for what, groups in (("the scope without the role", "buyers"), ("an auditor who wants to act", "auditor")):
        door(what, issuer.operator("anna", groups), 403, "forbidden", where=operators, body=reason)
    door("an auditor who wants to read", issuer.operator("anna", "auditor"), 404, "unknown_activity", "GET",
         "/v1/admin/activities/nothing/reconciliation")
    door("an operator among other groups", issuer.operator("olga", "finance", "operator"), 404, "unknown_activity",
         where=operators, body=reason)
    door("a public route without a token", None, 404, "unknown_activity", "GET", "/v1/activities/nothing")
    door("a route that is not in the template", issuer.token("alice"), 404, method="GET", where="/dev/state")
    door("the payment route unsigned", None, 401, "not_signed", where="/v1/payments/webhook")


def opened(report, api, activity, stock, **changes):
    """An activity that is on sale."""
    saved = api.put_activity(activity, stock, **changes)
    report.same(f"{activity} is created", (saved.status, saved.headers.get("etag")), (201, '"1"'))
    done = api.preheat(activity)
    report.check(f"{activity} is preheated: {stock} units", done.body["complete"], done.body)


def burst(report, api, redis):
    """Scarce stock and many buyers at once."""
    opened(report, api, "rush", SCARCE)
    report.same("rush cannot be created twice", api.put_activity("rush", SCARCE).said, "412 precondition_failed")
    answers = {}
    began = time.monotonic()

    def buy(number):
        submission = api.submission(f"buyer-{number}", "rush")
        return submission, api.final(submission)

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for submission, answer in pool.map(buy, range(BUYERS)):
            answers[submission.buyer] = submission, answer
    took = time.monotonic() - began
    said = collections.Counter(answer.said for _, answer in answers.values())
    report.say(f"{BUYERS} buyers, {AT_ONCE} at a time, {took:.1f} s: "
               + ", ".join(f"{count} × {what}" for what, count in sorted(said.items())))
    winners = {buyer: pair for buyer, pair in answers.items() if pair[1].status in (200, 201)}
    report.same(f"of {BUYERS} buyers got one", len(winners), SCARCE)
    report.same("others were told sold_out", said["409 sold_out"], BUYERS - SCARCE)
    numbers = {answer.body["order_no"] for _, answer in winners.values()}
    report.same("order numbers", len(numbers), len(winners))
    fields = [field for bucket in (0, 1) for field in redis.call("HKEYS", f"hf:{{rush:{bucket}}}:orders")]
    known = len(numbers & set(fields))
    report.check(f"Redis has records of {known} of them: the gate was in the way", known, fields)
    buyer, (submission, first) = next(iter(winners.items()))
    again = api.final(submission)
    report.same("a submission that is sent again is the same order, replayed",
                (again.said, again.body["order_no"], again.body["replayed"]), ("200", first.body["order_no"], True))
    other = api.final(api.submission(buyer, "rush"))
    report.check("a buyer who has one gets no second", other.code in ("limit_reached", "sold_out"), other.body)
    shown = api.call("GET", "/v1/activities/rush")
    report.same("the public sees that none is left", shown.must(200)["skus"][0].get("available"), "none")


def lives(report, api):
    """One life after another: replayed, cancelled, paid, refunded, with a coupon."""
    opened(report, api, "lives", 60, limit={"scope": "activity", "max": 2})
    order, submission = api.order("carol", "lives")
    report.same("an order", (order["status"], order["total"]), ("PENDING_PAYMENT", 49900))
    altered = api.send(type(submission)(submission.buyer, "lives", submission.token, [{"sku": "phone", "quantity": 2}]))
    report.same("its token with other lines", altered.said, "422 token_mismatch")
    stolen = api.send(type(submission)("mallory", "lives", submission.token, submission.lines))
    report.same("its token in other hands", stolen.said, "403 token_invalid")
    report.same("its buyer sees it", api.about("GET", order, "carol").must(200)["order_no"], order["order_no"])
    report.same("nobody else does", api.about("GET", order, "mallory").said, "404 unknown_order")
    listed = api.call("GET", "/v1/activities/lives/orders", api.buyer("carol")).must(200)["orders"]
    report.same("it is listed", [each["order_no"] for each in listed], [order["order_no"]])
    cancelled = api.about("POST", order, "carol", "/cancel")
    report.same("cancelled", cancelled.must(200)["status"], "CANCELLED")
    report.same("cancelled again", api.about("POST", order, "carol", "/cancel").must(200)["status"], "CANCELLED")
    report.same("its submission is over", api.final(submission).must(200)["status"], "CANCELLED")
    payments(report, api)
    coupons(report, api)


def payments(report, api):
    order, _ = api.order("dave", "lives")
    for what, how in (("with a wrong secret", {"secret": bytes(32)}), ("an hour ago", {"at": time.time() - 3600})):
        report.same(f"a webhook signed {what}", api.pay(order, "pay-1", **how).said, "401 not_signed")
    report.same("a signed webhook pays", api.pay(order, "pay-1").must(200)["outcome"], "paid")
    report.same("told again it has no effect", api.pay(order, "pay-1").must(200)["outcome"], "no_effect")
    report.same("another payment of it is due back", api.pay(order, "pay-2").must(200)["outcome"], "refund_due")
    report.same("a paid order is not cancelled", api.about("POST", order, "dave", "/cancel").said, "409 already_paid")
    refund = f"lives/orders/{order['order_no']}/refund"
    for what in ("an operator refunds it", "refunded again"):
        report.same(what, api.operate(refund, {"reason": "rehearsal"}).must(200)["status"], "REFUNDED")
    kept, _ = api.order("erin", "lives")
    report.same("another order is paid and stays", api.pay(kept, "pay-3").must(200)["outcome"], "paid")
    cancel = f"lives/orders/{kept['order_no']}/cancel"
    refused = api.operate(cancel, {"reason": "rehearsal"})
    report.same("not even an operator cancels it", refused.said, "409 already_paid")


def coupons(report, api):
    issued = api.operate("lives/coupons", {"count": 2, "discount": 900}).must(201)["coupons"]
    order, _ = api.order("frank", "lives", coupon=issued[0])
    report.same("a coupon takes off its discount", order["total"], 49000)
    used = api.final(api.submission("grace", "lives", coupon=issued[0]))
    report.same("a used coupon", used.said, "409 coupon_used")
    forged = api.final(api.submission("grace", "lives", coupon="0" * 40))
    report.same("a coupon that nobody issued", forged.said, "403 coupon_invalid")


def operating(report, api):
    """What operators do while a sale runs."""
    frozen = api.operate("lives/freeze", {"reason": "rehearsal"}).must(200)
    report.check("a freeze is in force in every bucket", frozen["in_force"], frozen)
    waiting = api.submission("heidi", "lives")
    report.same("while frozen", api.send(waiting).said, "503 frozen")
    thawed = api.operate("lives/unfreeze", {"reason": "rehearsal"}).must(200)
    report.check("unfrozen", thawed["in_force"] and not thawed["frozen"], thawed)
    report.same("the same submission afterwards", api.final(waiting).said, "201")
    key, more = {"Idempotency-Key": "rehearsal-1"}, {"sku": "phone", "delta": 5, "reason": "rehearsal"}
    adjusted = api.operate("lives/adjust", more, headers=key).must(200)
    allotted = sum(bucket["allotted"] for bucket in adjusted["buckets"])
    report.check("5 units more", adjusted["in_force"] and allotted == 65, adjusted)
    again = api.operate("lives/adjust", more, headers=key).must(200)
    report.same("the same adjustment again", sum(bucket["allotted"] for bucket in again["buckets"]), 65)
    other = api.operate("lives/adjust", {**more, "delta": 6}, headers=key)
    report.same("another one with its key", other.said, "422 idempotency_mismatch")
    opened(report, api, "over", 5)
    report.same("a sale is ended", api.operate("over/end").status, 200)
    tardy = api.call("POST", "/v1/activities/over/tokens", api.buyer("ivan"), {})
    report.same("and takes no more orders", tardy.said, "410 ended")
